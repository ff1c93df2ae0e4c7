/**
 * Restores a backup in two steps. `checkBackup` reads all of it and opens its secret key, before anything changes.
 * `fillFrom` fills the target in one transaction (backup/store/restore-target.ts). The installation is on hold
 * afterwards.
 */
import { once } from 'node:events';
import type { Writable } from 'node:stream';
import type { JournalRow } from './store/journal-rows.ts';
import type { RestoreTarget } from './store/restore-target.ts';
import { secretKeyId, parseSecretKeys } from '../secrets/secret-keys.ts';
import { BackupDamaged } from './format.ts';
import type { BackupHeader } from './manifest.ts';
import type { Journal } from './places/backup-place.ts';
import { openKey, type Opening, SealProblem } from './sealed-key.ts';
import { type BackupFacts, walkBackup } from './walk-backup.ts';

export type RestoreProgress = (done: {
  step: 'checked' | 'restored';
  table: string;
  bytes: number;
}) => void;

export type ReadFile = () => AsyncIterable<Buffer>;

export type KeyOptions = {
  /** Null when the backup has no key, or when `present` is its key. */
  opening: Opening;
  /** Key in LETTERHAUS_SECRET_KEY or in the data directory; null when there is none yet. */
  present: string | null;
};

export async function checkBackup(
  read: ReadFile,
  options: KeyOptions & { onProgress?: RestoreProgress },
): Promise<{ facts: BackupFacts; secretKey: string }> {
  const facts = await walkBackup(read(), progressVisitor('checked', options.onProgress));
  return { facts, secretKey: await openSecretKey(facts.header, options) };
}

type FillOptions = {
  facts: BackupFacts;
  /** Stores the key that opens the rows, before the rows are visible. */
  keepSecretKey: () => void;
  /** The journal beside the backup, which may be empty, or null when none is replayed. */
  journal: Pick<Journal, 'read'> | null;
  onProgress?: RestoreProgress;
};

export type ReplayCounts = { suppressions: number; keys: number };

export async function fillFrom(
  read: ReadFile,
  target: RestoreTarget,
  { facts, keepSecretKey, journal, onProgress }: FillOptions,
): Promise<ReplayCounts> {
  await target.begin(facts.header);
  await copyRows(target, { read, onProgress });
  await target.migrate();
  const sinceMs = Date.parse(facts.header.takenAt);
  const replayed = await replayInBatches(target, journal === null ? [] : journal.read(sinceMs));
  keepSecretKey();
  await target.commit();
  return replayed;
}

const ROWS_AT_ONCE = 1_000;

/** @param target takes the rows, a thousand at a time */
export async function replayInBatches(
  target: Pick<RestoreTarget, 'replay'>,
  rows: AsyncIterable<JournalRow> | Iterable<JournalRow>,
): Promise<ReplayCounts> {
  const sum = { suppressions: 0, keys: 0 };
  let batch: JournalRow[] = [];
  const flush = async (): Promise<void> => {
    const { suppressions, keys } = await target.replay(batch);
    sum.suppressions += suppressions;
    sum.keys += keys;
    batch = [];
  };
  for await (const row of rows) {
    batch.push(row);
    if (batch.length === ROWS_AT_ONCE) await flush();
  }
  if (batch.length > 0) await flush();
  return sum;
}

type KeyFacts = Pick<BackupHeader, 'keyIds' | 'sealedKey' | 'sealedFor'>;

/** Returns the key of the backup, or the current key if that is the same. @throws SealProblem, BackupDamaged */
export async function openSecretKey(
  header: KeyFacts,
  { present, opening }: KeyOptions,
): Promise<string> {
  if (present !== null && opensRows(present, header)) return present;
  if (present !== null) {
    throw new SealProblem(
      'LETTERHAUS_SECRET_KEY, or the file secrets/secret-key of the data directory, is not the key of the backup. Remove it, or restore into a new data directory.',
    );
  }
  if (header.sealedKey === null) {
    throw new SealProblem(
      'This backup was made without its secret key. Set LETTERHAUS_SECRET_KEY to the key of the installation that made it.',
    );
  }
  if (opening === null) {
    throw new SealProblem(
      header.sealedFor === 'passphrase'
        ? 'The secret key of this backup is sealed with a passphrase. Add --passphrase-file FILE.'
        : 'The secret key of this backup is sealed for an age recipient. Add --identity FILE.',
    );
  }
  const opened = await openKey(Buffer.from(header.sealedKey, 'base64'), opening);
  if (opensRows(opened, header)) return opened;
  throw new BackupDamaged('The backup is damaged: its secret key does not open its rows.');
}

/** Returns whether these keys open the rows: the first key of the backup, which seals, is among them. */
function opensRows(secretKeys: string, { keyIds }: KeyFacts): boolean {
  const [sealing = ''] = keyIds;
  return parseSecretKeys(secretKeys).map(secretKeyId).includes(sealing);
}

async function copyRows(
  target: RestoreTarget,
  { read, onProgress }: { read: ReadFile; onProgress: RestoreProgress | undefined },
): Promise<void> {
  let rows: CopyWriter | null = null;
  const report = progressVisitor('restored', onProgress);
  await walkBackup(read(), {
    rows: async (table, block) => {
      rows ??= new CopyWriter(target.write(table));
      await rows.write(block);
      await report.rows(table, block);
    },
    end: async (_, end) => {
      if (rows === null) throw new BackupDamaged('The backup is damaged: a table has no rows.');
      const written = await rows.end();
      rows = null;
      if (written !== end.rows) throw new Error(`${written} rows of ${end.table} were written`);
    },
  });
}

function progressVisitor(step: 'checked' | 'restored', onProgress: RestoreProgress | undefined) {
  let bytes = 0;
  return {
    rows: (table: { name: string }, block: Buffer): Promise<void> => {
      bytes += block.length;
      onProgress?.({ step, table: table.name, bytes });
      return Promise.resolve();
    },
  };
}

class CopyWriter {
  readonly #stream: Writable & { rowCount: number };
  readonly #failed: Promise<never>;

  constructor(stream: Writable & { rowCount: number }) {
    this.#stream = stream;
    this.#failed = once(stream, 'error').then(([error]) => {
      throw error;
    });
    this.#failed.catch(() => {});
  }

  async write(block: Buffer): Promise<void> {
    const mayContinue = this.#stream.write(block);
    if (!mayContinue) await Promise.race([once(this.#stream, 'drain'), this.#failed]);
  }

  /** @returns the number of rows that the server counted */
  async end(): Promise<number> {
    const finished = once(this.#stream, 'finish');
    this.#stream.end();
    await Promise.race([finished, this.#failed]);
    return this.#stream.rowCount;
  }
}
