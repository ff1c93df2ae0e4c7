/**
 * The socket on which the service answers the command line of its own machine: a unix domain socket in a
 * folder that only the user of the service, and root, can enter. There is no way to it by TCP.
 *
 * The workers listen on it together: the cluster module keeps one listener in this process and hands each
 * connection to a worker, so that a worker that dies or is busy stops no command.
 */
import cluster, { type Address, type Worker } from 'node:cluster';
import { chmodSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { chooseSocketDir, dropSocketDir, OF_ADMIN } from '../database/embedded/layout.ts';

export class AdminSocket implements Disposable {
  readonly path: string;
  readonly #dataDir: string;
  readonly #folder: string;

  /** Only under the lock of the data directory: a socket that is left there is of a process that was killed. */
  constructor(dataDir: string) {
    this.#dataDir = dataDir;
    this.#folder = chooseSocketDir(dataDir, null, undefined, OF_ADMIN);
    this.path = join(this.#folder, OF_ADMIN.file);
    rmSync(this.path, { force: true });
    cluster.on('listening', this.#onListening);
  }

  [Symbol.dispose](): void {
    cluster.off('listening', this.#onListening);
    dropSocketDir(this.#folder, this.#dataDir);
  }

  /** Also when the last worker has died and another one listens. */
  readonly #onListening = (_worker: Worker, { address }: Address): void => {
    if (address === this.path) chmodSync(this.path, 0o600);
  };
}
