/**
 * Looks whether the secret keys in use open what the database holds. A key that is not the database's ends this node, so
 * that others deliver its mail. Rows that do not open are marked and logged once; they are looked for rarely, because
 * all sealed values are opened. The rows that are marked are looked at again each time.
 */
import type { Logger } from 'pino';
import type { Config } from '../../config/config.ts';
import type { World } from '../../core/world.ts';
import type { ServiceDatabase } from '../service-database.ts';
import { foreignKeyProblem } from '../../store/secret-check.ts';
import type { SecretBox } from '../../store/secrets.ts';
import { markAllUnusable, unmarkUsable, warnUnusable } from '../../store/unusable-secrets.ts';

const ALL_EVERY_MS = 10 * 60_000;

type SecretWatchOptions = {
  database: Pick<ServiceDatabase, 'db' | 'dataDir'>;
  secrets: SecretBox;
  config: Pick<Config, 'secretKey'>;
  log: Logger;
  world: Pick<World, 'monotonicMs'>;
};

export class SecretWatch {
  readonly #options: SecretWatchOptions;
  #allSinceMs: number | null = null;

  constructor(options: SecretWatchOptions) {
    this.#options = options;
  }

  /** @returns why this node must not work with its key; null: it may */
  async run(isStopping: () => boolean): Promise<string | null> {
    const { database, secrets, config, log, world } = this.#options;
    const { db, dataDir } = database;
    const problem = await foreignKeyProblem(db, { dataDir, configured: config.secretKey }, secrets);
    if (problem !== null) return problem;
    for (const { kind, id } of await unmarkUsable(db, secrets)) {
      log.info({ kind, id }, 'the secret key opens a secret again that it did not open');
    }
    const nowMs = world.monotonicMs();
    if (this.#allSinceMs !== null && nowMs - this.#allSinceMs < ALL_EVERY_MS) return null;
    for (const row of await markAllUnusable(db, secrets, { isStopping })) warnUnusable(log, row);
    this.#allSinceMs = nowMs;
    return null;
  }
}
