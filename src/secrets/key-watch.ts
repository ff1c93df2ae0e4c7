/**
 * Watches the secret keys of a running service. Within seconds all workers adopt the keys that `letterhaus secrets
 * rotate` writes into the data directory. When all have them, the database records that. A configured key
 * (LETTERHAUS_SECRET_KEY) changes with a restart. A file without the key in use is ignored, because stored secrets
 * could not be opened any more. A deleted file is written again, because the next start needs it.
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
import type { WorkerPool } from '../service/worker/worker-pool.ts';

const LOOK_EVERY_MS = 1_000;

export type SecretKeepingOptions = {
  database: ServiceDatabase;
  pool: WorkerPool;
  config: Config;
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
      await adopt(options, secretKey);
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
      // Logged once per reason, because it is retried every second.
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
    'the secret key file was missing; the key in use was written to it again',
  );
  return written;
}

/** Checks that the new keys include the key in use, as in every step of a rotation. @throws when they lack it */
function requireSealingKey(present: string, used: string): void {
  const [sealing = ''] = secretKeysOf(used);
  if (secretKeysOf(present).includes(sealing)) return;
  throw new Error('the file secrets/secret-key does not contain the key that encrypts the secrets');
}

async function adopt(
  { pool, secrets, log }: SecretKeepingOptions,
  secretKey: string,
): Promise<void> {
  secrets.use(secretKey);
  await pool.useSecretKeys(secretKey);
  log.info({ keys: secrets.keyIds }, 'the secret keys have changed');
}
