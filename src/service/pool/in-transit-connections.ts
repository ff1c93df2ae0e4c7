/**
 * The supervisor listens, and the cluster module hands each client connection to a worker. This file closes those that
 * reach none.
 */
import type { Worker } from 'node:cluster';

/**
 * The connection that each worker received last. The cluster module keeps it open until the worker confirms it. If the
 * worker dies before that, or no worker listens any more, this class closes it. Otherwise the client would wait for its
 * own timeout instead of connecting again.
 */
export class InTransitConnections {
  readonly #lastHandles = new Map<Worker, Handle>();

  /** Records each connection that is sent to the worker. The next one is sent after its confirmation. */
  recordSends(worker: Worker): void {
    const { process: child } = worker;
    const handOver = child.send.bind(child) as (...args: unknown[]) => boolean;
    child.send = (message: unknown, handle?: unknown, ...rest: unknown[]) => {
      if (isHandle(handle)) this.#record(worker, handle);
      return handOver(message, handle, ...rest);
    };
  }

  /**
   * Closes a connection that a worker refused while the service stops. The cluster module sends such a connection to
   * another worker, and keeps it open when none is left. Its own listener runs before this one, so a connection that
   * another worker got is no longer this worker's.
   */
  closeRefusedBy(worker: Worker): void {
    worker.process.on('internalMessage', (message: { accepted?: boolean }) => {
      if (message.accepted === false) this.closeLast(worker);
    });
  }

  /** A stopping worker refuses a connection, which then belongs to another worker. */
  #record(worker: Worker, handle: Handle): void {
    for (const [other, last] of this.#lastHandles)
      if (last === handle) this.#lastHandles.delete(other);
    this.#lastHandles.set(worker, handle);
  }

  /** Has no effect on a confirmed connection, because this process has closed its copy. */
  closeLast(worker: Worker): void {
    this.#lastHandles.get(worker)?.close();
    this.#lastHandles.delete(worker);
  }
}

type Handle = { close(): void };

function isHandle(value: unknown): value is Handle {
  return typeof value === 'object' && value !== null && 'close' in value;
}
