/**
 * The load: clients that behave as good clients do. Each request, an email or a batch, has an Idempotency-Key, and its
 * client repeats it, at any node that is up, until a response arrives. A few requests have no key and are sent once.
 * Some emails are scheduled, and some are canceled soon after their acceptance. The responses of all clients are the
 * first column of the ledger.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { RandomSource } from '../random.ts';
import type { Cancel, Request } from '../ledger/ledger-types.ts';
import type { FirstAcceptance } from '../ledger/excused.ts';
import {
  type NodeResponse,
  ask,
  canceledIn,
  errorCodeIn,
  idsIn,
  isUnavailable,
  leavesOpen,
  type NodeRequest,
} from './node-requests.ts';
import { isSuppressible, type DrawnEmail, drawRequest } from './emails.ts';

export type LoadNode = { isUp: boolean; service: { url: string } };
export type LiveKey = { id: string; key: string };

type Record = { -readonly [Field in keyof Request]: Request[Field] } & {
  ids: string[];
  unexpectedResponses: string[];
};
type AskResult =
  | { kind: 'accepted'; ids: readonly string[] }
  | { kind: 'refused' }
  | { kind: 'again'; isOpen: boolean };

/** The emails of one request: one email, or those of a batch. */
type Asked = { emails: readonly DrawnEmail[]; records: readonly Record[]; body: string };

const CONNECTIONS = 48;
const PAUSE_MS = 400;
/** Factor by which requests slow down once the minimum of emails is accepted, while faults go on. */
const SLOWER = 4;

export type LoadOptions = {
  nodes: readonly LoadNode[];
  testKey: string;
  liveKey: LiveKey;
  /** Key that may cancel emails of any key. */
  adminKey: string;
  /** Returns the milliseconds that the database's clock is ahead now. */
  databaseSkewMs: () => number;
  /** Minimum of accepted emails. */
  emails: number;
  perSecond: number;
  random: RandomSource;
  /** Random source of retries. Their number depends on timing and must not shift the draws for emails. */
  retryRandom: RandomSource;
};

export class Load {
  readonly requests: Request[] = [];
  readonly cancels: Cancel[] = [];
  readonly acceptedWithRevokedKey: number[] = [];
  readonly acceptedFromRemovedDomain: number[] = [];
  /** First 2xx of each email, by id. */
  readonly firstAccepted = new Map<string, FirstAcceptance>();
  accepted = 0;
  readonly #options: LoadOptions;
  #emailsMin: number;
  #liveKey: LiveKey;
  readonly #revokedAtMs = new Map<string, number>();
  readonly #removedAtMs = new Map<string, number>();
  #next = 0;
  #nextAtMs = performance.now();
  #isEnding = false;
  #isGivenUp = false;
  #clients: Promise<unknown> = Promise.resolve();

  constructor(options: LoadOptions) {
    this.#options = options;
    this.#emailsMin = options.emails;
    this.#liveKey = options.liveKey;
  }

  get liveKey(): LiveKey {
    return this.#liveKey;
  }

  start(): void {
    const clients = Array.from({ length: CONNECTIONS }, () => this.#client());
    this.#clients = Promise.all(clients);
  }

  /** Sets the key that clients use from now on. */
  useKey(key: LiveKey): void {
    this.#liveKey = key;
  }

  revoked(key: LiveKey): void {
    this.#revokedAtMs.set(key.key, Date.now());
  }

  /** Records that the removal of a domain begins. From now on its mail may be refused. */
  removing(domain: string): void {
    this.#removedAtMs.set(domain, Infinity);
  }

  removed(domain: string): void {
    this.#removedAtMs.set(domain, Date.now());
  }

  #goneSinceMs({ environment, fromDomain }: DrawnEmail): number {
    return environment === 'test' ? Infinity : (this.#removedAtMs.get(fromDomain) ?? Infinity);
  }

  isRemoved(domain: string): boolean {
    return this.#removedAtMs.has(domain);
  }

  /** Starts no new emails once the minimum is reached. Resolves when all requests have a response. */
  async end(): Promise<void> {
    this.#isEnding = true;
    await this.#clients;
  }

  /** Continues after `end`, until this many more emails are accepted. */
  goOn(emails: number): void {
    this.#emailsMin = this.accepted + emails;
    this.#isEnding = false;
    this.start();
  }

  /** Stops all clients, because the run has failed. */
  giveUp(): void {
    this.#isEnding = true;
    this.#isGivenUp = true;
  }

  async #client(): Promise<void> {
    for (;;) {
      const isEnough = this.accepted >= this.#emailsMin;
      if (this.#isGivenUp || (this.#isEnding && isEnough)) return;
      const emails = drawRequest(this.#next, this.#options.random);
      this.#next += emails.length;
      await this.#sendOne(isEnough);
      await this.#send(emails);
    }
  }

  async #sendOne(isEnough: boolean): Promise<void> {
    const nowMs = performance.now();
    const intervalMs = (1_000 / this.#options.perSecond) * (isEnough ? SLOWER : 1);
    // Requests that were due while the service was away are dropped, not sent in a burst.
    this.#nextAtMs = Math.max(this.#nextAtMs + intervalMs, nowMs - 1_000);
    if (this.#nextAtMs > nowMs) await delay(this.#nextAtMs - nowMs);
  }

  async #send(emails: readonly DrawnEmail[]): Promise<void> {
    const batch = emails.length === 1 ? null : emails[0]!.index;
    const nowMs = Date.now() + this.#options.databaseSkewMs();
    const records = emails.map((email) => newRecord(email, { batch, nowMs }));
    this.requests.push(...records);
    const bodies = emails.map((email, at) => bodyOf(email, records[at]!));
    const asked = { emails, records, body: JSON.stringify(batch === null ? bodies[0] : bodies) };
    const [{ isKeyed, isTwin }] = emails as [DrawnEmail];
    const ends = await Promise.all(
      Array.from({ length: isKeyed && isTwin ? 2 : 1 }, () => this.#askUntilAnswered(asked)),
    );
    if (records[0]!.ids.length > 0) {
      for (const record of records) record.outcome = 'accepted';
      this.accepted += records.length;
      await this.#cancelLater(emails[0]!, records[0]!);
    } else if (ends.every((end) => end === 'refused')) {
      for (const record of records) record.outcome = 'refused';
    }
  }

  async #askUntilAnswered(asked: Asked): Promise<'refused' | 'unknown'> {
    let isOpen = false;
    while (!this.#isGivenUp) {
      const result = await this.#ask(asked);
      if (result.kind === 'accepted') {
        for (const [at, record] of asked.records.entries()) record.ids.push(result.ids[at]!);
        return 'unknown';
      }
      if (result.kind === 'again') isOpen ||= result.isOpen;
      const isLast = result.kind === 'refused' || !asked.emails[0]!.isKeyed;
      if (isLast) return isOpen ? 'unknown' : 'refused';
      await this.#pause();
    }
    return 'unknown';
  }

  async #ask(asked: Asked): Promise<AskResult> {
    const { emails, records, body } = asked;
    const [{ index, environment, isKeyed }] = emails as [DrawnEmail];
    const key = environment === 'test' ? this.#options.testKey : this.#liveKey.key;
    const askedMs = Date.now();
    const answer = await this.#post(emails.length === 1 ? '/v1/emails' : '/v1/emails/batch', key, {
      headers: isKeyed ? { 'idempotency-key': idempotencyKeyOf(index) } : {},
      body,
    });
    if (typeof answer === 'string') return { kind: 'again', isOpen: answer === 'no answer' };
    if (answer.status < 300 && askedMs > (this.#revokedAtMs.get(key) ?? Infinity)) {
      this.acceptedWithRevokedKey.push(index);
    }
    // A repeated request gets its first response, so the begin of its first attempt counts.
    const isGone = emails.some((email) => records[0]!.begunMs > this.#goneSinceMs(email));
    if (answer.status === 202 && isGone) this.acceptedFromRemovedDomain.push(index);
    const result = this.#readResponse(answer, key, asked);
    if (result.kind === 'accepted') {
      const answeredMs = Date.now();
      for (const id of result.ids) {
        if (!this.firstAccepted.has(id)) this.firstAccepted.set(id, { askedMs, answeredMs });
      }
    }
    return result;
  }

  #readResponse(answer: NodeResponse, key: string, { emails, records }: Asked): AskResult {
    const { status, text } = answer;
    const ids = idsIn(text);
    const isAccepted = status === 202 || status === 200;
    if (isAccepted && ids.length === emails.length) return { kind: 'accepted', ids };
    const code = errorCodeIn(text);
    const mayBeSuppressed = emails.some(({ addresses }) => addresses.every(isSuppressible));
    if (status === 422 && code === 'suppressed' && mayBeSuppressed) return { kind: 'refused' };
    const mayBeRemoved = emails.some(({ fromDomain }) => this.isRemoved(fromDomain));
    if (status === 403 && code === 'domain_not_verified' && mayBeRemoved) {
      return { kind: 'refused' };
    }
    if (isUnavailable(answer)) return { kind: 'again', isOpen: leavesOpen(answer) };
    // The load changed its key while this request was under way.
    if (status === 401 && key !== this.#liveKey.key) return { kind: 'again', isOpen: false };
    records[0]!.unexpectedResponses.push(`${status} ${text.slice(0, 300)}`);
    return { kind: 'again', isOpen: true };
  }

  /** Cancels an email and repeats the request until a response arrives: 200, or 409 when nothing was left to cancel. */
  async #cancelLater({ environment, cancelAfterMs }: DrawnEmail, record: Record): Promise<void> {
    if (cancelAfterMs === null) return;
    await delay(cancelAfterMs);
    record.isCanceled = true;
    const [emailId = ''] = record.ids;
    const key = environment === 'test' ? this.#options.testKey : this.#options.adminKey;
    while (!this.#isGivenUp) {
      const askedMs = Date.now();
      const answer = await this.#post(`/v1/emails/${emailId}/cancel`, key, {});
      if (typeof answer !== 'string' && !isUnavailable(answer)) {
        const { status, text } = answer;
        const addresses = canceledIn(text);
        if (status === 200) {
          this.cancels.push({ emailId, addresses, askedMs, answeredMs: Date.now() });
        } else if (status !== 409 && status !== 404) {
          // A 404 means that the database has lost the email. The ledger finds a missing email anyway.
          record.unexpectedResponses.push(`cancel: ${status} ${text.slice(0, 300)}`);
        }
        return;
      }
      await this.#pause();
    }
  }

  /** Sends a request to a random node that is up. */
  async #post(
    path: string,
    key: string,
    request: Pick<NodeRequest, 'headers' | 'body'>,
  ): Promise<NodeResponse | 'no node' | 'no answer'> {
    const up = this.#options.nodes.filter(({ isUp }) => isUp);
    if (up.length === 0) return 'no node';
    return ask(this.#options.retryRandom.pick(up).service.url + path, { key, ...request });
  }

  #pause(): Promise<void> {
    return delay(PAUSE_MS * (0.5 + this.#options.retryRandom.next()));
  }
}

function newRecord(
  { index, environment, addresses, isKeyed, scheduledInMs }: DrawnEmail,
  { batch, nowMs }: { batch: number | null; nowMs: number },
): Record {
  return {
    index,
    environment,
    addresses,
    isKeyed,
    batch,
    scheduledAtMs: scheduledInMs === null ? null : nowMs + scheduledInMs,
    isCanceled: false,
    outcome: 'unknown',
    ids: [],
    begunMs: Date.now(),
    unexpectedResponses: [],
  };
}

/** Returns the Idempotency-Key of the request that begins with this email. */
export function idempotencyKeyOf(index: number): string {
  return `email ${index}`;
}

function bodyOf({ body }: DrawnEmail, { scheduledAtMs }: Record): object {
  if (scheduledAtMs === null) return body;
  return { ...body, scheduled_at: new Date(scheduledAtMs).toISOString() };
}
