/**
 * The event stream of a project. Lists and pages show its events without a reload. A lost connection continues after
 * the last event that arrived, so a page misses none while a laptop sleeps or the service restarts.
 */
import { useEffect, useRef, useState } from 'react';
import type { StreamEvent } from '../../../sdk/src/api.ts';
import { ApiError, respond, type Scope } from './client.ts';
import { takeEvents } from './event-stream.ts';

const RECONNECT_MS = 3_000;
/** Milliseconds. Events that arrive within this time are handled together. */
const GATHER_MS = 250;

/**
 * `isGapless`: no event before these was missed. Otherwise events may be missing, so the page has to read everything
 * that it shows again.
 */
export type NewEvents = { events: readonly StreamEvent[]; isGapless: boolean };

type Options = {
  /** Follows only this email. */
  emailId?: string;
  /** Milliseconds between two calls, for pages whose refresh is expensive. */
  everyMs?: number;
};

/**
 * Calls `onEvents` with new events while the page is open. The first call comes with the connection and has no
 * events: what the page had read before it may be older.
 * @returns whether the connection is open
 */
export function useEvents(
  scope: Scope,
  onEvents: (news: NewEvents) => void,
  { emailId, everyMs = GATHER_MS }: Options = {},
): boolean {
  const [isLive, setLive] = useState(true);
  const handler = useRef(onEvents);
  handler.current = onEvents;
  const { project, environment } = scope;
  useEffect(() => {
    const ended = new AbortController();
    const gathering = new Gathering((news) => handler.current(news), everyMs);
    const position = { cursor: 'latest' };
    const follow = async (): Promise<void> => {
      while (!ended.signal.aborted) {
        try {
          const response = await respond('listEvents', {
            query: { after: position.cursor, email_id: emailId },
            scope: { project, environment },
            headers: { accept: 'text/event-stream' },
            signal: ended.signal,
          });
          setLive(true);
          if (position.cursor === 'latest') gathering.add({ events: [], isGapless: false });
          await readEvents(response, position, gathering);
        } catch (error) {
          // The stored position is too old, or of a database that was replaced by a backup.
          if (error instanceof ApiError && error.status === 409) position.cursor = 'latest';
        }
        if (ended.signal.aborted) return;
        setLive(false);
        await pause(RECONNECT_MS, ended.signal);
      }
    };
    void follow();
    return () => {
      ended.abort();
      gathering.stop();
    };
  }, [project, environment, emailId, everyMs]);
  return isLive;
}

/** Hands events over together, so that a burst causes few requests. */
class Gathering {
  readonly #handOver: (news: NewEvents) => void;
  readonly #everyMs: number;
  #events: StreamEvent[] = [];
  #isGapless = true;
  #timer = 0;
  #lastMs = -Infinity;

  constructor(handOver: (news: NewEvents) => void, everyMs: number) {
    this.#handOver = handOver;
    this.#everyMs = everyMs;
  }

  add({ events, isGapless }: NewEvents): void {
    if (events.length === 0 && isGapless) return;
    this.#events.push(...events);
    this.#isGapless &&= isGapless;
    if (this.#timer !== 0) return;
    const waitMs = Math.max(GATHER_MS, this.#lastMs + this.#everyMs - performance.now());
    this.#timer = window.setTimeout(() => this.#end(), waitMs);
  }

  stop(): void {
    window.clearTimeout(this.#timer);
  }

  #end(): void {
    const news = { events: this.#events, isGapless: this.#isGapless };
    this.#timer = 0;
    this.#lastMs = performance.now();
    this.#events = [];
    this.#isGapless = true;
    this.#handOver(news);
  }
}

/** Reads until the stream ends. `position` follows it, so that a broken connection continues there. */
async function readEvents(
  response: Response,
  position: { cursor: string },
  gathering: Gathering,
): Promise<void> {
  let text = '';
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const { events, cursor, rest } = takeEvents(text + value);
    text = rest;
    position.cursor = cursor ?? position.cursor;
    gathering.add({ events, isGapless: true });
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      resolve();
    });
  });
}
