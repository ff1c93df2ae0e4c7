/** What the load sends: the nth email, drawn by the seed. */
import type { Dice } from './random.ts';
import { endsOf, NOBODY, SPARED, TEST_ONLY, TROUBLED, WELL } from './domains.ts';

export type Letter = {
  index: number;
  environment: 'live' | 'test';
  body: object;
  addresses: readonly string[];
  /** The sending domain. */
  fromDomain: string;
  isKeyed: boolean;
  /** Asked for twice at once. */
  isTwin: boolean;
};

/** Suppressed before anything is sent, and meanwhile. */
export const SUPPRESSED_BEFORE = ['stop-0@well.example', 'stop-1@steps.example'];
export const SUPPRESSED_MEANWHILE = [
  'later-0@well.example',
  // At these mail waits when it happens.
  'later-1@mx-greeting-421.example',
  'later-2@mx-rcpt-450.example',
  'later-3@mx-data-451.example',
];

const TEST_FROM = 'Acme <hello@acme.test>';
export const LIVE_DOMAIN = 'acme.chaos.example';
/** Sending domains that are removed meanwhile; mail from them goes to `left-…`. */
export const LEAVING_DOMAINS = ['left-0.chaos.example', 'left-1.chaos.example'];

const TEST_NAMES = ['delivered', 'bounced', 'deferred'];
const LARGE = '<p>A long letter.</p>\n'.repeat(5_000);
/** More than what the sockets between two processes hold. */
const HUGE = '<p>A very long letter.</p>\n'.repeat(120_000);

const TROUBLES = Object.keys(TROUBLED);
/** Each place so often as the others; what takes a lot of time or memory less. */
const SELDOM = 0.3;

export function letter(index: number, dice: Dice): Letter {
  const isTest = dice.chance(0.06);
  const fromDomain = dice.chance(0.06) ? dice.pick(LEAVING_DOMAINS) : LIVE_DOMAIN;
  const isLeaving = !isTest && fromDomain !== LIVE_DOMAIN;
  const addresses = isTest
    ? [testAddress(index, dice)]
    : isLeaving
      ? [`left-${index}@${place(dice)}`]
      : liveAddresses(index, dice);
  const isLarge = dice.chance(0.05);
  const [to, ...others] = addresses;
  return {
    index,
    environment: isTest ? 'test' : 'live',
    addresses,
    fromDomain,
    isKeyed: dice.chance(0.95),
    isTwin: dice.chance(0.05),
    body: {
      from: isTest ? TEST_FROM : `Acme <hello@${fromDomain}>`,
      to: [to],
      ...(others.length > 0 && { [dice.pick(['cc', 'bcc'])]: others }),
      subject: `Letter ${index}`,
      html: htmlOf(index, { addresses, isLarge }),
      text: `Letter ${index}.`,
      ...(addresses.some(needsProof) && { tls: 'enforced' }),
      metadata: { index: String(index) },
    },
  };
}

function htmlOf(
  index: number,
  { addresses, isLarge }: { addresses: readonly string[]; isLarge: boolean },
): string {
  if (addresses.some((address) => isForLarge(domainOf(address)))) return HUGE;
  return isLarge ? LARGE : `<p>Letter ${index}.</p>`;
}

function testAddress(index: number, dice: Dice): string {
  if (dice.chance(0.3)) return `jo-${index}@${TEST_ONLY}`;
  return `${dice.pick(TEST_NAMES)}+${index}@simulator.test`;
}

function liveAddresses(index: number, dice: Dice): string[] {
  const first = liveAddress(`${index}-0`, dice);
  // What is asked for an email is asked for all of its recipients.
  if (isAlone(first)) return [first];
  const count = dice.chance(0.15) ? dice.between(2, 4) : 1;
  const others = Array.from({ length: count - 1 }, (_, n) =>
    liveAddress(`${index}-${n + 1}`, dice),
  );
  const addresses = [first, ...others.filter((one) => !isAlone(one))];
  if (!dice.chance(0.04)) return addresses;
  const refused = dice.pick([...SUPPRESSED_BEFORE, ...SUPPRESSED_MEANWHILE]);
  return dice.chance(0.5) ? [refused] : [...addresses, refused];
}

function liveAddress(name: string, dice: Dice): string {
  const domain = place(dice);
  if (dice.chance(0.12)) return `${dice.pick(['gone', 'full', 'grey'])}-${name}@${domain}`;
  return `${dice.chance(0.04) ? 'jö' : 'jo'}-${name}@${domain}`;
}

/** Not every server takes its name, and then the whole message. */
const isForUtf8 = (address: string): boolean => address.startsWith('jö-');

function isAlone(address: string): boolean {
  return needsProof(address) || isForUtf8(address) || isForLarge(domainOf(address));
}

function place(dice: Dice): string {
  const kind = dice.next();
  if (kind < 0.35) return dice.pick(WELL);
  if (kind < 0.38) return dice.pick(NOBODY);
  if (kind < 0.44) return dice.pick(Object.keys(SPARED));
  const domain = dice.pick(TROUBLES);
  return isForLarge(domain) && !dice.chance(SELDOM) ? place(dice) : domain;
}

function domainOf(address: string): string {
  return address.slice(address.lastIndexOf('@') + 1);
}

function isForLarge(domain: string): boolean {
  const found = TROUBLED[domain];
  return found?.kind === 'mood' && found.mood.isForLarge === true;
}

/** Mail there must not go out but over TLS, to a server that proves who it is. */
export function needsProof(address: string): boolean {
  return TROUBLED[domainOf(address)]?.kind === 'unproven';
}

export function isSuppressible(address: string): boolean {
  return [...SUPPRESSED_BEFORE, ...SUPPRESSED_MEANWHILE].includes(address);
}

/** How mail to an address may end; null: as it likes. */
export function mayEndAs(address: string): readonly string[] | null {
  const [name = '', domain = ''] = address.split('@');
  if (SUPPRESSED_BEFORE.includes(address)) return ['suppressed'];
  if (SUPPRESSED_MEANWHILE.includes(address)) return ['suppressed', 'delivered'];
  if (domain === 'simulator.test') return [name.startsWith('bounced') ? 'bounced' : 'delivered'];
  if (domain === TEST_ONLY) return ['delivered'];
  if (name.startsWith('gone-')) return ['bounced'];
  if (name.startsWith('left-')) return ['failed', ...(endsOf(domain) ?? [])];
  return isForUtf8(address) ? ['delivered', 'bounced'] : endsOf(domain);
}
