/**
 * A base backup of the running embedded engine: the files of the cluster as one tar stream, by the replication
 * protocol's BASE_BACKUP. The server reads its own files, checks the checksum of each page, and leaves out files that
 * recovery recreates. With the WAL from `startLsn` to `stopLsn` it is a consistent cluster.
 */
import { Readable } from 'node:stream';
import pg from 'pg';
import type { DatabaseAddress } from '../../database/database.ts';

/** In capitals, as the protocol's grammar requires. A spread checkpoint would take minutes. */
const COMMAND = `BASE_BACKUP (LABEL 'letterhaus', CHECKPOINT 'fast', WAIT false)`;

const NEW_ARCHIVE = 0x6e;
const DATA = 0x64;

type Connection = { query(text: string): void; stream: Readable };

export class BaseBackup extends Readable {
  /** Result sets: start position, tablespaces, stop position. */
  readonly #sets: string[][] = [];
  #connection: Connection | null = null;
  #archives = 0;

  get startLsn(): string {
    return this.#sets[0]?.[0] ?? '';
  }

  get stopLsn(): string {
    return this.#sets[2]?.[0] ?? '';
  }

  override _read(): void {
    this.#connection?.stream.resume();
  }

  // Methods that pg calls on a query object.

  submit(connection: Connection): void {
    this.#connection = connection;
    connection.query(COMMAND);
  }

  handleRowDescription(): void {
    this.#sets.push([]);
  }

  handleDataRow({ fields }: { fields: (string | null)[] }): void {
    this.#sets.at(-1)!.push(...fields.map((field) => field ?? ''));
  }

  handleCopyData({ chunk }: { chunk: Buffer }): void {
    if (chunk[0] === NEW_ARCHIVE) this.#archives += 1;
    if (this.#archives > 1) this.destroy(new Error('the database has tablespaces of its own'));
    // A copy, because pg's parser reuses its buffer.
    const isTaken = chunk[0] !== DATA || this.push(Buffer.from(chunk.subarray(1)));
    if (!isTaken) this.#connection?.stream.pause();
  }

  handleCommandComplete(): void {}

  handleReadyForQuery(): void {
    this.push(null);
  }

  handleError(error: Error): void {
    this.destroy(error);
  }
}

export async function openBaseBackup(
  address: DatabaseAddress,
): Promise<AsyncDisposable & { tar: BaseBackup }> {
  const config = { ...address, application_name: 'letterhaus base backup', replication: 'true' };
  const client = new pg.Client(config);
  client.on('error', () => {}); // the stream fails with the reason
  await client.connect();
  const tar = new BaseBackup();
  client.query(tar as unknown as pg.Submittable);
  return {
    tar,
    [Symbol.asyncDispose]: async () => {
      // A server in the middle of sending would wait for a reader that is gone.
      if (!tar.readableEnded) client.connection.stream.destroy();
      await client.end();
    },
  };
}
