/**
 * Maintains the totals of stored mail. It stores the default maximum in the database, where all workers read it,
 * subtracts what retention has deleted, adds the mail from before there were totals, and reports projects that are
 * nearly full.
 */
import type { Config } from '../../config/config.ts';
import { defaultStorage, inMegabytes, STORAGE_WARNING } from './stored-bytes.ts';
import { CONDITION_LAPSES_AFTER_MS, type OperatorEvents } from '../../core/operator-events.ts';
import { readDatabaseBytes } from '../../database/server/capacity.ts';
import { countEarlierMail } from './earlier-storage-store.ts';
import {
  subtractDeletedMail,
  listStorage,
  type ProjectStorage,
  setStorageDefault,
} from './storage-store.ts';
import type { ServiceDatabase } from '../../service/service-database.ts';

type Options = {
  database: Pick<ServiceDatabase, 'db' | 'readFreeDiskBytes'>;
  config: Pick<Config, 'storageBytesMax' | 'databaseBytesMax' | 'retention'>;
  operatorEvents: OperatorEvents;
};

const EARLIER_BATCH_EMAILS = 2_000;
/** Batches in one run. The next run is due after 30 s. */
const EARLIER_BATCHES = 40;

export class StorageWatch {
  readonly #options: Options;
  /** Projects that were nearly full at the last report. */
  #reported = new Set<string>();
  /** Also true while another machine counts. */
  #isCounted = false;

  constructor(options: Options) {
    this.#options = options;
  }

  async run(): Promise<void> {
    const { database, config } = this.#options;
    const { db } = database;
    const [bytes, freeBytes] = await Promise.all([
      readDatabaseBytes(db),
      database.readFreeDiskBytes(),
    ]);
    await setStorageDefault(db, defaultStorage(config, { bytes, freeBytes }));
    await this.#countEarlier();
    await subtractDeletedMail(db, config.retention);
    await this.#report();
  }

  /** Ten million emails take an hour or two, over many runs of a few seconds. */
  async #countEarlier(): Promise<void> {
    const { db } = this.#options.database;
    for (let batch = 0; batch < EARLIER_BATCHES && !this.#isCounted; batch += 1) {
      this.#isCounted = (await countEarlierMail(db, EARLIER_BATCH_EMAILS)) === 0;
    }
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

function reportStorage(
  operatorEvents: OperatorEvents,
  { projectId, name, usedBytes, maxBytes }: ProjectStorage,
): void {
  operatorEvents.raise({
    type: 'storage.low',
    subject: projectId,
    message: `The storage of project ${name} is nearly full: ${inMegabytes(usedBytes)} of ${inMegabytes(maxBytes ?? 0)}.`,
    remedy:
      'When it is full, its mail is refused. Raise the maximum (letterhaus projects set-storage-max), or keep its mail for less time.',
    details: { project_id: projectId, used_bytes: usedBytes, max_bytes: maxBytes },
    lapsesAfterMs: CONDITION_LAPSES_AFTER_MS,
  });
}
