/**
 * Keeps the data of the page current: an event marks the data that it changes as old, and shown data is then read
 * again. Screens that show single emails follow their events themselves (`useEvents`).
 *
 * Figures change with every email. So that an open page costs the service little, they are read again at a fixed share
 * of requests: a screen with four of them every 30 s while mail flows, and soon after the first event of a quiet time.
 */
import { type Query, type QueryClient, useQueryClient } from '@tanstack/react-query';
import { useEffect } from 'react';
import { pathOf, type ReadId } from '../operations.ts';
import { useScope } from '../scope.ts';
import { noteNetwork, whenContact } from './connection.ts';
import { followEvents, type NewEvents } from './feed.ts';
import { Gathering } from './gathering.ts';

type StreamEvent = NewEvents['events'][number];

const GATHER_MS = 500;
const FIGURES_FIRST_MS = 1_000;
/** Milliseconds of traffic for each request that reads figures. All requests together are fewer than one in 5 s. */
const FIGURE_MS = 7_500;

/** Reads that every email changes. */
const FIGURES: readonly ReadId[] = ['getStats', 'getQueue', 'listRecipients'];

/** The reads that events of a kind change, by the first word of their types. */
const READS_OF_KIND: Readonly<Record<string, readonly ReadId[]>> = {
  domain: ['listDomains'],
  suppression: ['listSuppressions', 'listRecipients'],
  webhook: ['listWebhooks'],
  project: ['listProjects', 'listDomains', 'listOperatorConditions'],
};

/** Figures need no more than to know that there were some. */
const WITHOUT_EVENTS: NewEvents = { events: [], isGapless: true };

/** Mounted once, by the frame of all screens. */
export function useLiveData(): void {
  const cache = useQueryClient();
  const { project, environment } = useScope();
  useEffect(() => {
    const isOfScope = ({ queryKey: [first, second] }: Query): boolean =>
      first === project && second === environment;
    const ofScope =
      (places: readonly string[]) =>
      (query: Query): boolean =>
        isOfScope(query) && places.some((place) => isAtOrBelow(query, place));
    const areFigures = ofScope(FIGURES.map((id) => pathOf(id)));
    const figures = new Gathering(() => void cache.invalidateQueries({ predicate: areFigures }), {
      firstMs: FIGURES_FIRST_MS,
      everyMs: () => FIGURE_MS * countActive(cache, areFigures),
    });
    const objects = new Gathering(
      ({ events, isGapless }) => {
        const places = isGapless ? placesOf(events) : ALL_PLACES;
        void cache.invalidateQueries({ predicate: ofScope(places) });
        // The open list and the open email read their own parts.
        const isEmail = (query: Query) =>
          isOfScope(query) && !query.isActive() && isOfEmails(query);
        void cache.invalidateQueries({ predicate: isEmail, refetchType: 'none' });
      },
      { firstMs: GATHER_MS, everyMs: () => GATHER_MS },
    );
    const end = followEvents(
      { project, environment },
      {
        onNews: (news) => {
          figures.add(WITHOUT_EVENTS);
          objects.add(news);
        },
      },
    );
    const endContact = whenContact((isBack) => {
      // Reads that have begun during the outage will tell whether it has ended.
      void cache.invalidateQueries({}, { cancelRefetch: isBack });
    });
    const onNetwork = (): void => noteNetwork(navigator.onLine);
    window.addEventListener('offline', onNetwork);
    window.addEventListener('online', onNetwork);
    return () => {
      end();
      endContact();
      window.removeEventListener('offline', onNetwork);
      window.removeEventListener('online', onNetwork);
      figures.stop();
      objects.stop();
    };
  }, [cache, project, environment]);
}

const placeOf = (id: ReadId): string => pathOf(id);
const ALL_PLACES = Object.values(READS_OF_KIND).flat().map(placeOf);

function placesOf(events: readonly StreamEvent[]): string[] {
  const kinds = new Set(events.map(({ type }) => type.split('.')[0]!));
  return [...kinds].flatMap((kind) => READS_OF_KIND[kind] ?? []).map(placeOf);
}

function isOfEmails(query: Query): boolean {
  return isAtOrBelow(query, '/v1/emails') || query.queryKey[2] === 'emails';
}

function isAtOrBelow({ queryKey }: Query, place: string): boolean {
  const path = String(queryKey[2]);
  return path === place || path.startsWith(`${place}/`);
}

function countActive(cache: QueryClient, predicate: (query: Query) => boolean): number {
  return cache.getQueryCache().findAll({ type: 'active', predicate }).length;
}
