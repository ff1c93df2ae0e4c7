/** The event stream of a project. Lists and pages show its events without a reload. */
import { useEffect, useRef, useState } from 'react';
import type { StreamEvent } from '../../../sdk/src/api.ts';
import { ApiError, respond, type Scope } from './client.ts';
import { takeEvents } from './event-stream.ts';

const RECONNECT_MS = 3_000;
/** Milliseconds. Events that arrive within this time are handled together. */
const GATHER_MS = 250;

/**
 * Calls `onEvents` with new events while the page is open. After a lost connection it calls it with none, because
 * events may have been missed.
 * @returns whether the connection is open
 */
export function useEvents(
  scope: Scope,
  onEvents: (events: readonly StreamEvent[]) => void,
  { emailId }: { emailId?: string } = {},
): boolean {
  const [isLive, setLive] = useState(true);
  const handler = useRef(onEvents);
  handler.current = onEvents;
  const { project, environment } = scope;
  useEffect(() => {
    const ended = new AbortController();
    const follow = async (): Promise<void> => {
      let cursor = 'latest';
      let isFirst = true;
      while (!ended.signal.aborted) {
        try {
          const response = await respond('listEvents', {
            query: { after: cursor, email_id: emailId },
            scope: { project, environment },
            headers: { accept: 'text/event-stream' },
            signal: ended.signal,
          });
          setLive(true);
          if (!isFirst) handler.current([]);
          isFirst = false;
          cursor = await readEvents(response, cursor, (events) => handler.current(events));
        } catch (error) {
          // The session has ended, and the page redirects to sign-in. After other failures the loop connects again.
          if (error instanceof ApiError && error.status === 401) return;
        }
        if (ended.signal.aborted) return;
        setLive(false);
        await pause(RECONNECT_MS, ended.signal);
      }
    };
    void follow();
    return () => ended.abort();
  }, [project, environment, emailId]);
  return isLive;
}

/** @returns the cursor of the last event, when the stream has ended */
async function readEvents(
  response: Response,
  after: string,
  onEvents: (events: StreamEvent[]) => void,
): Promise<string> {
  let cursor = after;
  let text = '';
  let gathered: StreamEvent[] = [];
  let timer = 0;
  const handOver = (): void => {
    timer = 0;
    onEvents(gathered);
    gathered = [];
  };
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return cursor;
    const { events, rest } = takeEvents(text + value);
    text = rest;
    cursor = events.at(-1)?.cursor ?? cursor;
    gathered.push(...events);
    if (events.length > 0 && timer === 0) timer = window.setTimeout(handOver, GATHER_MS);
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
