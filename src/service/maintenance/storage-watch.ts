/**
 * The stored mail of projects: keeps the default maximum in the database, where all workers read it, takes out of the
 * totals what the retention has deleted, and logs projects that are nearly full.
 */
import type { Logger } from 'pino';
import type { Config } from '../../config/config.ts';
import { defaultStorage, STORAGE_WARNING } from '../../core/storage.ts';
import { databaseBytes } from '../../store/postgres/capacity.ts';
import { forgetStorage, listStorage, setStorageDefault } from '../../store/storage.ts';
import type { ServiceDatabase } from '../service-database.ts';

type Options = {
  database: Pick<ServiceDatabase, 'db' | 'freeBytes'>;
  config: Pick<Config, 'storageBytesMax' | 'databaseBytesMax' | 'retention'>;
  log: Pick<Logger, 'warn'>;
};

export class StorageWatch {
  readonly #options: Options;
  /** Reported, and since then nearly full. */
  #reported = new Set<string>();

  constructor(options: Options) {
    this.#options = options;
  }

  async run(): Promise<void> {
    const { database, config } = this.#options;
    const { db } = database;
    const [bytes, freeBytes] = await Promise.all([databaseBytes(db), database.freeBytes()]);
    await setStorageDefault(db, defaultStorage(config, { bytes, freeBytes }));
    await forgetStorage(db, config.retention);
    await this.#report();
  }

  async #report(): Promise<void> {
    const nearlyFull = (await listStorage(this.#options.database.db)).filter(
      ({ usedBytes, maxBytes }) => maxBytes !== null && usedBytes >= maxBytes * STORAGE_WARNING,
    );
    for (const { projectId, name, usedBytes, maxBytes } of nearlyFull) {
      if (this.#reported.has(projectId)) continue;
      this.#options.log.warn(
        { project: projectId, name, usedBytes, maxBytes },
        'the storage of a project is nearly full; without room its mail is refused (letterhaus projects set-storage-max)',
      );
    }
    this.#reported = new Set(nearlyFull.map(({ projectId }) => projectId));
  }
}
