/**
 * Reads the event stream of a service. When the connection is lost, it reconnects and continues after
 * the last event that was handled, so that no event is missed. An event that was being handled when the
 * connection was lost is yielded once.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { LetterhausError } from '../../sdk/src/errors.ts';
import type { Api } from '../cli/api.ts';

/** The fields of an event that the command line uses. */
export type SourceEvent = {
  id: string;
  type: string;
  created_at: string;
  cursor: string;
  data: Record<string, unknown>;
};

/** Three times the 15 s after which the service sends at least a comment. */
const SILENCE_MS = 45_000;
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
  readonly #request: Api['request'];
  readonly #options: SourceOptions;
  #waitMs = WAIT_MS;
  /** The position after the last event that was handled. */
  cursor: string;

  constructor(request: Api['request'], options: SourceOptions) {
    this.#request = request;
    this.#options = options;
    this.cursor = options.after;
  }

  /** Ends at the signal. @throws LetterhausError that a retry cannot solve */
  async *events(): AsyncGenerator<SourceEvent> {
    const { signal, onLost } = this.#options;
    while (!signal.aborted) {
      try {
        yield* this.#connection();
      } catch (error) {
        if (signal.aborted) return;
        if (error instanceof LetterhausError && error.status < 500 && error.status !== 429) {
          throw error;
        }
        onLost(`${(error as Error).message} Retrying.`);
      }
      await pause(this.#waitMs, undefined, { signal }).catch(() => {});
      this.#waitMs = Math.min(2 * this.#waitMs, WAIT_MAX_MS);
    }
  }

  async *#connection(): AsyncGenerator<SourceEvent> {
    const { query, onLost } = this.#options;
    if (this.cursor === 'latest') this.cursor = await this.#latest();
    using silence = new Silence(this.#options.signal);
    const response = await this.#request(`/v1/events?${query.toString()}`, {
      signal: silence.signal,
      headers: { accept: 'text/event-stream', 'last-event-id': this.cursor },
    });
    this.#waitMs = WAIT_MS;
    for await (const { id, data } of messagesIn(response, silence)) {
      if (data !== null) yield JSON.parse(data) as SourceEvent;
      // Only now, since the consumer has handled the event.
      if (id !== null) this.cursor = id;
    }
    onLost('The service ended the stream. Reconnecting.');
  }

  /** A fixed cursor, so that events are not missed when the connection is lost before the first one. */
  async #latest(): Promise<string> {
    const { signal } = this.#options;
    const response = await this.#request('/v1/events?after=latest', { signal });
    return ((await response.json()) as { cursor: string }).cursor;
  }
}

/** Aborts a connection that is silent for too long. */
class Silence implements Disposable {
  readonly signal: AbortSignal;
  readonly #silent = new AbortController();
  #timer: NodeJS.Timeout | undefined;

  constructor(signal: AbortSignal) {
    this.signal = AbortSignal.any([signal, this.#silent.signal]);
    this.heard();
  }

  heard(): void {
    clearTimeout(this.#timer);
    const silent = (): void => this.#silent.abort(new Error('The service is silent.'));
    this.#timer = setTimeout(silent, SILENCE_MS);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#silent.abort();
  }
}

type Message = { id: string | null; data: string | null };

/** Parses server-sent events in the form that the service writes: one line per field. */
async function* messagesIn(response: Response, silence: Silence): AsyncGenerator<Message> {
  let rest = '';
  const decoder = new TextDecoder();
  for await (const bytes of response.body ?? []) {
    silence.heard();
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
