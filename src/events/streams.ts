/**
 * The open event streams of one worker (`Accept: text/event-stream`). Each reads pages from the database and sends
 * them as fast as its client reads.
 *
 * Guarantee: a stream sends every event after its cursor once, in order, each with the cursor to resume from. It
 * reads no further ahead than its client. A stream ends
 * - within about a second when its key is revoked or changed
 * - when the service stops
 * - when the database no longer has events that it has sent (stream-store.ts)
 * - when its client does not read (http/socket/client-connections.ts).
 * While the database is unavailable, it sends only heartbeats.
 *
 * Streams that have sent everything wait together: four times a second one statement finds those with new events. At
 * most two pages are read at a time, so that other requests keep a connection. Projects take turns.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import { Turns } from '../lib/turns.ts';
import { Overloaded } from '../core/refusals.ts';
import type { Caller } from '../core/scope.ts';
import {
  findNewer,
  readStream,
  type StreamEvent,
  type StreamFilter,
  type StreamPage,
  type StreamPoint,
} from './stream-store.ts';
import { type Database, DatabaseUnavailable } from '../database/database.ts';
import { cursorText } from './cursor.ts';

export type StreamLimits = {
  /** Limit on streams of all projects together, beyond `streamsAlways` of each. */
  streams: number;
  streamsOfProject: number;
  streamsAlways: number;
  streamsOfKey: number;
  pollEveryMs: number;
  checkKeysEveryMs: number;
  heartbeatMs: number;
};

const STREAM_LIMITS: StreamLimits = {
  streams: 250,
  streamsOfProject: 100,
  streamsAlways: 5,
  streamsOfKey: 10,
  pollEveryMs: 250,
  checkKeysEveryMs: 1_000,
  heartbeatMs: 15_000,
};

const PAGE_EVENTS = 100;
const PAGES_AT_ONCE = 2;
const RETRY_MS = 2_000;

export type StreamRequest = {
  caller: Caller;
  /** Returns the current caller, or null when the key was revoked, or the session has ended. */
  callerAgain: () => Promise<Caller | null>;
  filter: StreamFilter;
  after: StreamPoint;
};

type EventStreamsOptions = {
  db: Database;
  log: Pick<Logger, 'error'>;
  retentionH: number | null;
  limits?: Partial<StreamLimits>;
};

class OpenStream {
  readonly request: StreamRequest;
  at: StreamPoint;
  /** The reason for its end, sent as its last line, or null when it is open. */
  end: string | null = null;
  isWaiting = false;
  #wake: () => void = () => {};

  constructor(request: StreamRequest, at: StreamPoint) {
    this.request = request;
    this.at = at;
  }

  /**
   * Waits for new events.
   * @returns true when there are new events or the stream has ended; false after `ms`
   */
  async wait(ms: number): Promise<boolean> {
    if (this.end !== null) return true;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const timer = setTimeout(resolve, ms, false);
    this.#wake = () => resolve(true);
    this.isWaiting = true;
    const isWoken = await promise;
    this.isWaiting = false;
    clearTimeout(timer);
    return isWoken;
  }

  wake(): void {
    this.#wake();
  }

  close(why: string): void {
    this.end ??= why;
    this.wake();
  }
}

export class EventStreams {
  readonly #options: EventStreamsOptions;
  readonly #limits: StreamLimits;
  readonly #open = new Set<OpenStream>();
  readonly #pages = new Turns({ count: PAGES_AT_ONCE });
  #isRunning = false;
  #isStopping = false;

  constructor(options: EventStreamsOptions) {
    this.#options = options;
    this.#limits = { ...STREAM_LIMITS, ...options.limits };
  }

  /** Reads one page for a client that polls, or returns a text: the reason why its cursor is no longer valid. */
  page(request: StreamRequest, limit: number): Promise<StreamPage | string> {
    const { caller, filter, after } = request;
    const { db, retentionH } = this.#options;
    return this.#pages.run(caller.projectId, () =>
      readStream(db, caller, { after, filter, limit, retentionH }),
    );
  }

  /**
   * Opens a stream and reads its first page.
   * @returns the content for the client, or a text: the reason why the cursor is no longer valid
   * @throws Overloaded when the key, the project or the worker has the maximum number of streams
   */
  async open(
    request: StreamRequest,
  ): Promise<{ text: AsyncGenerator<string>; leave: () => void } | string> {
    this.#refuseTooMany(request.caller);
    const stream = new OpenStream(request, request.after);
    this.#open.add(stream);
    try {
      const first = await this.page(request, PAGE_EVENTS);
      if (typeof first === 'string') {
        this.#open.delete(stream);
        return first;
      }
      this.#start();
      if (this.#isStopping) stream.close('the service is stopping');
      return { text: this.#textOf(stream, first), leave: () => this.#leave(stream) };
    } catch (error) {
      this.#open.delete(stream);
      throw error;
    }
  }

  close(): void {
    this.#isStopping = true;
    for (const stream of this.#open) stream.close('the service is stopping');
  }

  #refuseTooMany({ projectId, keyId }: Caller): void {
    const { streams, streamsOfProject, streamsOfKey, streamsAlways } = this.#limits;
    const callers = [...this.#open].map(({ request }) => request.caller);
    if (callers.filter((caller) => caller.keyId === keyId).length >= streamsOfKey) {
      throw new Overloaded(`${streamsOfKey} event streams of this key are open`);
    }
    const counts = new Map<string, number>();
    for (const caller of callers) {
      counts.set(caller.projectId, (counts.get(caller.projectId) ?? 0) + 1);
    }
    const ofProject = counts.get(projectId) ?? 0;
    if (ofProject >= streamsOfProject) {
      throw new Overloaded(`${streamsOfProject} event streams of this project are open`);
    }
    if (ofProject < streamsAlways) return;
    const shared = [...counts.values()].map((count) => Math.max(0, count - streamsAlways));
    if (shared.reduce((sum, count) => sum + count, 0) >= streams) {
      throw new Overloaded(`${callers.length} event streams are open`);
    }
  }

  /** Ends the stream of a client that has disconnected, even if it was never read. */
  #leave(stream: OpenStream): void {
    stream.close('the client disconnected');
    this.#open.delete(stream);
  }

  async *#textOf(stream: OpenStream, first: StreamPage): AsyncGenerator<string> {
    const { caller } = stream.request;
    yield `retry: ${RETRY_MS}\n\n`;
    try {
      for (let page: StreamPage | null = first; stream.end === null;) {
        const text = page?.events.map((event) => eventText(event, caller)).join('') ?? '';
        if (text !== '') yield text;
        stream.at = page?.next ?? stream.at;
        if (page?.hasMore !== true && !(await stream.wait(this.#limits.heartbeatMs))) {
          yield heartbeatText(stream);
        }
        if (stream.end !== null) break;
        page = await this.#nextPage(stream);
      }
      yield `: ${stream.end}\n\n`;
    } finally {
      this.#open.delete(stream);
    }
  }

  /** Returns null when the database is unavailable, or the stream has ended. */
  async #nextPage(stream: OpenStream): Promise<StreamPage | null> {
    try {
      const page = await this.page({ ...stream.request, after: stream.at }, PAGE_EVENTS);
      if (typeof page !== 'string') return page;
      stream.close(`this stream cannot continue: ${page}`);
    } catch (error) {
      if (error instanceof DatabaseUnavailable) return null;
      this.#options.log.error(
        { err: error },
        'this worker closed an event stream, because it could not read a page',
      );
      stream.close('the stream failed');
    }
    return null;
  }

  /** Starts with the first stream, so a worker without streams makes no queries. */
  #start(): void {
    if (this.#isRunning) return;
    this.#isRunning = true;
    const { pollEveryMs, checkKeysEveryMs } = this.#limits;
    void this.#repeat(pollEveryMs, () => this.#wakeReaders());
    void this.#repeat(checkKeysEveryMs, () => this.#checkKeys());
  }

  async #repeat(everyMs: number, work: () => Promise<void>): Promise<void> {
    while (!this.#isStopping) {
      await pause(everyMs, undefined, { ref: false });
      await work().catch((error: unknown) => {
        if (error instanceof DatabaseUnavailable) return;
        this.#options.log.error(
          { err: error },
          'this worker could not poll for its event streams; it tries again with the next poll',
        );
      });
    }
  }

  /** Wakes the waiting streams that have new events. */
  async #wakeReaders(): Promise<void> {
    const waiting = [...this.#open].filter(({ isWaiting }) => isWaiting);
    if (waiting.length === 0) return;
    const readers = waiting.map((stream) => {
      const { projectId, environment } = stream.request.caller;
      return { projectId, environment, at: stream.at, stream };
    });
    for (const { stream } of await findNewer(this.#options.db, readers)) stream.wake();
  }

  async #checkKeys(): Promise<void> {
    await Promise.all(
      [...this.#open].map(async (stream) => {
        const { caller, callerAgain } = stream.request;
        const current = await callerAgain();
        if (current === null || !hasSameAccess(current, caller))
          stream.close('the key was revoked or changed');
      }),
    );
  }
}

function hasSameAccess(now: Caller, before: Caller): boolean {
  return now.permission === before.permission && now.domain === before.domain;
}

export function streamEventToWire(event: StreamEvent, caller: Caller) {
  const { id, type, createdAt, number, data, point } = event;
  return {
    object: 'event' as const,
    id,
    type,
    created_at: createdAt.toISOString(),
    number,
    cursor: cursorText(point, caller),
    data,
  };
}

/** JSON contains no line breaks, so one `data` line is enough. */
function eventText(event: StreamEvent, caller: Caller): string {
  const json = streamEventToWire(event, caller);
  return `id: ${json.cursor}\nevent: ${json.type}\ndata: ${JSON.stringify(json)}\n\n`;
}

/** Returns a heartbeat. Its id without data moves a client's Last-Event-ID past events that the filter omits. */
function heartbeatText({ at, request }: OpenStream): string {
  return `: heartbeat\nid: ${cursorText(at, request.caller)}\n\n`;
}
