/**
 * A second project that attacks the service while faults go on (attacks.ts). The attacker sends each request once and
 * records its emails as the load does, so that the ledger judges both. ledger/ledger-attacker.ts has the rules for the
 * responses.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { openEventStream } from '../../support/event-stream.ts';
import { type NodeResponse, ask, idsIn, leavesOpen } from '../load/node-requests.ts';
import { type Attack, type AttackerKeys, ATTACKS, type Turn } from './attacks.ts';
import { subjectOf } from '../load/emails.ts';
import type { AttackResponses, Request } from '../ledger/ledger-types.ts';
import { idempotencyKeyOf, type LoadNode } from '../load/load.ts';
import type { RandomSource } from '../random.ts';

/** First index of the attacker's emails, far above those of the load. */
const FIRST_INDEX = 10_000_000;
const CONNECTIONS = 3;
const PAUSE_MS = 40;
/** Milliseconds of pause after a 503. */
const UNAVAILABLE_PAUSE_MS = 250;
const UNAVAILABLE = 503;
const STREAM_MS = 2_500;
/** Milliseconds after which the next attack starts, even without enough responses. */
const ATTACK_MAX_MS = 45_000;
/** The same without any response: on a slow machine, faults may last that long for large requests. */
const UNANSWERED_MAX_MS = 180_000;

type AttackerOptions = {
  nodes: readonly LoadNode[];
  keys: AttackerKeys;
  random: RandomSource;
  /** Returns ids of the other project for the attacker to request. */
  victim: () => Turn['victim'];
};

type ActionOf<Kind> = Extract<ReturnType<Attack['next']>, { kind: Kind }>;

type Counts = {
  attack: Attack;
  turns: number;
  answers: Map<number, { count: number; example: string }>;
};

export class Attacker {
  readonly requests: Request[] = [];
  /** Ids of emails and events in the responses to the attacker. */
  readonly shown = new Set<string>();
  readonly #options: AttackerOptions;
  readonly #counts: readonly Counts[];
  #emails = 0;
  #attacking: Promise<void> | null = null;
  #isGivenUp = false;

  constructor(options: AttackerOptions) {
    this.#options = options;
    this.#counts = ATTACKS.map((attack) => ({ attack, turns: 0, answers: new Map() }));
  }

  /** Starts all attacks one after the other, in a new random order, unless earlier attacks still run. */
  begin(log: (line: string) => void): void {
    this.#attacking ??= this.#attack(log)
      .catch((error: Error) => log(`attack: ${error.stack}`))
      .finally(() => (this.#attacking = null));
  }

  /** Resolves when the attacks that have started are over. */
  async finish(): Promise<void> {
    await this.#attacking;
  }

  async #attack(log: (line: string) => void): Promise<void> {
    for (const counts of this.#options.random.shuffled(this.#counts)) {
      if (this.#isGivenUp) return;
      const begunMs = performance.now();
      await this.#repeat(counts);
      const statuses = [...counts.answers].map(([status, { count }]) => `${count} × ${status}`);
      const tookMs = Math.round(performance.now() - begunMs);
      log(`attack: ${counts.attack.what} for ${tookMs} ms: ${statuses.join(', ') || 'no answer'}`);
    }
  }

  giveUp(): void {
    this.#isGivenUp = true;
  }

  get answers(): AttackResponses[] {
    return this.#counts.map(({ attack, answers }) => ({
      attack: attack.what,
      allowed: attack.allowed,
      answers: [...answers].map(([status, { count, example }]) => ({ status, count, example })),
    }));
  }

  /** Number of responses that the attacker got, without 503. */
  get answered(): number {
    return this.#counts.reduce((sum, counts) => sum + answersOf(counts), 0);
  }

  /** Sends requests until enough have a response. A 503 does not count. */
  async #repeat(counts: Counts): Promise<void> {
    const begunMs = performance.now();
    const isOver = (): boolean => {
      const maxMs = answersOf(counts) === 0 ? UNANSWERED_MAX_MS : ATTACK_MAX_MS;
      return this.#isGivenUp || performance.now() - begunMs > maxMs;
    };
    const enough = answersOf(counts) + counts.attack.answers;
    let underWay = 0;
    const connection = async (): Promise<void> => {
      while (answersOf(counts) < enough && !isOver()) {
        if (answersOf(counts) + underWay < enough) {
          underWay += 1;
          const answers = await this.#act(counts);
          underWay -= 1;
          for (const answer of answers) note(counts, answer);
          if (answers.some(({ status }) => status === UNAVAILABLE)) {
            await delay(UNAVAILABLE_PAUSE_MS);
          }
        }
        await delay(PAUSE_MS);
      }
    };
    await Promise.all(Array.from({ length: CONNECTIONS }, connection));
  }

  /** @returns the responses that arrived from a node that is up */
  async #act(counts: Counts): Promise<NodeResponse[]> {
    const { nodes, keys, random, victim } = this.#options;
    const up = nodes.filter(({ isUp }) => isUp);
    if (up.length === 0) return [];
    const { url } = random.pick(up).service;
    const n = counts.turns;
    counts.turns += 1;
    const what = counts.attack.next({ n, keys, random, victim: victim() });
    const answers = await Promise.all(
      what.kind === 'streams'
        ? Array.from({ length: what.count }, () => this.#stream(url, what.key))
        : [what.kind === 'mail' ? this.#send(url, what) : this.#request(url, what)],
    );
    return answers.filter((answer) => typeof answer !== 'string');
  }

  async #request(
    url: string,
    { request, key }: ActionOf<'request'>,
  ): Promise<NodeResponse | 'no answer'> {
    const { path, body, method = body === undefined ? 'GET' : 'POST', headers = {} } = request;
    const answer = await ask(url + path, {
      method,
      key,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    });
    if (typeof answer !== 'string' && answer.status === 200) {
      for (const id of idsIn(answer.text)) this.shown.add(id);
    }
    return answer;
  }

  /** Sends emails under an Idempotency-Key that the other project uses for an email of its own. */
  async #send(
    url: string,
    { environment, key, addresses, content }: ActionOf<'mail'>,
  ): Promise<NodeResponse | 'no answer'> {
    const offset = this.#emails;
    this.#emails += addresses.length;
    const first = FIRST_INDEX + offset;
    const records = addresses.map((address, at) => ({
      index: first + at,
      environment,
      isKeyed: true,
      outcome: 'unknown' as Request['outcome'],
      ids: [] as string[],
      addresses: [address],
      batch: addresses.length > 1 ? first : null,
      scheduledAtMs: null,
      isCanceled: false,
      begunMs: Date.now(),
      unexpectedResponses: [] as string[],
    }));
    this.requests.push(...records);
    const emails = records.map(({ index, addresses: to }) => ({
      from: this.#options.keys.from,
      to,
      subject: subjectOf(index),
      text: 'News',
      metadata: { index: String(index) },
      ...content,
    }));
    const isBatch = emails.length > 1;
    const answer = await ask(`${url}/v1/emails${isBatch ? '/batch' : ''}`, {
      key,
      headers: { 'idempotency-key': idempotencyKeyOf(offset) },
      body: JSON.stringify(isBatch ? emails : emails[0]),
    });
    if (typeof answer === 'string') return answer;
    const ids = answer.status === 202 ? idsIn(answer.text) : [];
    const isWhole = ids.length === records.length;
    if (answer.status === 202 && !isWhole) records[0]!.unexpectedResponses.push(answer.text);
    for (const [at, record] of records.entries()) {
      record.ids = ids.slice(at, at + 1);
      if (isWhole) record.outcome = 'accepted';
      else if (!leavesOpen(answer)) record.outcome = 'refused';
    }
    return answer;
  }

  /** Reads an event stream until a timeout ends it, and records the ids of its events. */
  async #stream(url: string, key: string): Promise<NodeResponse | 'no answer'> {
    try {
      const signal = AbortSignal.timeout(STREAM_MS);
      await using stream = await openEventStream(url, { key, signal });
      await stream.waitForEnd();
      if (stream.status === 200) for (const { data } of stream.events) this.shown.add(data.id);
      return { status: stream.status, text: stream.text };
    } catch {
      return 'no answer';
    }
  }
}

/** Counts the responses without the 503 of a busy service. */
function answersOf({ answers }: Counts): number {
  return [...answers].reduce(
    (sum, [status, { count }]) => sum + (status === UNAVAILABLE ? 0 : count),
    0,
  );
}

function note({ answers }: Counts, { status, text }: NodeResponse): void {
  const before = answers.get(status);
  const example = before?.example ?? text.slice(0, 300);
  answers.set(status, { count: (before?.count ?? 0) + 1, example });
}
