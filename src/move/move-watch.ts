/**
 * Watches for a move of the database (move-database.ts). A node stops sending while the mover asks for a pause. When
 * the database refuses writes, the node ends its workers and continues with the new one.
 *
 * The pause is an advisory lock of the mover, so it also ends when the mover dies.
 */
import type { Logger } from 'pino';
import type { Config } from '../config/config.ts';
import type { World } from '../lib/world.ts';
import { openDestination } from './fence-store.ts';
import { type MoveState, readMoveState } from './source-store.ts';
import type { Queryable } from '../database/database.ts';
import { RefusedDatabase } from '../database/server/refused-database.ts';
import { DatabaseMoved, type Departure } from '../database/server/move-marks.ts';
import { SecretBox, SecretUnopenable } from '../secrets/secret-box.ts';
import { findOrCreateInstanceId, readSecretKey } from '../secrets/secret-key-file.ts';
import type { WorkerPool } from '../service/pool/worker-pool.ts';

const POLL_EVERY_MS = 500;
/** The pause ends after the database was unreadable for this time: its mover has lost it, too. */
const UNREADABLE_MAX_MS = 30_000;

type MoveWatchOptions = {
  db: Queryable;
  pool: Pick<WorkerPool, 'pauseSending'>;
  world: Pick<World, 'monotonicMs'>;
  log: Pick<Logger, 'info' | 'warn'>;
};

export type MoveWatch = Disposable & {
  moved: Promise<'moved'>;
};

export function watchMove({ db, pool, world, log }: MoveWatchOptions): MoveWatch {
  const { promise: moved, resolve } = Promise.withResolvers<'moved'>();
  let timer: NodeJS.Timeout | undefined;
  let isStopped = false;
  let isPaused = false;
  let readMs = world.monotonicMs();
  const handleState = ({ hasMoved, isPaused: isAsked }: MoveState): void => {
    if (hasMoved) {
      log.warn('the database was moved; this node continues with the new one');
      return resolve('moved');
    }
    if (isAsked === isPaused) return;
    isPaused = isAsked;
    pool.pauseSending(isPaused);
    if (isPaused) log.warn('the database is being moved; this node sends nothing for some seconds');
    else log.info('the database was not moved; this node sends mail and webhooks again');
  };
  const poll = async (): Promise<void> => {
    const state = await readMoveState(db).catch(() => null);
    if (isStopped) return;
    const nowMs = world.monotonicMs();
    if (state !== null) {
      readMs = nowMs;
      handleState(state);
    } else if (isPaused && nowMs - readMs > UNREADABLE_MAX_MS) {
      handleState({ hasMoved: false, isPaused: false });
    }
    timer = setTimeout(() => void poll(), POLL_EVERY_MS);
  };
  void poll();
  return {
    moved,
    [Symbol.dispose]: () => {
      isStopped = true;
      clearTimeout(timer);
    },
  };
}

/**
 * Returns the configuration with which this node continues.
 * @throws DatabaseMoved when it does not know the secret key; RefusedDatabase when it cannot reach the new database
 */
export function followMove(config: Config, departure: Departure): Config {
  const secretKey = config.secretKey ?? readSecretKey(config.dataDir);
  if (secretKey === null) throw new DatabaseMoved(departure);
  try {
    const to = openDestination(new SecretBox(secretKey), departure.sealed);
    if ('url' in to) return { ...config, databaseUrl: to.url };
    if (to.instance === findOrCreateInstanceId(config.dataDir))
      return { ...config, databaseUrl: null };
  } catch (error) {
    if (error instanceof SecretUnopenable) throw new DatabaseMoved(departure);
    throw error;
  }
  throw new RefusedDatabase(
    'The database was moved into the data directory of another node, which this node cannot reach. Stop this node, or move the database to a server of its own with `letterhaus move --to postgres://…` there.',
  );
}
