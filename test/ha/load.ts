/**
 * Clients that send through both nodes until they are stopped. Each repeats its request under one Idempotency-Key, at
 * the other node in turn, until a node accepts the email.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Request } from '../chaos/ledger/ledger-types.ts';
import { FROM, to } from '../support/scene.ts';
import type { Service } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const CLIENTS = 8;
/** Milliseconds between two emails of a client, so that the machine is not the limit. */
const PAUSE_MS = 100;
const RETRY_AFTER_MS = 250;
const ANSWERED_WITHIN_MS = 180_000;

export class Load {
  readonly requests: Request[] = [];
  /** Times of the responses that accept an email, by performance.now(). */
  readonly acceptedAtMs: number[] = [];
  readonly refusals = new Map<number, number>();
  readonly #nodes: readonly Service[];
  readonly #key: string;
  readonly #clients: Promise<void>[];
  /** The node that each client waits for, by the index of its email. */
  readonly #waiting = new Map<number, string>();
  #isOver = false;
  #count = 0;

  constructor(nodes: readonly Service[], key: string) {
    this.#nodes = nodes;
    this.#key = key;
    this.#clients = Array.from({ length: CLIENTS }, () => this.#run());
  }

  /** Ends when each client has its 202. */
  async end(): Promise<void> {
    this.#isOver = true;
    let isAnswered = false;
    void Promise.all(this.#clients).then(() => (isAnswered = true));
    await waitFor(() => isAnswered, { what: 'all clients', timeoutMs: ANSWERED_WITHIN_MS }).catch(
      (error: Error) => {
        throw new Error(`${error.message}: ${JSON.stringify(Object.fromEntries(this.#waiting))}`);
      },
    );
  }

  /** Returns the longest time without a 202 since then, in milliseconds. */
  longestPauseMs(sinceMs: number): number {
    const times = [sinceMs, ...this.acceptedAtMs.filter((atMs) => atMs > sinceMs)];
    return Math.max(0, ...times.slice(1).map((atMs, at) => atMs - times[at]!));
  }

  async #run(): Promise<void> {
    while (!this.#isOver) {
      const index = (this.#count += 1);
      const begunMs = Date.now();
      const ids = [await this.#send(index)];
      this.requests.push({
        index,
        environment: 'live',
        isKeyed: true,
        outcome: 'accepted',
        ids,
        addresses: [to(index)],
        batch: null,
        scheduledAtMs: null,
        isCanceled: false,
        begunMs,
        unexpectedResponses: [],
      });
      await delay(PAUSE_MS);
    }
  }

  async #send(index: number): Promise<string> {
    const body = {
      from: FROM,
      to: to(index),
      subject: `Email ${index}`,
      text: 'Hello',
      metadata: { index: String(index) },
    };
    const options = { key: this.#key, body, headers: { 'Idempotency-Key': `ha-${index}` } };
    for (let at = index; ; at += 1) {
      const node = this.#nodes[at % this.#nodes.length]!;
      const atS = Math.round(performance.now() / 1_000);
      this.#waiting.set(index, `${node.url} since ${atS} s`);
      const response = await node.request('POST', '/v1/emails', options).catch(() => null);
      this.#waiting.delete(index);
      // 200: an earlier attempt was accepted, and its 202 was lost.
      if (response?.status === 202 || response?.status === 200) {
        this.acceptedAtMs.push(performance.now());
        return response.body.id as string;
      }
      const status = response?.status ?? 0;
      this.refusals.set(status, (this.refusals.get(status) ?? 0) + 1);
      await delay(RETRY_AFTER_MS);
    }
  }
}
