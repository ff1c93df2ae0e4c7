/**
 * Watches the secret keys of a running service. Within seconds all workers adopt the keys that `letterhaus secrets
 * rotate` writes into the data directory. When all have them, the database records that. A configured key
 * (LETTERHAUS_SECRET_KEY) changes with a restart. A file without the key in use is ignored, because stored secrets
 * could not be opened any more. A deleted file is written again, because the next start needs it.
 */
import type { Logger } from 'pino';
import type { Config } from '../config/config.ts';
import type { ServiceDatabase } from '../service/service-database.ts';
import { parseSecretKeys } from './secret-keys.ts';
import type { SecretBox } from './secret-box.ts';
import { createSecretKeyFile, readSecretKey, secretKeyFile } from './secret-key-file.ts';
import { recordSecretKeys } from './secret-store.ts';
import type { WorkerPool } from '../service/pool/worker-pool.ts';

const CHECK_EVERY_MS = 1_000;

export type SecretKeyWatchOptions = {
  database: ServiceDatabase;
  pool: WorkerPool;
  config: Config;
  secrets: SecretBox;
  log: Logger;
};

export function watchSecretKeys(options: SecretKeyWatchOptions): Disposable {
  const { database, log } = options;
  let usedKey = database.secretKey;
  let isRecorded = false;
  let lastProblem: string | null = null;
  let timer: NodeJS.Timeout | undefined;
  const adoptKeys = async (): Promise<void> => {
    const secretKey = readCurrentKey(options, usedKey);
    if (secretKey === usedKey && isRecorded) return;
    if (secretKey !== usedKey) {
      requireSealingKey(secretKey, usedKey);
      await adopt(options, secretKey);
    }
    usedKey = secretKey;
    isRecorded = false;
    const { keyIds } = options.secrets;
    await recordSecretKeys(database.db, { instance: database.instance, keyIds });
    isRecorded = true;
    lastProblem = null;
  };
  const runCheck = async (): Promise<void> => {
    try {
      await adoptKeys();
    } catch (error) {
      const message = String(error);
      // Logged once per reason, because it is retried every second.
      if (message !== lastProblem) {
        log.warn(
          { err: error },
          'this node could not adopt the secret keys; it retries every second',
        );
      }
      lastProblem = message;
    }
    if (timer !== undefined) timer = setTimeout(() => void runCheck(), CHECK_EVERY_MS);
  };
  timer = setTimeout(() => void runCheck(), 0);
  return {
    [Symbol.dispose]: () => {
      clearTimeout(timer);
      timer = undefined;
    },
  };
}

/** Returns the keys that the node has to use, and writes a deleted file again. */
function readCurrentKey({ database, config, log }: SecretKeyWatchOptions, usedKey: string): string {
  if (config.secretKey !== null) return usedKey;
  const { dataDir } = database;
  const currentKey = readSecretKey(dataDir);
  if (currentKey !== null) return currentKey;
  const restoredKey = createSecretKeyFile(dataDir, usedKey);
  log.warn(
    { file: secretKeyFile(dataDir) },
    'the secret key file was missing; the key in use was written to it again',
  );
  return restoredKey;
}

/**
 * Checks that the new keys include the key in use, as in every step of a rotation.
 * @throws when they lack it
 */
function requireSealingKey(newKeys: string, usedKeys: string): void {
  const [sealing = ''] = parseSecretKeys(usedKeys);
  if (parseSecretKeys(newKeys).includes(sealing)) return;
  throw new Error('the file secrets/secret-key does not contain the key that encrypts the secrets');
}

async function adopt(
  { pool, secrets, log }: SecretKeyWatchOptions,
  secretKey: string,
): Promise<void> {
  secrets.replaceKeys(secretKey);
  await pool.useSecretKeys(secretKey);
  log.info({ keys: secrets.keyIds }, 'the secret keys have changed');
}
