/**
 * Moves the database of an installation to another server, or to or from the embedded one, while the installation
 * runs, in an order that cannot lose anything:
 *
 *     log      the old database logs which rows change
 *     copy     all rows of one snapshot, while mail flows
 *     rounds   the changes since then, repeated until few are left
 *     pause    nodes finish their running deliveries, and send nothing more
 *     lock     no table of the old database can be written; requests wait
 *     last     the last changes, tables without a key, and the count of all rows on both sides
 *     complete the new database commits, still marked as unusable
 *     depart   the old database commits its fence: it refuses writes, and has the new address
 *     open     the mark is dropped: nodes that follow use the new database
 *
 * Before `depart`, any failure leaves the old database unchanged (move/source-store.ts). After it, a repeated move only
 * opens the new one. The reasons are in docs/decisions/0037-move.md.
 */
import { pipeline } from 'node:stream/promises';
import { Transform, type TransformCallback } from 'node:stream';
import { failpoint } from '../lib/failpoint.ts';
import type { World } from '../lib/world.ts';
import {
  clientQueries,
  connectAsOwner,
  type DatabaseAddress,
  DatabaseUnavailable,
} from '../database/database.ts';
import { type Departure, DatabaseMoved, readDeparture } from '../database/server/move-marks.ts';
import { MoveSource } from './source-store.ts';
import { MoveTarget } from './target-store.ts';
import type { Snapshot } from '../backup/store/snapshot.ts';

/** The move failed and the old database continues. The message is for the operator. */
export class MoveProblem extends Error {
  override readonly name = 'MoveProblem';
}

export type MoveStep = 'log' | 'copy' | 'rounds' | 'pause' | 'lock' | 'depart' | 'open';

/** `bytes`: bytes of rows copied so far; `table` is the nth of the copied tables. */
export type CopyProgress = { table: string; nth: number; ofTables: number; bytes: number };

export type MoveProgress = (at: { step: MoveStep; copying?: CopyProgress }) => void;

export type MoveOptions = {
  from: DatabaseAddress;
  to: DatabaseAddress;
  fromName: string;
  toName: string;
  sealed: Buffer;
  acceptAnyDurability: boolean;
  world: Pick<World, 'monotonicMs' | 'newId'>;
  /** Called with the size of the tables before anything is copied. @throws when there is no space */
  requireSpace: (bytes: number) => Promise<void>;
  /** Called before the pause, when all but the last changes are copied. */
  beforePause: () => Promise<void>;
  onProgress?: MoveProgress;
  pauseMaxMs?: number;
};

export type MoveResult = {
  /** false: an earlier move lacked only its last step. */
  wasCopied: boolean;
  rows: Record<string, number>;
  bytes: number;
  /** Milliseconds from the pause of sending until the new database was open. */
  pauseMs: number;
  /** Part of it in which requests that write had to wait. */
  lockMs: number;
};

/** Time for running deliveries to end. A mail server may take minutes to answer the final dot. */
const PAUSE_MAX_MS = 120_000;
/** The pause begins after a round with at most this many keys, or after the last round. */
const ROUND_KEYS_MAX = 2_000;
const ROUNDS_MAX = 10;

/**
 * @throws MoveProblem, RefusedDatabase, DatabaseUnavailable: nothing has changed, unless `depart` had no answer, which
 *   a repeated move resolves
 */
export async function moveDatabase(options: MoveOptions): Promise<MoveResult> {
  const { from, to, world, onProgress = () => {} } = options;
  const departure = await readDepartureOf(from);
  if (departure !== null) return completeMove(departure, options);
  await using source = await MoveSource.open(from);
  await using target = await openTarget(to, options);
  await target.refuseData(options.fromName);
  await target.requireConnections(await source.countSessions());
  onProgress({ step: 'log' });
  const bytes = await copySnapshot(source, target, options);
  failpoint('move_after_copy');
  onProgress({ step: 'rounds' });
  await catchUp(source, target);
  await source.whileLocked(options.beforePause());
  const pausedMs = world.monotonicMs();
  onProgress({ step: 'pause' });
  await pauseAndLock(source, target, options);
  const lockedMs = world.monotonicMs();
  onProgress({ step: 'lock' });
  failpoint('move_after_lock');
  const lastRound = await source.readLastRound();
  await target.apply(lastRound.changes, lastRound.weeks);
  for (const table of source.tables) {
    if (table.key === null) await target.replaceRows(table, source.read(table));
  }
  const rows = await requireSameCounts(source, target);
  const moveId = world.newId();
  await target.commitRows({ moveId, fromName: options.fromName });
  failpoint('move_after_complete');
  onProgress({ step: 'depart' });
  await source.depart({ moveId, databaseName: options.toName, sealed: options.sealed });
  failpoint('move_after_depart');
  await target.open();
  onProgress({ step: 'open' });
  const nowMs = world.monotonicMs();
  return {
    wasCopied: true,
    rows: Object.fromEntries(rows),
    bytes,
    pauseMs: nowMs - pausedMs,
    lockMs: nowMs - lockedMs,
  };
}

async function readDepartureOf(address: DatabaseAddress): Promise<Departure | null> {
  const client = await connectAsOwner(address, 'move');
  try {
    return await readDeparture(clientQueries(client));
  } finally {
    await client.end();
  }
}

/** Opens the target of an interrupted move. @throws DatabaseMoved when nothing is left to do */
async function completeMove(departure: Departure, options: MoveOptions): Promise<MoveResult> {
  if (departure.databaseName !== options.toName) throw new DatabaseMoved(departure);
  await using target = await openTarget(options.to, options);
  if (!(await target.isFilledBy(departure.moveId))) throw new DatabaseMoved(departure);
  await target.open();
  return { wasCopied: false, rows: {}, bytes: 0, pauseMs: 0, lockMs: 0 };
}

async function openTarget(
  address: DatabaseAddress,
  options: Pick<MoveOptions, 'toName' | 'acceptAnyDurability'>,
): Promise<MoveTarget> {
  try {
    return await MoveTarget.open(address, options);
  } catch (error) {
    if (!(error instanceof DatabaseUnavailable)) throw error;
    throw new MoveProblem(`The target ${options.toName} cannot be used: ${error.message}.`);
  }
}

async function copySnapshot(
  source: MoveSource,
  target: MoveTarget,
  { requireSpace, onProgress = () => {} }: MoveOptions,
): Promise<number> {
  await using snapshot = await source.openCopy();
  failpoint('move_after_log');
  const { facts, bytes } = snapshot;
  await requireSpace(bytes);
  await source.whileLocked(target.begin(facts));
  const onCopying = (copying: CopyProgress): void => onProgress({ step: 'copy', copying });
  return await source.whileLocked(copyRows(snapshot, { source, target, onCopying }));
}

/** Copies tables with a key. Tables without one are copied as a whole, under the lock. */
async function copyRows(
  snapshot: Snapshot,
  {
    source,
    target,
    onCopying,
  }: { source: MoveSource; target: MoveTarget; onCopying: (copying: CopyProgress) => void },
): Promise<number> {
  const tables = source.tables.filter(({ key }) => key !== null);
  let bytes = 0;
  for (const [index, table] of tables.entries()) {
    const onBytes = (count: number): void => {
      bytes += count;
      onCopying({ table: table.name, nth: index + 1, ofTables: tables.length, bytes });
    };
    await pipeline(snapshot.read(table), countBytes(onBytes), target.write(table));
  }
  await target.analyze(source.tables);
  return bytes;
}

function countBytes(onBytes: (count: number) => void): Transform {
  return new Transform({
    transform(chunk: Buffer, _, done: TransformCallback) {
      onBytes(chunk.length);
      done(null, chunk);
    },
  });
}

async function catchUp(source: MoveSource, target: MoveTarget): Promise<void> {
  for (let round = 1; round <= ROUNDS_MAX; round += 1) {
    const keys = await source.whileLocked(
      source.readRound(({ changes, weeks }) => target.apply(changes, weeks)),
    );
    if (keys <= ROUND_KEYS_MAX) return;
  }
}

/** No node has claimed work when the lock is taken. So no outcome can be lost, and no mail is sent twice. */
async function pauseAndLock(
  source: MoveSource,
  target: MoveTarget,
  { world, pauseMaxMs = PAUSE_MAX_MS }: MoveOptions,
): Promise<void> {
  const deadlineMs = world.monotonicMs() + pauseMaxMs;
  await source.pauseNodes();
  failpoint('move_after_pause');
  for (;;) {
    const claimed = await source.waitUntilIdle(Math.max(0, deadlineMs - world.monotonicMs()));
    if (claimed > 0) {
      throw new MoveProblem(
        `${claimed} deliveries were still running after ${Math.round(pauseMaxMs / 1_000)} s of waiting. Nothing was changed; try again.`,
      );
    }
    await catchUp(source, target);
    if (await source.lock()) return;
    if (world.monotonicMs() >= deadlineMs) {
      throw new MoveProblem(
        'The tables could not be locked in time. Nothing was changed; try again.',
      );
    }
  }
}

async function requireSameCounts(
  source: MoveSource,
  target: MoveTarget,
): Promise<Map<string, number>> {
  const [before, after] = await Promise.all([source.countRows(), target.countRows(source.tables)]);
  for (const [table, count] of before) {
    if (after.get(table) === count) continue;
    throw new MoveProblem(
      `The copy is not complete: ${table} has ${count} rows, and the copy ${after.get(table)}. Nothing was changed.`,
    );
  }
  return before;
}

type MovePlanOptions = Pick<
  MoveOptions,
  'from' | 'to' | 'fromName' | 'toName' | 'acceptAnyDurability' | 'requireSpace'
>;

export type MovePlan = { bytes: number; rows: Record<string, number>; open: number };

/** Returns what a move would copy, and checks that the target can be moved into. Changes nothing. */
export async function planMove(
  options: Omit<MovePlanOptions, 'to'> & {
    /** Null for the embedded database, which a move creates. */
    to: DatabaseAddress | null;
  },
): Promise<MovePlan> {
  const { from, to, requireSpace, fromName } = options;
  const departure = await readDepartureOf(from);
  if (departure !== null) throw new DatabaseMoved(departure);
  await using target = to === null ? null : await openTarget(to, options);
  await target?.refuseData(fromName);
  await using source = await MoveSource.open(from);
  await target?.requireConnections(await source.countSessions());
  const { bytes, open, tables } = await source.measure();
  await requireSpace(bytes);
  return { bytes, open, rows: Object.fromEntries(tables) };
}
