/** What the load sends: the nth email, drawn by the seed. */
import type { Dice } from './dice.ts';
import { DESTINATIONS, TEST_ONLY } from './receivers.ts';

export type Letter = {
  index: number;
  environment: 'live' | 'test';
  body: object;
  addresses: readonly string[];
  isKeyed: boolean;
  /** Asked for twice at once. */
  isTwin: boolean;
};

/** Suppressed before anything is sent, and meanwhile. */
export const SUPPRESSED_BEFORE = ['stop-0@well.example', 'stop-1@moody1.example'];
export const SUPPRESSED_MEANWHILE = Array.from({ length: 4 }, (_, n) => `later-${n}@well.example`);

const LIVE_FROM = 'Acme <hello@acme.chaos.example>';
const TEST_FROM = 'Acme <hello@acme.test>';
export const LIVE_DOMAIN = 'acme.chaos.example';

const TEST_NAMES = ['delivered', 'bounced', 'deferred'];
const LARGE = '<p>A long letter.</p>\n'.repeat(5_000);

/** How often mail goes there, of all mail. */
const WEIGHTS: Readonly<Record<keyof typeof DESTINATIONS, number>> = {
  'well.example': 30,
  'steps.example': 12,
  'moody1.example': 12,
  'moody2.example': 12,
  'moody3.example': 12,
  'moody4.example': 12,
  'second.example': 6,
  'away.example': 2,
  'shy.example': 4,
  'nullmx.example': 2,
  'unknown.example': 2,
};
const PLACES = Object.entries(WEIGHTS).flatMap(([name, weight]) =>
  Array.from({ length: weight }, () => name),
);

export function letter(index: number, dice: Dice): Letter {
  const isTest = dice.chance(0.06);
  const addresses = isTest ? [testAddress(index, dice)] : liveAddresses(index, dice);
  const html = dice.chance(0.05) ? LARGE : `<p>Letter ${index}.</p>`;
  const [to, ...others] = addresses;
  return {
    index,
    environment: isTest ? 'test' : 'live',
    addresses,
    isKeyed: dice.chance(0.95),
    isTwin: dice.chance(0.05),
    body: {
      from: isTest ? TEST_FROM : LIVE_FROM,
      to: [to],
      ...(others.length > 0 && { [dice.pick(['cc', 'bcc'])]: others }),
      subject: `Letter ${index}`,
      html,
      text: `Letter ${index}.`,
      metadata: { index: String(index) },
    },
  };
}

function testAddress(index: number, dice: Dice): string {
  if (dice.chance(0.3)) return `jo-${index}@${TEST_ONLY}`;
  return `${dice.pick(TEST_NAMES)}+${index}@simulator.test`;
}

function liveAddresses(index: number, dice: Dice): string[] {
  const count = dice.chance(0.15) ? dice.between(2, 4) : 1;
  const addresses = Array.from({ length: count }, (_, n) => {
    const who = dice.chance(0.12) ? dice.pick(['gone', 'full', 'grey']) : 'jo';
    return `${who}-${index}-${n}@${dice.pick(PLACES)}`;
  });
  if (!dice.chance(0.04)) return addresses;
  const refused = dice.pick([...SUPPRESSED_BEFORE, ...SUPPRESSED_MEANWHILE]);
  return dice.chance(0.5) ? [refused] : [...addresses, refused];
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
  return name.startsWith('gone-') ? ['bounced'] : (DESTINATIONS[domain] ?? null);
}
