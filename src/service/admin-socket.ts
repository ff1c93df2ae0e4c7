/**
 * The socket on which the service answers the command line of its own machine. It is a unix domain socket in a folder
 * that only root and the user of the service can enter. TCP does not reach it.
 *
 * The workers share it: the cluster module keeps one listener in this process and passes each connection to a worker.
 * So a worker that dies or is busy stops no command.
 */
import cluster, { type Address, type Worker } from 'node:cluster';
import { chmodSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import {
  chooseSocketDir,
  removeShortSocketDir,
  ADMIN_SOCKET,
} from '../database/embedded/layout.ts';

export class AdminSocket implements Disposable {
  readonly path: string;
  readonly #dataDir: string;
  readonly #folder: string;

  /** The caller has the lock of the data directory, so a socket that exists there was left by a killed process. */
  constructor(dataDir: string) {
    this.#dataDir = dataDir;
    this.#folder = chooseSocketDir(dataDir, null, undefined, ADMIN_SOCKET);
    this.path = join(this.#folder, ADMIN_SOCKET.file);
    rmSync(this.path, { force: true });
    cluster.on('listening', this.#onListening);
  }

  [Symbol.dispose](): void {
    cluster.off('listening', this.#onListening);
    removeShortSocketDir(this.#folder, this.#dataDir);
  }

  /** Also runs when the last worker has died and another one listens. */
  readonly #onListening = (_worker: Worker, { address }: Address): void => {
    if (address === this.path) chmodSync(this.path, 0o600);
  };
}
