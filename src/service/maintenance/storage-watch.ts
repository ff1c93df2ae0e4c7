/**
 * The stored mail of projects: keeps the default maximum in the database, where all workers read it, takes out of the
 * totals what the retention has deleted, and reports projects that are nearly full.
 */
import type { Config } from '../../config/config.ts';
import { defaultStorage, STORAGE_WARNING } from '../../core/storage.ts';
import type { OperatorEvents } from '../../core/operator-events.ts';
import { databaseBytes } from '../../store/postgres/capacity.ts';
import { forgetStorage, listStorage, setStorageDefault } from '../../store/storage.ts';
import type { ServiceDatabase } from '../service-database.ts';
import { reportStorage } from './space-conditions.ts';

type Options = {
  database: Pick<ServiceDatabase, 'db' | 'freeBytes'>;
  config: Pick<Config, 'storageBytesMax' | 'databaseBytesMax' | 'retention'>;
  operatorEvents: OperatorEvents;
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
    const { operatorEvents } = this.#options;
    for (const storage of nearlyFull) reportStorage(operatorEvents, storage);
    const present = new Set(nearlyFull.map(({ projectId }) => projectId));
    for (const subject of this.#reported) {
      if (!present.has(subject)) operatorEvents.clear({ type: 'storage.low', subject });
    }
    this.#reported = present;
  }
}
