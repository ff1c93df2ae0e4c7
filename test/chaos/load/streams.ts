/**
 * Reads the event stream while faults go on: one reader of pages for each environment, and one reader of server-sent
 * events. Each reader continues at its last cursor, at any node that is up. `finish` lets them read to the end after
 * the queue has drained. The ledger compares the received events with the stored ones.
 */
import { failureOf } from '../../../sdk/src/errors.ts';
import { setTimeout as delay } from 'node:timers/promises';
import { EventSource } from '../../../src/events/command-event-source.ts';
import { OPERATOR_PROJECT_ID } from '../../../src/core/operator-events.ts';
import { waitFor } from '../../support/wait.ts';
import { isUnavailable } from './node-requests.ts';
import type { ReadStream } from '../ledger/ledger-types.ts';
import type { RandomSource } from '../random.ts';
import type { Stage } from '../stage.ts';

const PAGE_EVERY_MS = 500;
const RESPONSE_WITHIN_MS = 8_000;
const FINISHED_WITHIN_MS = 90_000;
/** Reads the ids of the load's events, without those of the attacker and of the operator. */
const EVENTS = `select id from events where environment = $1 and project_id not in ($2, $3)`;

type Environment = 'live' | 'test';
type Reader = {
  name: string;
  environment: Environment;
  received: string[];
  unexpectedResponses: string[];
};
type Page = { data: { id: string; cursor: string }[]; has_more: boolean; cursor: string };

export class StreamReaders {
  readonly #stage: Stage;
  readonly #random: RandomSource;
  readonly #stop = new AbortController();
  readonly #readers: readonly Reader[] = [
    newReader('pages, live', 'live'),
    newReader('pages, test', 'test'),
    newReader('server-sent, live', 'live'),
  ];
  #reading: Promise<unknown> = Promise.resolve();

  constructor(stage: Stage, random: RandomSource) {
    this.#stage = stage;
    this.#random = random;
  }

  start(): void {
    const [live, test, open] = this.#readers as [Reader, Reader, Reader];
    this.#reading = Promise.all([this.#readPages(live), this.#readPages(test), this.#follow(open)]);
  }

  /** Reads the rest and ends. Called when nothing is open any more. */
  async finish(): Promise<ReadStream[]> {
    const streams = await Promise.all(this.#readers.map((reader) => this.#finished(reader)));
    await this.stop();
    return streams;
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#reading;
  }

  async #finished(reader: Reader): Promise<ReadStream> {
    const { name, environment, received, unexpectedResponses } = reader;
    const values = [environment, this.#stage.attacker.projectId, OPERATOR_PROJECT_ID];
    const rows: { id: string }[] = await this.#stage.sql(EVENTS, values);
    const expected = rows.map(({ id }) => id);
    const hasAll = (): boolean => {
      const got = new Set(received);
      return expected.every((id) => got.has(id));
    };
    // Missing events become findings of the ledger.
    const options = { what: name, timeoutMs: FINISHED_WITHIN_MS };
    await waitFor(hasAll, options).catch(() => {});
    return { reader: name, expected, received, unexpectedResponses };
  }

  async #readPages(reader: Reader): Promise<void> {
    const { signal } = this.#stop;
    let after = '';
    while (!signal.aborted) {
      const page = await this.#page(reader, after);
      if (page !== null) {
        reader.received.push(...page.data.map(({ id }) => id));
        after = page.cursor;
      }
      if (page?.has_more !== true) await pause(signal);
    }
  }

  /** Returns a page of events; null: no node responded. */
  async #page(reader: Reader, after: string, limit = 100): Promise<Page | null> {
    const query = new URLSearchParams({ limit: String(limit), ...(after !== '' && { after }) });
    try {
      const signal = AbortSignal.timeout(RESPONSE_WITHIN_MS);
      const response = await this.#request(reader, `/v1/events?${query.toString()}`, {
        signal,
      });
      return response.ok ? ((await response.json()) as Page) : null;
    } catch {
      return null;
    }
  }

  /** Follows the stream from the first event on. */
  async #follow(reader: Reader): Promise<void> {
    const { received } = reader;
    const { signal } = this.#stop;
    let first: Page['data'][number] | undefined;
    while (first === undefined) {
      if (signal.aborted) return;
      first = (await this.#page(reader, '', 1))?.data[0];
      await pause(signal);
    }
    received.push(first.id);
    const place = { query: new URLSearchParams(), after: first.cursor };
    const request = (path: string, init?: RequestInit) => this.#request(reader, path, init);
    const source = new EventSource(request, { ...place, signal, report: () => {} });
    for await (const { id } of source.events()) received.push(id);
  }

  /** @throws when no node is up, or the node refuses or does not respond */
  async #request(
    { environment, unexpectedResponses }: Reader,
    path: string,
    init: RequestInit = {},
  ): Promise<Response> {
    const up = this.#stage.nodes.filter(({ isUp }) => isUp);
    if (up.length === 0) throw new Error('no node is up');
    const key = environment === 'live' ? this.#stage.adminKey : this.#stage.testKey;
    const response = await fetch(this.#random.pick(up).service.url + path, {
      ...init,
      headers: { ...(init.headers as Record<string, string>), authorization: `Bearer ${key}` },
    });
    if (!response.ok) {
      const { status } = response;
      const answer = { status, text: await response.clone().text() };
      if (!isUnavailable(answer))
        unexpectedResponses.push(`${status} ${answer.text.slice(0, 300)}`);
      throw await failureOf(response);
    }
    return response;
  }
}

function newReader(name: string, environment: Environment): Reader {
  return { name, environment, received: [], unexpectedResponses: [] };
}

function pause(signal: AbortSignal): Promise<void> {
  return delay(PAGE_EVERY_MS, undefined, { signal }).catch(() => {});
}
