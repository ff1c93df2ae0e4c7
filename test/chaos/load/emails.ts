/** Draws the nth request of the load from the seed: an email, or a batch. */
import type { RandomSource } from '../random.ts';
import { hostileEndsOf } from '../attacker/hostile-domains.ts';
import {
  endsOf,
  UNDELIVERABLE_DOMAINS,
  FALLBACK_DOMAINS,
  TEST_ONLY,
  FAILING_DOMAINS,
  HEALTHY_DOMAINS,
} from '../receivers/domains.ts';

export type DrawnEmail = {
  index: number;
  environment: 'live' | 'test';
  body: object;
  addresses: readonly string[];
  /** Sending domain. */
  fromDomain: string;
  isKeyed: boolean;
  /** The client sends this request twice at the same time. */
  isTwin: boolean;
  /** Milliseconds from the request to the scheduled time, by the database's clock; null: not scheduled. */
  scheduledInMs: number | null;
  /** Milliseconds from the response to the client's cancel; null: no cancel. */
  cancelAfterMs: number | null;
};

/** Addresses that are suppressed before the load starts, and those that a fault suppresses later. */
export const SUPPRESSED_BEFORE = ['stop-0@well.example', 'stop-1@steps.example'];
export const SUPPRESSED_MEANWHILE = [
  'later-0@well.example',
  // Mail to these servers is deferred when the address is suppressed.
  'later-1@mx-greeting-421.example',
  'later-2@mx-rcpt-450.example',
  'later-3@mx-data-451.example',
];

const TEST_FROM = 'Acme <hello@acme.test>';
export const LIVE_DOMAIN = 'acme.chaos.example';
/** Sending domains that a fault removes during the run. Mail from them goes to `left-…`. */
export const LEAVING_DOMAINS = ['left-0.chaos.example', 'left-1.chaos.example'];

const TEST_NAMES = ['delivered', 'bounced', 'deferred'];
const LARGE = '<p>A long email.</p>\n'.repeat(5_000);
/** Html that exceeds the socket buffers between two processes. */
const HUGE = '<p>A very long email.</p>\n'.repeat(120_000);

/** Template in both environments (fixtures.ts). Its subject has the same form as all others. */
export const TEMPLATE = {
  name: 'Chaos',
  alias: 'chaos',
  subject: 'Email {{ index }}',
  html: '<p>Email {{ index }}.</p>',
  text: 'Email {{ index }}.',
  variables: [{ name: 'index', type: 'string' }],
} as const;

const BATCHED = 0.04;
const BATCH_MAX = 5;
const SCHEDULED = 0.08;
/** Milliseconds until a scheduled email is due: during the run, or only after a jump of the database's clock. */
const SOON_MS = [1_000, 20_000] as const;
const LATER_MS = 1_800_000;
const CANCELED = { scheduled: 0.4, other: 0.05 };
const CANCEL_WITHIN_MS = 1_500;

const FAILING_NAMES = Object.keys(FAILING_DOMAINS);
/** Chance of a large message, when its domain is drawn. Other domains are equally likely. */
const SELDOM = 0.3;

/** Returns the emails of the next request: one email, or the emails of a batch, which share an environment. */
export function drawRequest(index: number, random: RandomSource): DrawnEmail[] {
  const first = drawEmail(index, random);
  if (!random.chance(BATCHED)) return [first];
  const others = Array.from({ length: random.between(1, BATCH_MAX - 1) }, (_, n) =>
    drawEmail(index + n + 1, random, first.environment),
  );
  return [first, ...others].map((email) => ({ ...email, cancelAfterMs: null, isTwin: false }));
}

function drawEmail(
  index: number,
  random: RandomSource,
  environment?: DrawnEmail['environment'],
): DrawnEmail {
  const isTest = environment === undefined ? random.chance(0.06) : environment === 'test';
  const fromDomain = random.chance(0.06) ? random.pick(LEAVING_DOMAINS) : LIVE_DOMAIN;
  const isLeaving = !isTest && fromDomain !== LIVE_DOMAIN;
  const addresses = isTest
    ? [testAddress(index, random)]
    : isLeaving
      ? [`left-${index}@${drawDomain(random)}`]
      : liveAddresses(index, random);
  const isLarge = random.chance(0.05);
  const isTemplated = random.chance(0.08);
  const scheduledInMs = drawSchedule(random);
  const [to, ...others] = addresses;
  return {
    index,
    environment: isTest ? 'test' : 'live',
    addresses,
    fromDomain,
    isKeyed: random.chance(0.95),
    isTwin: random.chance(0.05),
    scheduledInMs,
    cancelAfterMs: drawCancel(scheduledInMs, random),
    body: {
      from: isTest ? TEST_FROM : `Acme <hello@${fromDomain}>`,
      to: [to],
      ...(others.length > 0 && { [random.pick(['cc', 'bcc'])]: others }),
      ...(isTemplated && !addresses.some((address) => isForLarge(domainOf(address)))
        ? { template: { id: TEMPLATE.alias, variables: { index: String(index) } } }
        : {
            subject: subjectOf(index),
            html: htmlOf(index, { addresses, isLarge }),
            text: `Email ${index}.`,
          }),
      ...(addresses.some(needsVerifiedTls) && { tls: 'enforced' }),
      metadata: { index: String(index) },
    },
  };
}

/** Returns the subject of an email, with or without a template. */
export function subjectOf(index: number): string {
  return `Email ${index}`;
}

function drawSchedule(random: RandomSource): number | null {
  if (!random.chance(SCHEDULED)) return null;
  return random.chance(0.3) ? LATER_MS : random.between(...SOON_MS);
}

function drawCancel(scheduledInMs: number | null, random: RandomSource): number | null {
  const share = scheduledInMs === null ? CANCELED.other : CANCELED.scheduled;
  return random.chance(share) ? random.between(0, CANCEL_WITHIN_MS) : null;
}

function htmlOf(
  index: number,
  { addresses, isLarge }: { addresses: readonly string[]; isLarge: boolean },
): string {
  if (addresses.some((address) => isForLarge(domainOf(address)))) return HUGE;
  return isLarge ? LARGE : `<p>Email ${index}.</p>`;
}

function testAddress(index: number, random: RandomSource): string {
  if (random.chance(0.3)) return `jo-${index}@${TEST_ONLY}`;
  return `${random.pick(TEST_NAMES)}+${index}@simulator.test`;
}

function liveAddresses(index: number, random: RandomSource): string[] {
  const first = liveAddress(`${index}-0`, random);
  // Options apply to all recipients of an email.
  if (isAlone(first)) return [first];
  const count = random.chance(0.15) ? random.between(2, 4) : 1;
  const others = Array.from({ length: count - 1 }, (_, n) =>
    liveAddress(`${index}-${n + 1}`, random),
  );
  const addresses = [first, ...others.filter((one) => !isAlone(one))];
  if (!random.chance(0.04)) return addresses;
  const refused = random.pick([...SUPPRESSED_BEFORE, ...SUPPRESSED_MEANWHILE]);
  return random.chance(0.5) ? [refused] : [...addresses, refused];
}

function liveAddress(name: string, random: RandomSource): string {
  const domain = drawDomain(random);
  if (random.chance(0.12)) return `${random.pick(['gone', 'full', 'grey'])}-${name}@${domain}`;
  return `${random.chance(0.04) ? 'jö' : 'jo'}-${name}@${domain}`;
}

/** Some servers lack SMTPUTF8 and refuse this address, and with it the message. */
const isForUtf8 = (address: string): boolean => address.startsWith('jö-');

function isAlone(address: string): boolean {
  return needsVerifiedTls(address) || isForUtf8(address) || isForLarge(domainOf(address));
}

function drawDomain(random: RandomSource): string {
  const kind = random.next();
  if (kind < 0.35) return random.pick(HEALTHY_DOMAINS);
  if (kind < 0.38) return random.pick(UNDELIVERABLE_DOMAINS);
  if (kind < 0.44) return random.pick(Object.keys(FALLBACK_DOMAINS));
  const domain = random.pick(FAILING_NAMES);
  return isForLarge(domain) && !random.chance(SELDOM) ? drawDomain(random) : domain;
}

function domainOf(address: string): string {
  return address.slice(address.lastIndexOf('@') + 1);
}

function isForLarge(domain: string): boolean {
  const found = FAILING_DOMAINS[domain];
  return found?.kind === 'server' && found.fault.isForLarge === true;
}

/** Returns whether mail to the address may be sent only over TLS with a verified certificate. */
export function needsVerifiedTls(address: string): boolean {
  return FAILING_DOMAINS[domainOf(address)]?.kind === 'unverified_tls';
}

export function isSuppressible(address: string): boolean {
  return [...SUPPRESSED_BEFORE, ...SUPPRESSED_MEANWHILE].includes(address);
}

/** Returns the allowed final statuses of mail to an address; null: with any final status. */
export function mayEndAs(address: string): readonly string[] | null {
  const [name = '', domain = ''] = address.split('@');
  if (SUPPRESSED_BEFORE.includes(address)) return ['suppressed'];
  if (SUPPRESSED_MEANWHILE.includes(address)) return ['suppressed', 'delivered'];
  if (domain === 'simulator.test') return [name.startsWith('bounced') ? 'bounced' : 'delivered'];
  if (domain === TEST_ONLY) return ['delivered'];
  if (name.startsWith('gone-')) return ['bounced'];
  if (name.startsWith('left-')) return ['failed', ...(endsOf(domain) ?? [])];
  if (isForUtf8(address)) return ['delivered', 'bounced'];
  return hostileEndsOf(domain) ?? endsOf(domain);
}
