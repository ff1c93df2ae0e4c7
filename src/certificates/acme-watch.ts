/**
 * Keeps the certificates of this node: orders those that are due, and writes those that any node has got to files in
 * the data directory. The listeners read changed files again at the next handshake, so no connection is dropped. Until
 * the first one is issued, a self-signed certificate is in the file.
 */
import { chmodSync, existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import type { OperatorEvents } from '../core/operator-events.ts';
import { DatabaseUnavailable } from '../database/database.ts';
import { DAY_MS } from '../lib/units.ts';
import type { World } from '../lib/world.ts';
import { makeSelfSigned } from '../net/tls/self-signed.ts';
import * as store from './certificate-store.ts';
import { attemptOrder, type OrderContext } from './order.ts';
import { lookAtRenewal } from './renewal.ts';
import { orderedFile } from './wanted.ts';

export type AcmeWatchOptions = Omit<OrderContext, 'world' | 'signal'> & {
  names: readonly string[];
  dataDir: string;
  operatorEvents: OperatorEvents;
  world: Pick<World, 'newId' | 'now'>;
};

const SELF_SIGNED_MS = 3_650 * DAY_MS;

export class AcmeWatch implements AsyncDisposable {
  readonly #options: AcmeWatchOptions;
  readonly #stopping = new AbortController();
  #orders: Promise<void> | null = null;

  constructor(options: AcmeWatchOptions) {
    this.#options = options;
  }

  /** Adds the names, and writes all files, so that listeners can start. */
  async prepare(): Promise<void> {
    const { db, names, acme, world, log, dataDir } = this.#options;
    for (const name of names) {
      await store.addName(db, { name, id: world.newId(), directoryUrl: acme.directoryUrl });
    }
    for (const row of await store.listCertificates(db, names)) this.#writeFile(row);
    for (const name of names) {
      const file = orderedFile(dataDir, name);
      if (existsSync(file)) continue;
      const nowMs = world.now();
      const validity = { fromMs: nowMs - DAY_MS, untilMs: nowMs + SELF_SIGNED_MS };
      const { certificate, privateKey } = makeSelfSigned(name, validity);
      replaceFile(file, certificate + privateKey);
      log.warn(
        { name, authority: acme.directoryUrl },
        `${name} has a self-signed certificate until the authority has issued one`,
      );
    }
  }

  /** Returns at once while orders run. */
  async run(): Promise<void> {
    const { db, names } = this.#options;
    const rows = await store.listCertificates(db, names);
    for (const row of rows) {
      this.#writeFile(row);
      this.#report(row);
    }
    const due = rows.filter(({ isDue, isLookDue }) => isDue || isLookDue).map(({ name }) => name);
    if (due.length === 0 || this.#orders !== null || this.#stopping.signal.aborted) return;
    this.#orders = this.#orderAll(due).finally(() => (this.#orders = null));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort();
    await this.#orders;
  }

  /** Orders one certificate after the other. An order that fails for a reason of ours is repeated when it is due. */
  async #orderAll(names: readonly string[]): Promise<void> {
    const { log } = this.#options;
    const { signal } = this.#stopping;
    for (const name of names) {
      if (signal.aborted) return;
      try {
        await lookAtRenewal({ ...this.#options, signal }, name);
        await attemptOrder({ ...this.#options, signal }, name);
        for (const row of await store.listCertificates(this.#options.db, [name])) {
          this.#writeFile(row);
        }
      } catch (error) {
        if (error instanceof DatabaseUnavailable || signal.aborted) return;
        log.warn({ err: error, name }, `the order of a certificate for ${name} failed`);
      }
    }
  }

  /** Keeps the file when this node cannot decrypt the private key: the node may lack a new secret key. */
  #writeFile({ name, id, chain, privateKey }: store.StoredCertificate): void {
    const { secrets, dataDir } = this.#options;
    if (chain === null || privateKey === null || !secrets.opens(privateKey, id)) return;
    const pem = chain.trimEnd() + '\n' + secrets.open(privateKey, id);
    const file = orderedFile(dataDir, name);
    if (!existsSync(file) || readFileSync(file, 'utf8') !== pem) replaceFile(file, pem);
  }

  #report({ name, problem, remedy, failures }: store.StoredCertificate): void {
    const { operatorEvents } = this.#options;
    const key = { type: 'certificate.not_issued', subject: name } as const;
    if (problem === null || remedy === null) return operatorEvents.clear(key);
    operatorEvents.raise({ ...key, message: problem, remedy, details: { name, failures } });
  }
}

/** Certificate and key are one file, so that no reader sees a pair that does not match. */
function replaceFile(file: string, pem: string): void {
  writeFileSync(`${file}.new`, pem, { mode: 0o600 });
  chmodSync(`${file}.new`, 0o600);
  renameSync(`${file}.new`, file);
}
