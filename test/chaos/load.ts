/**
 * The load: clients that do what good clients do. Each email goes out under an Idempotency-Key and is
 * asked for again, at whichever node answers, until there is an answer; a few have no key and are tried
 * once. The responses of all clients are the first column of the ledger.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Dice } from './random.ts';
import type { Request } from './ledger-types.ts';
import type { FirstTold } from './excused.ts';
import { isSuppressible, type Letter, letter } from './emails.ts';

export type LoadNode = { isUp: boolean; service: { url: string } };
export type LiveKey = { id: string; key: string };

type Record = { -readonly [Field in keyof Request]: Request[Field] } & {
  ids: string[];
  oddAnswers: string[];
};
type Told =
  | { kind: 'accepted'; id: string }
  | { kind: 'refused' }
  | { kind: 'again'; isOpen: boolean };

const CONNECTIONS = 48;
const ANSWER_WITHIN_MS = 8_000;
const PAUSE_MS = 400;
/** After the number of emails that was asked for, while faults go on. */
const SLOWER = 4;

export type LoadOptions = {
  nodes: readonly LoadNode[];
  testKey: string;
  liveKey: LiveKey;
  /** So many at least. */
  emails: number;
  perSecond: number;
  dice: Dice;
  /** Of retries: their number depends on timing, and must not shift what is drawn for emails. */
  chance: Dice;
};

export class Load {
  readonly requests: Request[] = [];
  readonly acceptedWithRevokedKey: number[] = [];
  readonly acceptedFromRemovedDomain: number[] = [];
  /** By id: its first 2xx. */
  readonly toldAtMs = new Map<string, FirstTold>();
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

  /** From now on clients that are turned away with the old key use this one. */
  useKey(key: LiveKey): void {
    this.#liveKey = key;
  }

  revoked(key: LiveKey): void {
    this.#revokedAtMs.set(key.key, Date.now());
  }

  /** Begun: from now on mail from it may be refused. */
  removing(domain: string): void {
    this.#removedAtMs.set(domain, Infinity);
  }

  removed(domain: string): void {
    this.#removedAtMs.set(domain, Date.now());
  }

  #goneSinceMs({ environment, fromDomain }: Letter): number {
    return environment === 'test' ? Infinity : (this.#removedAtMs.get(fromDomain) ?? Infinity);
  }

  isRemoved(domain: string): boolean {
    return this.#removedAtMs.has(domain);
  }

  /** No more new emails once the number asked for is reached; resolves when all are answered. */
  async end(): Promise<void> {
    this.#isEnding = true;
    await this.#clients;
  }

  /** After its end: so many more, at the least. */
  goOn(emails: number): void {
    this.#emailsMin = this.accepted + emails;
    this.#isEnding = false;
    this.start();
  }

  /** Clients stop asking: the run has failed. */
  giveUp(): void {
    this.#isEnding = true;
    this.#isGivenUp = true;
  }

  async #client(): Promise<void> {
    for (;;) {
      const isEnough = this.accepted >= this.#emailsMin;
      if (this.#isGivenUp || (this.#isEnding && isEnough)) return;
      const drawn = letter(this.#next, this.#options.dice);
      this.#next += 1;
      await this.#turn(isEnough);
      await this.#send(drawn);
    }
  }

  async #turn(isEnough: boolean): Promise<void> {
    const nowMs = performance.now();
    const intervalMs = (1_000 / this.#options.perSecond) * (isEnough ? SLOWER : 1);
    // What was not sent while the service was away is not made up for at once.
    this.#nextAtMs = Math.max(this.#nextAtMs + intervalMs, nowMs - 1_000);
    if (this.#nextAtMs > nowMs) await delay(this.#nextAtMs - nowMs);
  }

  async #send(drawn: Letter): Promise<void> {
    const { index, environment, addresses, isKeyed, isTwin } = drawn;
    const request: Record = {
      index,
      environment,
      addresses,
      isKeyed,
      outcome: 'unknown',
      ids: [],
      begunMs: Date.now(),
      oddAnswers: [],
    };
    this.requests.push(request);
    const askers = isKeyed && isTwin ? 2 : 1;
    const ends = await Promise.all(
      Array.from({ length: askers }, () => this.#askUntilAnswered(drawn, request)),
    );
    if (request.ids.length > 0) {
      request.outcome = 'accepted';
      this.accepted += 1;
    } else if (ends.every((end) => end === 'refused')) request.outcome = 'refused';
  }

  async #askUntilAnswered(drawn: Letter, request: Record): Promise<'refused' | 'unknown'> {
    let isOpen = false;
    while (!this.#isGivenUp) {
      const told = await this.#ask(drawn, request);
      if (told.kind === 'accepted') {
        request.ids.push(told.id);
        return 'unknown';
      }
      if (told.kind === 'again') isOpen ||= told.isOpen;
      if (told.kind === 'refused' || !drawn.isKeyed) return isOpen ? 'unknown' : 'refused';
      await delay(PAUSE_MS * (0.5 + this.#options.chance.next()));
    }
    return 'unknown';
  }

  async #ask(drawn: Letter, request: Record): Promise<Told> {
    const up = this.#options.nodes.filter(({ isUp }) => isUp);
    if (up.length === 0) return { kind: 'again', isOpen: false };
    const key = drawn.environment === 'test' ? this.#options.testKey : this.#liveKey.key;
    const askedAtMs = Date.now();
    try {
      const response = await fetch(`${this.#options.chance.pick(up).service.url}/v1/emails`, {
        method: 'POST',
        signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
        headers: {
          authorization: `Bearer ${key}`,
          'content-type': 'application/json',
          ...(drawn.isKeyed && { 'idempotency-key': `letter ${drawn.index}` }),
        },
        body: JSON.stringify(drawn.body),
      });
      const text = await response.text();
      if (response.ok && askedAtMs > (this.#revokedAtMs.get(key) ?? Infinity)) {
        this.acceptedWithRevokedKey.push(drawn.index);
      }
      // What was accepted before is answered as before.
      if (response.status === 202 && request.begunMs > this.#goneSinceMs(drawn)) {
        this.acceptedFromRemovedDomain.push(drawn.index);
      }
      const told = this.#understand({ status: response.status, text, key }, { drawn, request });
      if (told.kind === 'accepted' && !this.toldAtMs.has(told.id)) {
        this.toldAtMs.set(told.id, { askedMs: askedAtMs, toldMs: Date.now() });
      }
      return told;
    } catch {
      return { kind: 'again', isOpen: true };
    }
  }

  #understand(
    { status, text, key }: { status: number; text: string; key: string },
    { drawn, request }: { drawn: Letter; request: Record },
  ): Told {
    const body = parsed(text);
    if ((status === 202 || status === 200) && body?.id) return { kind: 'accepted', id: body.id };
    const code = body?.error?.code;
    if (status === 422 && code === 'suppressed' && drawn.addresses.every(isSuppressible)) {
      return { kind: 'refused' };
    }
    if (status === 403 && code === 'domain_not_verified' && this.isRemoved(drawn.fromDomain)) {
      return { kind: 'refused' };
    }
    const isAway = status === 503 && code === 'service_unavailable';
    if (isAway) return { kind: 'again', isOpen: text.includes('may have been') };
    // The key was changed on the way.
    if (status === 401 && key !== this.#liveKey.key) return { kind: 'again', isOpen: false };
    request.oddAnswers.push(`${status} ${text.slice(0, 300)}`);
    return { kind: 'again', isOpen: true };
  }
}

function parsed(text: string): { id?: string; error?: { code?: string } } | null {
  try {
    return JSON.parse(text) as { id?: string; error?: { code?: string } };
  } catch {
    return null;
  }
}
