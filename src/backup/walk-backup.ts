/**
 * Reads a backup from start to end and checks all that can be checked without a database. Checked are each record, the
 * checksums of each table and of the whole, the numbers of rows and columns, that all tables exist, and that the queue
 * has as many recipients as the emails say.
 */
import { createHash } from 'node:crypto';
import { CopyRowCounter } from './copy-rows.ts';
import { BackupDamaged, decompressBlock, readRecords } from './format.ts';
import { type BackupHeader, parseEnd, parseHeader, type TableEnd } from './manifest.ts';

export type BackupFacts = {
  header: BackupHeader;
  rows: Record<string, number>;
  /** Size of the uncompressed rows. */
  bytes: number;
};

type Table = BackupHeader['tables'][number];

export type BackupVisitor = {
  header?(header: BackupHeader): Promise<void>;
  rows(table: Table, block: Buffer): Promise<void>;
  end?(table: Table, end: TableEnd): Promise<void>;
};

/** Reads and checks a whole backup. @throws BackupDamaged */
export async function walkBackup(
  file: AsyncIterable<Buffer>,
  visitor: BackupVisitor,
): Promise<BackupFacts> {
  const walk = new BackupWalk(visitor);
  for await (const { kind, payload } of readRecords(file)) {
    if (kind === 'header') await walk.header(payload);
    else if (kind === 'data') await walk.data(payload);
    else if (kind === 'end') await walk.end(payload);
    else walk.trailer();
  }
  return walk.facts();
}

class BackupWalk {
  readonly #visitor: BackupVisitor;
  #header: BackupHeader | null = null;
  #check: TableCheck | null = null;
  readonly #rows: Record<string, number> = {};
  #bytes = 0;
  /** Open recipients: the sum over all emails, and the rows of the queue. */
  #open = { counted: 0, queued: 0 };

  constructor(visitor: BackupVisitor) {
    this.#visitor = visitor;
  }

  async header(payload: Buffer): Promise<void> {
    if (this.#header !== null) throw outOfOrder();
    this.#header = parseHeader(payload);
    this.#check = this.#nextCheck();
    await this.#visitor.header?.(this.#header);
  }

  async data(payload: Buffer): Promise<void> {
    if (this.#check === null) throw outOfOrder();
    const block = await decompressBlock(payload);
    this.#check.push(block);
    this.#bytes += block.length;
    await this.#visitor.rows(this.#check.table, block);
  }

  async end(payload: Buffer): Promise<void> {
    const check = this.#check;
    const end = parseEnd(payload);
    if (check === null || end.table !== check.table.name) throw outOfOrder();
    check.finish(end);
    if (end.table === 'emails') this.#open.counted = check.sum;
    if (end.table === 'queue') this.#open.queued = end.rows;
    this.#rows[end.table] = end.rows;
    await this.#visitor.end?.(check.table, end);
    this.#check = this.#nextCheck();
  }

  trailer(): void {
    if (this.#header === null || this.#check !== null) throw outOfOrder();
    const { counted, queued } = this.#open;
    if (counted === queued && queued === this.#header.open) return;
    throw new BackupDamaged(
      `The backup contradicts itself: its emails have ${counted} open recipients, its queue has ${queued}.`,
    );
  }

  facts(): BackupFacts {
    if (this.#header === null) throw outOfOrder();
    return { header: this.#header, rows: this.#rows, bytes: this.#bytes };
  }

  #nextCheck(): TableCheck | null {
    const done = Object.keys(this.#rows).length;
    const table = this.#header?.tables[done];
    return table === undefined ? null : new TableCheck(table);
  }
}

/** Checks the rows of one table against its end record. */
class TableCheck {
  readonly table: Table;
  readonly #counter: CopyRowCounter;
  readonly #hash = createHash('sha256');
  #bytes = 0;

  constructor(table: Table) {
    this.table = table;
    const openCount = table.columns.findIndex(({ name }) => name === 'open_count');
    const summed = table.name === 'emails' && openCount >= 0 ? openCount : null;
    this.#counter = new CopyRowCounter({ columns: table.columns.length, summed });
  }

  get sum(): number {
    return this.#counter.sum;
  }

  push(block: Buffer): void {
    this.#hash.update(block);
    this.#bytes += block.length;
    this.#counter.push(block);
  }

  finish({ rows, bytes, sha256 }: TableEnd): void {
    this.#counter.finish();
    const isUnchanged = this.#hash.digest('hex') === sha256 && this.#bytes === bytes;
    if (isUnchanged && this.#counter.rows === rows) return;
    throw new BackupDamaged(
      `The backup is damaged: the rows of ${this.table.name} have changed since they were written.`,
    );
  }
}

function outOfOrder(): BackupDamaged {
  return new BackupDamaged('The backup is damaged: its records are not in order.');
}
