/**
 * Checks that the secret keys in use open the secrets in the database. Another key than the key of the database ends
 * this node, so that other nodes deliver its mail. Rows that do not open are marked and logged once. All sealed values
 * are checked rarely, because each has to be opened. Marked rows are checked each time.
 */
import type { Logger } from 'pino';
import type { Config } from '../config/config.ts';
import type { OperatorEvents } from '../core/operator-events.ts';
import type { World } from '../lib/world.ts';
import type { ServiceDatabase } from '../service/service-database.ts';
import { foreignKeyProblem } from './key-check-store.ts';
import type { SecretBox } from './secret-box.ts';
import {
  areAllDomainsUnusable,
  countUnusable,
  markAllUnusable,
  unmarkUsable,
  type UnusableCounts,
  warnUnusable,
} from './unusable-store.ts';
import type { WorkerPool } from '../service/pool/worker-pool.ts';

const ALL_VALUES_EVERY_MS = 10 * 60_000;

const CONDITION = { type: 'secret_key.unusable', subject: 'stored secrets' } as const;
const REMEDY =
  'Start the service with the secret key that sealed them. `letterhaus domains list` shows the domains. See docs/troubleshooting.md.';

const NOTHING_OPENS = {
  code: 'secret_key',
  reason: 'the secret key does not open the DKIM key of any live domain',
  isAccepting: true,
} as const;

type SecretWatchOptions = {
  database: Pick<ServiceDatabase, 'db' | 'dataDir'>;
  secrets: SecretBox;
  config: Pick<Config, 'secretKey'>;
  pool: Pick<WorkerPool, 'refuseMail' | 'setWarnings'>;
  operatorEvents: OperatorEvents;
  log: Logger;
  world: Pick<World, 'monotonicMs'>;
};

export class SecretWatch {
  readonly #options: SecretWatchOptions;
  #allCheckedAtMs: number | null = null;

  constructor(options: SecretWatchOptions) {
    this.#options = options;
  }

  /** Checks the keys. Returns why this node must not work with its key; null when it may. */
  async run(isStopping: () => boolean): Promise<string | null> {
    const { database, secrets, config, log, world } = this.#options;
    const { db, dataDir } = database;
    const problem = await foreignKeyProblem(db, { dataDir, configured: config.secretKey }, secrets);
    if (problem !== null) return problem;
    for (const { kind, id } of await unmarkUsable(db, secrets)) {
      log.info({ kind, id }, 'the secret key opens a secret again');
    }
    const nowMs = world.monotonicMs();
    if (this.#allCheckedAtMs === null || nowMs - this.#allCheckedAtMs >= ALL_VALUES_EVERY_MS) {
      for (const row of await markAllUnusable(db, secrets, { isStopping })) warnUnusable(log, row);
      this.#allCheckedAtMs = nowMs;
    }
    await this.#report();
    return null;
  }

  async #report(): Promise<void> {
    const { database, pool, operatorEvents } = this.#options;
    const counts = await countUnusable(database.db);
    const isAll = counts.domain > 0 && (await areAllDomainsUnusable(database.db));
    pool.refuseMail('secret_key', isAll ? NOTHING_OPENS : null);
    const warnings = warningsOf(counts);
    pool.setWarnings(warnings);
    for (const message of warnings) {
      operatorEvents.raise({ ...CONDITION, message, remedy: REMEDY, details: counts });
    }
    if (warnings.length === 0) operatorEvents.clear(CONDITION);
  }
}

/** Returns counts without names, because /readyz needs no key. */
function warningsOf({ domain, webhook, member }: UnusableCounts): string[] {
  const counts = { 'sending domains': domain, webhooks: webhook, 'second factors': member };
  const parts = Object.entries(counts).flatMap(([noun, count]) =>
    count > 0 ? [`${count} ${noun}`] : [],
  );
  return parts.length === 0
    ? []
    : [`The secret key does not open the secrets of: ${parts.join(', ')}.`];
}
