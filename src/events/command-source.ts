/**
 * Reads the event stream of a service. When the connection is lost, it reconnects and continues after
 * the last event that was handled, so that no event is missed. An event that was being handled when the
 * connection was lost is yielded once.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Response } from 'undici';
import type { Failure } from '../cli/command.ts';
import { type ErrorAnswer, noAnswer, refusedBy, type ServiceApi } from '../cli/service-api.ts';

/** The fields of an event that the command line uses. */
export type SourceEvent = {
  id: string;
  type: string;
  created_at: string;
  cursor: string;
  data: Record<string, unknown>;
};

/** Three times the 15 s after which the service sends at least a comment. */
export const SILENCE_MS = 45_000;
const WAIT_MS = 1_000;
const WAIT_MAX_MS = 30_000;

export type SourceOptions = {
  /** The query of `GET /v1/events`, without `after`. */
  query: URLSearchParams;
  /** A cursor or `latest`. */
  after: string;
  signal: AbortSignal;
  /** Called with the reason before each reconnection. */
  onLost: (sentence: string) => void;
};

export class EventSource {
  readonly #api: ServiceApi;
  readonly #options: SourceOptions;
  #waitMs = WAIT_MS;
  /** The position after the last event that was handled. */
  cursor: string;
  /** Why the stream ended; null: because of its signal. */
  failure: Failure | null = null;

  constructor(api: ServiceApi, options: SourceOptions) {
    this.#api = api;
    this.#options = options;
    this.cursor = options.after;
  }

  /** Ends at the signal, or sets `failure` at an error that a retry cannot solve. */
  async *events(): AsyncGenerator<SourceEvent> {
    const { signal, onLost } = this.#options;
    while (!signal.aborted && this.failure === null) {
      try {
        yield* this.#connection();
      } catch (error) {
        if (signal.aborted) return;
        onLost(`${noAnswer(this.#api.origin, error).failed} Retrying.`);
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
      // Only now, since the consumer has handled the event.
      if (id !== null) this.cursor = id;
    }
    onLost('The service ended the stream. Reconnecting.');
  }

  /** A fixed cursor, so that events are not missed when the connection is lost before the first one. */
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
    else this.#options.onLost(`${refused.failed} Retrying.`);
    return false;
  }
}

type Message = { id: string | null; data: string | null };

/** Parses server-sent events in the form that the service writes: one line per field. */
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
