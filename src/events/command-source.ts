/**
 * Reads the event stream of a service. After a lost connection it reconnects and continues after the last handled
 * event, so that no event is missed. An event that was being handled at that moment is yielded once.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { LetterhausError } from '../../sdk/src/errors.ts';
import type { Api } from '../cli/api.ts';

export type SourceEvent = {
  id: string;
  type: string;
  created_at: string;
  cursor: string;
  data: Record<string, unknown>;
};

/** Three times the interval of the service's heartbeats (15 s). */
const SILENCE_MS = 45_000;
const WAIT_MS = 1_000;
const WAIT_MAX_MS = 30_000;

export type SourceOptions = {
  query: URLSearchParams;
  after: string;
  signal: AbortSignal;
  onLost: (sentence: string) => void;
};

export class EventSource {
  readonly #request: Api['request'];
  readonly #options: SourceOptions;
  #waitMs = WAIT_MS;
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
      // The consumer has handled the event by now.
      if (id !== null) this.cursor = id;
    }
    onLost('The service ended the stream. Reconnecting.');
  }

  /** Asks for a fixed cursor, so that no event is missed if the connection is lost before the first one. */
  async #latest(): Promise<string> {
    const { signal } = this.#options;
    const response = await this.#request('/v1/events?after=latest', { signal });
    return ((await response.json()) as { cursor: string }).cursor;
  }
}

class Silence implements Disposable {
  readonly signal: AbortSignal;
  readonly #silent = new AbortController();
  #timer: NodeJS.Timeout | undefined;

  constructor(signal: AbortSignal) {
    this.signal = AbortSignal.any([signal, this.#silent.signal]);
    this.received();
  }

  received(): void {
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

/** Parses server-sent events in the service's form: one line per field. */
async function* messagesIn(response: Response, silence: Silence): AsyncGenerator<Message> {
  let rest = '';
  const decoder = new TextDecoder();
  for await (const bytes of response.body ?? []) {
    silence.received();
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
