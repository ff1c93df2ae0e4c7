/**
 * The database for one CLI command: the engine of the service that runs on the data directory, or,
 * when none does, an engine of its own that ends with the command.
 */
import { connectionThrough, openUnderLock, type Connection, type EngineOptions } from './engine.ts';
import { prepareDataDir } from './layout.ts';
import { alreadyRunning, readRunning, tryLock } from './lock.ts';
import { poll } from './wait.ts';

/** For a service to come up, or another command to end. */
const WAIT_MS = 60_000;

export type RunningConnection = Connection &
  AsyncDisposable & {
    /** Whether the engine is the service's; else it was started for this command. */
    shared: boolean;
  };

/**
 * Connects to the database of a data directory without disturbing a service that runs on it.
 * Dispose of it: that stops an engine which was started for the command.
 */
export async function connectRunning(options: EngineOptions): Promise<RunningConnection> {
  const dataDir = prepareDataDir(options.dataDir);
  const found = await poll<RunningConnection>(
    { clock: options.world, timeoutMs: WAIT_MS, everyMs: 50 },
    async () => {
      const lock = tryLock(dataDir, 'command');
      if (lock) return { ...(await openUnderLock(lock, options)), shared: false };
      const holder = readRunning(dataDir);
      // The engine of another command ends with it: wait for the lock instead.
      if (holder?.kind !== 'service' || holder.engine === null) return null;
      return {
        ...connectionThrough(holder.engine.socketDir),
        shared: true,
        [Symbol.asyncDispose]: async () => {},
      };
    },
  );
  if (found) return found;
  throw alreadyRunning(dataDir, readRunning(dataDir));
}
