/**
 * The secret keys of a running service: all workers adopt the keys that `letterhaus secrets rotate` writes into
 * the data directory within seconds; when all have them, that is recorded in the database. A configured
 * key (LETTERHAUS_SECRET_KEY) changes with a restart. A file that lacks the key in use changes nothing, because stored
 * secrets could not be opened any more; one that was deleted is written again, because the next start needs it.
 */
import type { Logger } from 'pino';
import type { Config } from '../config/config.ts';
import type { ServiceDatabase } from '../service/service-database.ts';
import {
  makeSecretKey,
  noteSecretKeys,
  readSecretKey,
  type SecretBox,
  secretKeyFile,
  secretKeysOf,
} from './secret-store.ts';
import type { WorkerPool } from '../service/worker/pool.ts';

const LOOK_EVERY_MS = 1_000;

export type SecretKeepingOptions = {
  database: ServiceDatabase;
  pool: WorkerPool;
  config: Config;
  /** Of the supervisor. */
  secrets: SecretBox;
  log: Logger;
};

export function keepSecretKeys(options: SecretKeepingOptions): Disposable {
  const { database, log } = options;
  let used = database.secretKey;
  let isNoted = false;
  let problem: string | null = null;
  let timer: NodeJS.Timeout | undefined;
  const look = async (): Promise<void> => {
    const secretKey = presentKey(options, used);
    if (secretKey === used && isNoted) return;
    if (secretKey !== used) {
      requireSealingKey(secretKey, used);
      await takeUp(options, secretKey);
    }
    used = secretKey;
    isNoted = false;
    const { keyIds } = options.secrets;
    await noteSecretKeys(database.db, { instance: database.instance, keyIds });
    isNoted = true;
    problem = null;
  };
  const turn = async (): Promise<void> => {
    try {
      await look();
    } catch (error) {
      const message = String(error);
      // Logged once per reason: it is retried every second.
      if (message !== problem) log.warn({ err: error }, 'the secret keys could not be read');
      problem = message;
    }
    if (timer !== undefined) timer = setTimeout(() => void turn(), LOOK_EVERY_MS);
  };
  timer = setTimeout(() => void turn(), 0);
  return {
    [Symbol.dispose]: () => {
      clearTimeout(timer);
      timer = undefined;
    },
  };
}

function presentKey({ database, config, log }: SecretKeepingOptions, used: string): string {
  if (config.secretKey !== null) return used;
  const { dataDir } = database;
  const present = readSecretKey(dataDir);
  if (present !== null) return present;
  const written = makeSecretKey(dataDir, used);
  log.warn(
    { file: secretKeyFile(dataDir) },
    'the file of the secret key was missing; the key in use was written there again',
  );
  return written;
}

/** Every step of a rotation keeps the key in use. @throws when the new keys lack it */
function requireSealingKey(present: string, used: string): void {
  const [sealing = ''] = secretKeysOf(used);
  if (secretKeysOf(present).includes(sealing)) return;
  throw new Error(
    'the file secrets/secret-key does not contain the key that the secrets are encrypted with',
  );
}

async function takeUp(
  { pool, secrets, log }: SecretKeepingOptions,
  secretKey: string,
): Promise<void> {
  secrets.use(secretKey);
  await pool.useSecretKeys(secretKey);
  log.info({ keys: secrets.keyIds }, 'the secret keys have changed');
}
