/**
 * The events of a service as they happen, over its event stream: connected again whenever the
 * connection is lost, behind the last event that was taken, so that none is missed. An event that was
 * being handled when the connection broke comes once.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Response } from 'undici';
import type { Failure } from './command.ts';
import { type ErrorAnswer, noAnswer, refusedBy, type ServiceApi } from './service-api.ts';

/** Of an event on the wire, what the command line uses. */
export type SourceEvent = {
  id: string;
  type: string;
  created_at: string;
  cursor: string;
  data: Record<string, unknown>;
};

/** The service sends something at least every 15 s. */
export const SILENCE_MS = 45_000;
const WAIT_MS = 1_000;
const WAIT_MAX_MS = 30_000;

export type SourceOptions = {
  /** Of `GET /v1/events`, without `after`. */
  query: URLSearchParams;
  /** A cursor, or `latest`. */
  after: string;
  signal: AbortSignal;
  /** Why it is connected again. */
  onLost: (sentence: string) => void;
};

export class EventSource {
  readonly #api: ServiceApi;
  readonly #options: SourceOptions;
  #waitMs = WAIT_MS;
  /** Where to go on: behind the last event that was taken. */
  cursor: string;
  /** Why it has ended; null: by its signal. */
  failure: Failure | null = null;

  constructor(api: ServiceApi, options: SourceOptions) {
    this.#api = api;
    this.#options = options;
    this.cursor = options.after;
  }

  /** Until the signal, or a failure that repeating does not mend. */
  async *events(): AsyncGenerator<SourceEvent> {
    const { signal, onLost } = this.#options;
    while (!signal.aborted && this.failure === null) {
      try {
        yield* this.#connection();
      } catch (error) {
        if (signal.aborted) return;
        onLost(`${noAnswer(this.#api.origin, error).failed} It is tried again.`);
      }
      if (this.failure !== null || signal.aborted) return;
      await pause(this.#waitMs, undefined, { signal }).catch(() => {});
      this.#waitMs = Math.min(2 * this.#waitMs, WAIT_MAX_MS);
    }
  }

  async *#connection(): AsyncGenerator<SourceEvent> {
    const { query, signal, onLost } = this.#options;
    if (this.cursor === 'latest') this.cursor = await this.#latest();
    const response = await this.#api.request(`/v1/events?${query.toString()}`, {
      signal,
      headers: { accept: 'text/event-stream', 'last-event-id': this.cursor },
    });
    if (!(await this.#isGood(response))) return;
    this.#waitMs = WAIT_MS;
    for await (const { id, data } of messagesIn(response)) {
      if (data !== null) yield JSON.parse(data) as SourceEvent;
      // Only now: it was taken, whatever has come behind it meanwhile.
      if (id !== null) this.cursor = id;
    }
    onLost('The service has ended the stream; it is opened again.');
  }

  /** A place that stays, however often it is connected again before the first event. */
  async #latest(): Promise<string> {
    const { signal } = this.#options;
    const response = await this.#api.request('/v1/events?after=latest', { signal });
    if (!(await this.#isGood(response))) return 'latest';
    return ((await response.json()) as { cursor: string }).cursor;
  }

  async #isGood(response: Response): Promise<boolean> {
    if (response.ok) return true;
    const answer = JSON.parse(await response.text()) as ErrorAnswer;
    const refused = refusedBy(answer);
    if (response.status < 500 && response.status !== 429) this.failure = refused;
    else this.#options.onLost(`${refused.failed} It is tried again.`);
    return false;
  }
}

type Message = { id: string | null; data: string | null };

/** Server-sent events, as the service writes them: one line for each field. */
async function* messagesIn(response: Response): AsyncGenerator<Message> {
  let rest = '';
  const decoder = new TextDecoder();
  for await (const bytes of response.body ?? []) {
    const blocks = (rest + decoder.decode(bytes as Uint8Array, { stream: true })).split('\n\n');
    rest = blocks.pop()!;
    for (const block of blocks) {
      const field = (name: string): string | null =>
        block
          .split('\n')
          .find((line) => line.startsWith(`${name}: `))
          ?.slice(name.length + 2) ?? null;
      yield { id: field('id'), data: field('data') };
    }
  }
}
