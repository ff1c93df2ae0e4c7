/**
 * Buffers opens and clicks in memory, then stores them in batches.
 *
 * Guarantees: `add` never waits and never throws, so a redirect does not depend on the database. Memory and
 * writes are bounded, whatever clients request. Visits are not mail: those that exceed a limit are dropped and
 * counted, and a crash loses the last seconds.
 *
 *     limit                          applies to                visits beyond it
 *     repeated within a minute       link and client           count once
 *     VISITS_PER_MINUTE              client address            are dropped
 *     WAITING_MAX                    worker                    are dropped, while the database is unavailable
 *     VISITS_STORED_MAX              recipient                 are not stored
 */
import { hash } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { waitAtMost } from '../lib/at-most.ts';
import { cacheClock, cacheUpTo, type World } from '../lib/world.ts';
import type { TrackedLink } from '../mail/links/tracking-link.ts';
import { clientOf, networkOf } from '../net/ip-addresses.ts';
import { DatabaseUnavailable } from '../database/database.ts';
import type { TrackedVisit } from './tracking-store.ts';
import { botReasonOf, type BotReason, type VisitRequest } from './bot-reason.ts';
import { MINUTE_MS } from '../lib/units.ts';

export type Visit = VisitRequest & { link: TrackedLink; ip: string };

export type VisitResult =
  | 'stored'
  | 'repeated'
  | 'limited'
  | 'dropped'
  /** The recipient's limit is reached, or the email was removed. */
  | 'not_stored';

export type VisitBufferOptions = {
  world: Pick<World, 'monotonicMs' | 'newId'>;
  log: Logger;
  write: (visits: readonly TrackedVisit[]) => Promise<{ stored: number; queuedWebhooks: number }>;
  onWebhooksQueued: () => void;
  onResult: (result: VisitResult, count: number) => void;
};

export const VISITS_PER_MINUTE = 600;
/** Limit on the clients and links that are remembered. The least recently used go first. */
const REMEMBERED_MAX = 10_000;
export const WAITING_MAX = 5_000;
const BATCH_MAX = 100;
/** Long enough to see whether a scanner requests all links of a message. */
const WRITE_AFTER_MS = 2_000;
const RETRY_AFTER_MS = 5_000;
const STOP_WITHIN_MS = 2_000;
/** A machine requests this many different links of a recipient within MANY_LINKS_WITHIN_MS. */
export const MANY_LINKS = 3;
const MANY_LINKS_WITHIN_MS = 10_000;
const USER_AGENT_MAX_LENGTH = 300;

type WaitingVisit = { visit: Visit; atMs: number; reason: BotReason | null; links: Set<string> };

export class VisitBuffer {
  readonly #options: VisitBufferOptions;
  readonly #visitsOfClient: LRUCache<string, { count: number }>;
  readonly #recentVisits: LRUCache<string, true>;
  /** Different links that each recipient requested within MANY_LINKS_WITHIN_MS. */
  readonly #links: LRUCache<string, Set<string>>;
  #waiting: WaitingVisit[] = [];
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();
  #isStopped = false;

  constructor(options: VisitBufferOptions) {
    this.#options = options;
    const remembered = { ...cacheUpTo(REMEMBERED_MAX), ...cacheClock(options.world) };
    this.#visitsOfClient = new LRUCache({ ttl: MINUTE_MS, ...remembered });
    this.#recentVisits = new LRUCache({ ttl: MINUTE_MS, ...remembered });
    this.#links = new LRUCache({ ttl: MANY_LINKS_WITHIN_MS, ...remembered });
  }

  /** Buffers a visit, unless a limit is reached. */
  add(visit: Visit): void {
    const client = clientOf(visit.ip);
    const ofClient = this.#visitsOfClient.get(client) ?? { count: 0 };
    if (ofClient.count === 0) this.#visitsOfClient.set(client, ofClient);
    ofClient.count += 1;
    if (ofClient.count > VISITS_PER_MINUTE) return this.#options.onResult('limited', 1);
    const { emailId, position, target } = visit.link;
    const link = hash('sha1', target ?? '');
    const visitKey = hash('sha1', [emailId, position, link, client, visit.userAgent].join(' '));
    if (this.#recentVisits.has(visitKey)) return this.#options.onResult('repeated', 1);
    if (this.#waiting.length >= WAITING_MAX) return this.#options.onResult('dropped', 1);
    this.#recentVisits.set(visitKey, true);
    const links = this.#linksOf(`${emailId} ${position}`);
    if (target !== null && links.size < MANY_LINKS) links.add(link);
    const atMs = this.#options.world.monotonicMs();
    const stored = { ...visit, userAgent: storableUserAgent(visit.userAgent) };
    this.#waiting.push({ visit: stored, atMs, reason: botReasonOf(visit), links });
    this.#writeAfter(WRITE_AFTER_MS);
  }

  #linksOf(recipient: string): Set<string> {
    const known = this.#links.get(recipient);
    if (known !== undefined) return known;
    const links = new Set<string>();
    this.#links.set(recipient, links);
    return links;
  }

  #writeAfter(waitMs: number): void {
    if (this.#isStopped) return;
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      void this.flush();
    }, waitMs).unref();
  }

  /** Resolves when all visits so far are stored, or an attempt has failed. */
  flush(): Promise<void> {
    this.#writing = this.#writing.then(() => this.#writeAll());
    return this.#writing;
  }

  async #writeAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.slice(0, BATCH_MAX);
      if (!(await this.#write(batch))) return this.#writeAfter(RETRY_AFTER_MS);
      this.#waiting = this.#waiting.slice(batch.length);
    }
  }

  /** @returns false when the database is unavailable */
  async #write(batch: readonly WaitingVisit[]): Promise<boolean> {
    const { log, onWebhooksQueued, onResult, write } = this.#options;
    try {
      const { stored, queuedWebhooks } = await write(
        batch.map((waiting) => this.#toTrackedVisit(waiting)),
      );
      onResult('stored', stored);
      if (stored < batch.length) onResult('not_stored', batch.length - stored);
      if (queuedWebhooks > 0) onWebhooksQueued();
      return true;
    } catch (error) {
      if (error instanceof DatabaseUnavailable) return false;
      log.error(
        { err: error, visits: batch.length },
        'the database refused opens and clicks; this worker dropped them',
      );
      onResult('dropped', batch.length);
      return true;
    }
  }

  #toTrackedVisit({ visit, atMs, reason, links }: WaitingVisit): TrackedVisit {
    const { world } = this.#options;
    const { target, ...recipient } = visit.link;
    const isClick = target !== null;
    return {
      ...recipient,
      eventId: world.newId(),
      type: isClick ? 'email.clicked' : 'email.opened',
      agoMs: world.monotonicMs() - atMs,
      botReason: reason ?? (isClick && links.size >= MANY_LINKS ? 'many_links' : null),
      facts: {
        ...(isClick && { link: target }),
        ip: networkOf(visit.ip),
        user_agent: visit.userAgent,
      },
    };
  }

  /** Stores the waiting visits, if the database answers within STOP_WITHIN_MS. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await waitAtMost(STOP_WITHIN_MS, this.flush());
  }
}

/** Returns the part that is stored. JSON in the database allows neither NUL nor lone surrogates. */
function storableUserAgent(userAgent: string | null): string | null {
  if (userAgent === null || userAgent === '') return null;
  const text = userAgent.slice(0, USER_AGENT_MAX_LENGTH).replace(/[^ -~]/g, '?');
  // Copies, because a slice keeps the whole string in memory, which may have 16 KB.
  return Buffer.from(text, 'latin1').toString('latin1');
}
