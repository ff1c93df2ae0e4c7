/**
 * How much room the database has left: what settles mail needs some, so that mail is refused before
 * there is none. Measured on the disk where the database is on this machine, by its size where the
 * operator sets a limit, and heard from PostgreSQL itself (53100) everywhere.
 */
import { statfs } from 'node:fs/promises';
import pg from 'pg';
import { Overloaded } from '../../core/overloaded.ts';
import type { World } from '../../core/world.ts';
import { DatabaseUnavailable, type Queryable } from './database.ts';

/** @throws when there is no such folder here */
export async function freeBytes(folder: string): Promise<number> {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
}

/** Null: it is hidden from this role. Through a socket or loopback the server is on this machine. */
const SERVER = `
select case when inet_server_addr() is null or inet_server_addr() <<= '127.0.0.0/8'
              or inet_server_addr() = '::1'
            then (select setting from pg_settings where name = 'data_directory') end as folder`;

/** The data directory of a server on this machine; null when it is elsewhere or does not tell. */
export async function localDataDirectory(owner: Queryable): Promise<string | null> {
  const [row] = await owner.query<{ folder: string | null }>(SERVER);
  const folder = row?.folder ?? null;
  // A tunnel or a container looks local too; then the folder is not here.
  return folder !== null && (await freeBytes(folder).catch(() => null)) !== null ? folder : null;
}

export async function databaseBytes(db: Queryable): Promise<number> {
  const [row] = await db.query<{ bytes: number }>(
    'select pg_database_size(current_database()) as bytes',
  );
  return row?.bytes ?? 0;
}

const DISK_FULL = '53100';
/** How long mail is refused without asking after PostgreSQL had no room. */
const REFUSES_FOR_MS = 10_000;

/**
 * What this worker heard of a full disk: new mail is refused for a moment, outcomes are still written.
 * A statement that fails for it has stored nothing.
 */
export class DiskFullMemory {
  readonly #world: Pick<World, 'monotonicMs'>;
  #untilMs = -Infinity;

  constructor(world: Pick<World, 'monotonicMs'>) {
    this.#world = world;
  }

  /** Why nothing is accepted; null when it is. */
  refusal(): string | null {
    return this.#world.monotonicMs() < this.#untilMs ? 'the disk of the database is full' : null;
  }

  /** Does what stores new mail. @throws Overloaded when the disk is full */
  async guard<Result>(work: () => Promise<Result>): Promise<Result> {
    try {
      return await work();
    } catch (error) {
      if (!isDiskFull(error)) throw error;
      this.#untilMs = this.#world.monotonicMs() + REFUSES_FOR_MS;
      throw new Overloaded(this.refusal() ?? '');
    }
  }
}

function isDiskFull(error: unknown): boolean {
  const cause = error instanceof DatabaseUnavailable ? error.cause : null;
  return cause instanceof pg.DatabaseError && cause.code === DISK_FULL;
}
