/**
 * Connections from clients on their way from the supervisor, which listens, to a worker. The cluster module passes
 * them on; this file closes those that reach no worker.
 */
import type { Worker } from 'node:cluster';

/**
 * The connection that each worker received last. The cluster module keeps it open until the worker confirms
 * it. If the worker dies before that, or no worker listens any more, the connection is closed here; the client
 * would otherwise wait until its own timeout instead of connecting again.
 */
export class ConnectionsOnTheirWay {
  readonly #last = new Map<Worker, Handle>();

  /** Records the connection that is sent to the worker; the next one is sent after its confirmation. */
  watch(worker: Worker): void {
    const { process: child } = worker;
    const handOver = child.send.bind(child) as (...args: unknown[]) => boolean;
    child.send = (message: unknown, handle?: unknown, ...rest: unknown[]) => {
      if (isHandle(handle)) this.#note(worker, handle);
      return handOver(message, handle, ...rest);
    };
  }

  /**
   * While the service stops. The cluster module sends a connection that a worker refused to another one, and keeps
   * it when none is left. Its own listener ran before this one: a connection that went on is no longer this worker's.
   */
  closeRefused(worker: Worker): void {
    worker.process.on('internalMessage', (message: { accepted?: boolean }) => {
      if (message.accepted === false) this.close(worker);
    });
  }

  /** A stopping worker refuses a connection, which is then sent to another worker. */
  #note(worker: Worker, handle: Handle): void {
    for (const [other, last] of this.#last) if (last === handle) this.#last.delete(other);
    this.#last.set(worker, handle);
  }

  /** Has no effect on a connection that was confirmed: this process has closed its copy. */
  close(worker: Worker): void {
    this.#last.get(worker)?.close();
    this.#last.delete(worker);
  }
}

type Handle = { close(): void };

function isHandle(value: unknown): value is Handle {
  return typeof value === 'object' && value !== null && 'close' in value;
}
