/**
 * The event stream of a project and environment: one connection for the whole page, whatever parts of it follow
 * events.
 *
 * Guarantee: subscribers get every event, in order, or are notified that some may be missing (`isGapless`). A lost
 * connection continues after the last event that arrived. A connection that is silent for longer than two heartbeats,
 * as after the sleep of a laptop, counts as lost. A hidden page gives its connection up, because a browser has few of
 * them for all its tabs; it continues when it is visible again.
 */
import type { StreamEvent } from '../../../../sdk/src/api.ts';
import { ApiError, respond, type Scope } from '../client.ts';
import { noteContact, outagesSoFar, retryDelayMs } from './connection.ts';
import { takeEvents } from './event-stream.ts';

/**
 * `isGapless`: no event before these was missed. Otherwise events may be missing, so the page has to read everything
 * that it shows again.
 */
export type NewEvents = { events: readonly StreamEvent[]; isGapless: boolean };
type Subscriber = { onNews: (news: NewEvents) => void; onLive?: (isLive: boolean) => void };

/** The service sends a heartbeat every 15 s. */
const SILENT_MAX_MS = 40_000;
const CONNECT_MAX_MS = 10_000;
const WATCH_EVERY_MS = 5_000;
const HIDDEN_MAX_MS = 10_000;
/** After a longer absence it is cheaper to read what is shown again than to receive all events. */
const ABSENT_MAX_MS = 300_000;
/** How long a connection stays open without subscribers, as between two screens. */
const LINGER_MS = 2_000;

export class EventFeed {
  readonly #scope: Scope;
  readonly #subscribers = new Set<Subscriber>();
  readonly #ended = new AbortController();
  #cursor = 'latest';
  #isLive = false;
  /** A request for the stream is under way. */
  #isConnecting = false;
  /** Time at which that request began, or at which its stream was heard last. */
  #activeAtMs = Date.now();
  /** Time at which any stream was heard last. */
  #heardAtMs = Date.now();
  /** Ends the connection, or the wait for the next one. */
  #interrupt: () => void = () => {};

  constructor(scope: Scope) {
    this.#scope = scope;
    const { signal } = this.#ended;
    let hiddenTimer = 0;
    const onVisibility = (): void => {
      window.clearTimeout(hiddenTimer);
      if (document.hidden) hiddenTimer = window.setTimeout(() => this.#interrupt(), HIDDEN_MAX_MS);
      else if (!this.#isLive) this.#interrupt();
    };
    document.addEventListener('visibilitychange', onVisibility, { signal });
    window.addEventListener('online', () => this.#interrupt(), { signal });
    const watch = window.setInterval(() => {
      const maxMs = this.#isLive ? SILENT_MAX_MS : CONNECT_MAX_MS;
      if (this.#isConnecting && Date.now() - this.#activeAtMs > maxMs) this.#interrupt();
    }, WATCH_EVERY_MS);
    signal.addEventListener('abort', () => window.clearInterval(watch));
    void this.#follow();
  }

  /** @returns ends the subscription */
  subscribe(subscriber: Subscriber): () => void {
    this.#subscribers.add(subscriber);
    subscriber.onLive?.(this.#isLive);
    return () => this.#subscribers.delete(subscriber);
  }

  get isUsed(): boolean {
    return this.#subscribers.size > 0;
  }

  close(): void {
    this.#ended.abort();
    this.#interrupt();
  }

  async #follow(): Promise<void> {
    let failures = 0;
    while (!this.#ended.signal.aborted) {
      if (document.hidden) {
        await this.#wait(null);
        continue;
      }
      if (Date.now() - this.#heardAtMs > ABSENT_MAX_MS) this.#cursor = 'latest';
      try {
        this.#isConnecting = true;
        this.#activeAtMs = Date.now();
        await this.#connect(() => {
          failures = 0;
        });
      } catch (error) {
        // The stored position is too old, or of a database that was replaced by a backup.
        if (error instanceof ApiError && error.status === 409) this.#cursor = 'latest';
        // Nothing is sent until somebody has signed in again.
        if (error instanceof ApiError && error.status === 401) failures = 0;
      }
      this.#isConnecting = false;
      this.#setLive(false);
      if (document.hidden) continue;
      await this.#wait(retryDelayMs(failures));
      failures += 1;
    }
  }

  async #connect(onOpen: () => void): Promise<void> {
    const attempt = new AbortController();
    this.#interrupt = () => attempt.abort();
    const askedAfter = outagesSoFar();
    const response = await respond('listEvents', {
      query: { after: this.#cursor },
      scope: this.#scope,
      headers: { accept: 'text/event-stream' },
      signal: attempt.signal,
    });
    onOpen();
    this.#noteActivity();
    this.#setLive(true);
    if (this.#cursor === 'latest') this.#publish({ events: [], isGapless: false });
    await this.#read(response, askedAfter);
  }

  /** Reads until the stream ends. The cursor follows it, so that a broken connection continues there. */
  async #read(response: Response, askedAfter: number): Promise<void> {
    let text = '';
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      this.#noteActivity();
      noteContact(askedAfter);
      const { events, cursor, rest } = takeEvents(text + value);
      text = rest;
      this.#cursor = cursor ?? this.#cursor;
      if (events.length > 0) this.#publish({ events, isGapless: true });
    }
  }

  #noteActivity(): void {
    this.#heardAtMs = Date.now();
    this.#activeAtMs = this.#heardAtMs;
  }

  /** Waits this long, or until something has changed. @param ms null: only until something has changed */
  #wait(ms: number | null): Promise<void> {
    return new Promise((resolve) => {
      const timer = ms === null ? 0 : window.setTimeout(resolve, ms);
      this.#interrupt = () => {
        window.clearTimeout(timer);
        resolve();
      };
      if (this.#ended.signal.aborted) this.#interrupt();
    });
  }

  #publish(news: NewEvents): void {
    for (const { onNews } of this.#subscribers) onNews(news);
  }

  #setLive(isLive: boolean): void {
    this.#isLive = isLive;
    for (const { onLive } of this.#subscribers) onLive?.(isLive);
  }
}

const feeds = new Map<string, EventFeed>();

/** Follows the events of a scope. The connection ends a moment after its last subscriber. */
export function followEvents(scope: Scope, subscriber: Subscriber): () => void {
  const key = `${scope.project} ${scope.environment}`;
  const feed = feeds.get(key) ?? new EventFeed(scope);
  feeds.set(key, feed);
  const end = feed.subscribe(subscriber);
  return () => {
    end();
    window.setTimeout(() => {
      if (feed.isUsed || feeds.get(key) !== feed) return;
      feeds.delete(key);
      feed.close();
    }, LINGER_MS);
  };
}
