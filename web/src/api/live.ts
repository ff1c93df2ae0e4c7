/**
 * Parts of a page that follow the events of a project (stream/feed.ts). They get events together, so that a burst
 * causes few requests.
 */
import { useEffect, useRef, useState } from 'react';
import type { Scope } from './client.ts';
import { followEvents, type NewEvents } from './stream/feed.ts';
import { Gathering } from './stream/gathering.ts';

export type { NewEvents } from './stream/feed.ts';

/** Milliseconds. Events that arrive within this time are handled together. */
const GATHER_MS = 250;

type Options = {
  /** Follows only this email. */
  emailId?: string;
  /** Milliseconds between two calls, for pages whose refresh is expensive. */
  everyMs?: number;
};

/**
 * Calls `onEvents` with new events while the page is open, and without events when some may have been missed: what
 * the page has read may be older.
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
    const gathering = new Gathering((news) => handler.current(news), {
      firstMs: GATHER_MS,
      everyMs: () => everyMs,
    });
    const end = followEvents(
      { project, environment },
      {
        onLive: setLive,
        onNews: ({ events, isGapless }) => {
          const own =
            emailId === undefined ? events : events.filter((one) => isAbout(one, emailId));
          if (own.length > 0 || !isGapless) gathering.add({ events: own, isGapless });
        },
      },
    );
    return () => {
      end();
      gathering.stop();
    };
  }, [project, environment, emailId, everyMs]);
  return isLive;
}

function isAbout({ data }: NewEvents['events'][number], emailId: string): boolean {
  return data['email_id'] === emailId;
}
