/**
 * The attacks of a run, which attacker.ts performs in turn: expensive requests, mail to hostile servers
 * (hostile-domains.ts), and requests for resources of the other project.
 */
import { PAYLOADS } from '../../support/hostile-payloads.ts';
import {
  characterReferences,
  dryRun,
  eventPoll,
  type HostileRequest,
  listPreview,
  longTag,
  searchOfManyWords,
  signInGuess,
  translationOfUnclosed,
} from '../../support/hostile-shapes.ts';
import { LIVE_DOMAIN } from '../load/emails.ts';
import { HOSTILE_DOMAINS } from './hostile-domains.ts';
import type { RandomSource } from '../random.ts';

/** Project and keys of the attacker. */
export type AttackerKeys = {
  projectId: string;
  live: string;
  test: string;
  /** Key that may only send, and only from one domain. */
  weakest: string;
  from: string;
};

export type Turn = {
  /** Number of earlier turns of this attack. */
  n: number;
  keys: AttackerKeys;
  random: RandomSource;
  /** Ids of the other project: of a recently accepted email, and of a domain. */
  victim: { emailId: string; domainId: string };
};

type Ask = {
  kind: 'request';
  request: HostileRequest & { method?: string };
  /** API key; null: the request has none. */
  key: string | null;
};
/** An email to each address, in one batch when there are several. */
type Send = {
  kind: 'mail';
  environment: 'live' | 'test';
  key: string;
  addresses: readonly string[];
  content: object;
};
/** Event streams that stay open for a moment. */
type Streams = { kind: 'streams'; key: string; count: number };

export type Attack = {
  what: string;
  /** Statuses that the attack may get. Any attack may also get 429 and 503. */
  allowed: readonly number[];
  /** Responses after which the attack ends; those with 503 do not count. */
  answers: number;
  next: (turn: Turn) => Ask | Send | Streams;
};

const OF_OTHERS = [401, 403, 404] as const;
const LARGE_BYTES = 6_000_000;
const LARGE_TO = 2;
const BATCH = 60;
/** Streams that one turn opens, above the limit of a key. STREAMS_ALLOWED is below that limit. */
const STREAMS = 12;
const STREAMS_ALLOWED = 8;

const HOSTILE_HTML: readonly (() => string)[] = [
  () => longTag(),
  () => characterReferences(250_000),
  () => PAYLOADS.map(({ text }) => text).join('\n'),
];

export const ATTACKS: readonly Attack[] = [
  {
    what: 'dry runs of hostile HTML',
    allowed: [200],
    answers: 9,
    next: ({ n, keys, random }) => ({
      kind: 'request',
      request: dryRun(keys.from, HOSTILE_HTML[n % HOSTILE_HTML.length]!()),
      key: random.pick([keys.test, keys.weakest]),
    }),
  },
  {
    what: 'previews that turn long lists into text',
    // The service refuses a pattern that takes too long.
    allowed: [422],
    answers: 8,
    next: ({ keys }) => ({ kind: 'request', request: listPreview(), key: keys.test }),
  },
  {
    what: 'translations of unclosed blocks',
    allowed: [200, 422],
    answers: 4,
    next: ({ keys }) => ({ kind: 'request', request: translationOfUnclosed(), key: keys.test }),
  },
  {
    what: 'searches of many words',
    allowed: [200],
    answers: 12,
    next: ({ n, keys }) => ({
      kind: 'request',
      // `Email` is in the subject of every email, also in those of the other project.
      request: n % 3 === 0 ? { path: '/v1/emails?q=Email&limit=100' } : searchOfManyWords(),
      key: keys.live,
    }),
  },
  {
    what: 'polls of events',
    allowed: [200],
    answers: 12,
    next: ({ keys, random }) => ({
      kind: 'request',
      request: eventPoll(),
      key: random.pick([keys.live, keys.test]),
    }),
  },
  {
    what: 'event streams',
    allowed: [200],
    answers: STREAMS_ALLOWED,
    next: ({ keys }) => ({ kind: 'streams', key: keys.live, count: STREAMS }),
  },
  {
    what: 'guesses of passwords',
    allowed: [401],
    answers: 12,
    next: ({ n }) => ({ kind: 'request', request: signInGuess(n), key: null }),
  },
  {
    what: "requests for another project's things",
    allowed: OF_OTHERS,
    answers: 12,
    next: (turn) => ({ kind: 'request', ...forbidden(turn) }),
  },
  {
    what: 'mail to silent domains',
    allowed: [202],
    answers: 2,
    next: ({ n, keys }) =>
      mailTo(HOSTILE_DOMAINS.silent.slice((n % 2) * BATCH, ((n % 2) + 1) * BATCH), keys, n),
  },
  {
    what: 'mail to dead domains',
    allowed: [202],
    answers: 2,
    next({ n, keys }) {
      const { dropping, dead, complaining, unresolvable, unknown } = HOSTILE_DOMAINS;
      return mailTo([...dropping, ...dead, ...complaining, ...unresolvable, ...unknown], keys, n);
    },
  },
  {
    what: 'large attachments to silent domains',
    allowed: [202],
    answers: 3,
    next: ({ n, keys }) => ({
      ...mailTo([HOSTILE_DOMAINS.silent[n % LARGE_TO]!], keys, n),
      content: { attachments: [{ filename: 'large.bin', content: largeContent() }] },
    }),
  },
  {
    what: 'test mail whose webhooks are never answered',
    allowed: [202],
    answers: 24,
    next: ({ n, keys }) => ({
      kind: 'mail',
      environment: 'test',
      key: keys.test,
      addresses: [`delivered+hostile-${n}@simulator.test`],
      content: {},
    }),
  },
];

/**
 * Returns emails to these domains, sent in turn with a key that has all rights in its project and with the weakest key.
 */
function mailTo(domains: readonly string[], keys: AttackerKeys, n: number): Send {
  return {
    kind: 'mail',
    environment: 'live',
    key: n % 2 === 0 ? keys.live : keys.weakest,
    addresses: domains.map((domain) => `jo-${n}@${domain}`),
    content: { html: PAYLOADS[n % PAYLOADS.length]!.text },
  };
}

function largeContent(): string {
  return Buffer.alloc(LARGE_BYTES, 'x').toString('base64');
}

/** Returns a request that must be refused: with a key of the attacker, with the weakest key, or with none. */
function forbidden({ keys, random, victim }: Turn): Omit<Ask, 'kind'> {
  const { live, weakest } = keys;
  const email = `/v1/emails/${victim.emailId}`;
  const forged = {
    from: `Acme <hello@${LIVE_DOMAIN}>`,
    to: `jo@${HOSTILE_DOMAINS.silent[0]!}`,
    subject: 'Forged',
    text: 'Forged',
  };
  const madeUp = `lh_live_${'x'.repeat(43)}`;
  return random.pick<Omit<Ask, 'kind'>>([
    { request: { path: email }, key: live },
    { request: { path: `${email}/content` }, key: live },
    { request: { path: `${email}/cancel`, method: 'POST' }, key: live },
    { request: { path: `/v1/domains/${victim.domainId}`, method: 'DELETE' }, key: live },
    { request: { path: '/v1/emails', body: forged }, key: live },
    { request: { path: '/v1/emails', body: forged }, key: weakest },
    { request: { path: email }, key: weakest },
    { request: { path: `${email}/cancel`, method: 'POST' }, key: weakest },
    { request: { path: '/v1/domains' }, key: weakest },
    { request: { path: '/v1/events' }, key: weakest },
    { request: { path: '/v1/api-keys', body: { name: 'More' } }, key: weakest },
    { request: { path: '/v1/emails', body: forged }, key: madeUp },
    { request: { path: '/v1/events' }, key: null },
  ]);
}
