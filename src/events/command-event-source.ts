/**
 * Reads the event stream of a service. After a lost connection it reconnects and continues after the last handled
 * event, so that no event is missed. An event that was being handled at that moment is yielded once. An outage is
 * reported once, not with each attempt to reconnect.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { LetterhausError } from '../../sdk/src/errors.ts';
import type { Api } from '../cli/api.ts';
import { failureReason } from '../cli/connection.ts';

export type SourceEvent = {
  id: string;
  type: string;
  created_at: string;
  cursor: string;
  data: Record<string, unknown>;
};

/** Three times the interval of the service's heartbeats (15 s). */
const SILENCE_MS = 45_000;
const RECONNECT_FIRST_MS = 1_000;
const RECONNECT_MAX_MS = 30_000;

export type EventSourceOptions = {
  query: URLSearchParams;
  after: string;
  signal: AbortSignal;
  /** Receives one sentence when the connection is lost, and one when the service responds again. */
  report: (sentence: string) => void;
};

export class EventSource {
  readonly #request: Api['request'];
  readonly #options: EventSourceOptions;
  #reconnectMs = RECONNECT_FIRST_MS;
  #hasOutage = false;
  cursor: string;

  constructor(request: Api['request'], options: EventSourceOptions) {
    this.#request = request;
    this.#options = options;
    this.cursor = options.after;
  }

  /**
   * Yields events until the signal.
   * @throws LetterhausError that a retry cannot solve: the key is refused, or no service is at the address
   */
  async *events(): AsyncGenerator<SourceEvent> {
    const { signal } = this.#options;
    while (!signal.aborted) {
      try {
        yield* this.#connection();
        this.#reportOutage('The service ended the event stream.');
      } catch (error) {
        if (signal.aborted) return;
        if (isPermanent(error)) throw error;
        this.#reportOutage(outageSentence(error));
      }
      await pause(this.#reconnectMs, undefined, { signal }).catch(() => {});
      this.#reconnectMs = Math.min(2 * this.#reconnectMs, RECONNECT_MAX_MS);
    }
  }

  async *#connection(): AsyncGenerator<SourceEvent> {
    if (this.cursor === 'latest') this.cursor = await this.#latestCursor();
    using silence = new SilenceTimer(this.#options.signal);
    const response = await this.#request(`/v1/events?${this.#options.query.toString()}`, {
      signal: silence.signal,
      headers: { accept: 'text/event-stream', 'last-event-id': this.cursor },
    });
    requireType(response, 'text/event-stream');
    this.#noteConnected();
    for await (const { id, data } of messagesIn(response, silence)) {
      if (data !== null) yield JSON.parse(data) as SourceEvent;
      // The consumer has handled the event by now.
      if (id !== null) this.cursor = id;
    }
  }

  /** Requests a fixed cursor, so that no event is missed if the connection is lost before the first one. */
  async #latestCursor(): Promise<string> {
    const { signal } = this.#options;
    const response = await this.#request('/v1/events?after=latest', { signal });
    requireType(response, 'application/json');
    return ((await response.json()) as { cursor: string }).cursor;
  }

  #reportOutage(sentence: string): void {
    if (this.#hasOutage) return;
    this.#hasOutage = true;
    this.#options.report(`${sentence} This command tries again until the service responds.`);
  }

  #noteConnected(): void {
    if (this.#hasOutage) this.#options.report('The service responds again.');
    this.#hasOutage = false;
    this.#reconnectMs = RECONNECT_FIRST_MS;
  }
}

/** Returns whether repeating the request cannot help, as with a refused key (401, 403) or a wrong address (404). */
function isPermanent(error: unknown): error is LetterhausError {
  return error instanceof LetterhausError && error.status < 500 && error.status !== 429;
}

function outageSentence(error: unknown): string {
  if (error instanceof LetterhausError) return error.message;
  return `The service does not respond (${failureReason(error)}).`;
}

/** @throws LetterhausError when something else than a service responds, such as a website */
function requireType({ headers, status }: Response, type: string): void {
  if (headers.get('content-type')?.startsWith(type)) return;
  throw new LetterhausError({
    status,
    code: 'not_found',
    message: 'The response is not from Letterhaus: check the address (--url or LETTERHAUS_URL).',
    request_id: null,
    details: [],
    retry_after: null,
  });
}

/** Aborts its signal when nothing arrives for SILENCE_MS. */
class SilenceTimer implements Disposable {
  readonly signal: AbortSignal;
  readonly #silence = new AbortController();
  #timer: NodeJS.Timeout | undefined;

  constructor(signal: AbortSignal) {
    this.signal = AbortSignal.any([signal, this.#silence.signal]);
    this.restart();
  }

  restart(): void {
    clearTimeout(this.#timer);
    const reason = new Error(`nothing arrived for ${SILENCE_MS / 1_000} s`);
    this.#timer = setTimeout(() => this.#silence.abort(reason), SILENCE_MS);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
    this.#silence.abort();
  }
}

type StreamMessage = { id: string | null; data: string | null };

/** Parses server-sent events in the service's form: one line per field. */
async function* messagesIn(
  response: Response,
  silence: SilenceTimer,
): AsyncGenerator<StreamMessage> {
  let incomplete = '';
  const decoder = new TextDecoder();
  for await (const bytes of response.body ?? []) {
    silence.restart();
    const text = incomplete + decoder.decode(bytes as Uint8Array, { stream: true });
    const blocks = text.split('\n\n');
    incomplete = blocks.pop()!;
    for (const block of blocks) {
      yield { id: fieldOf(block, 'id'), data: fieldOf(block, 'data') };
    }
  }
}

function fieldOf(block: string, name: string): string | null {
  const line = block.split('\n').find((text) => text.startsWith(`${name}: `));
  return line?.slice(name.length + 2) ?? null;
}
