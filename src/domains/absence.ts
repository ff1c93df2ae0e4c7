/**
 * Why is there nothing at the name? A user who has entered a record and hears only "missing" is
 * stuck, so the usual places are looked at: the name with the zone appended twice, or the sub-domain
 * left out, another record type at the right name, a domain that does not exist at all.
 */
import { getDomain } from 'tldts';
import type { DnsAnswer, Resolver } from '../net/dns/resolver.ts';
import { looksLikeDkimKey } from './judge-dkim.ts';
import type { ExpectedRecord } from './records.ts';

export type Lookups = Pick<Resolver, 'a' | 'aaaa' | 'cname' | 'mx' | 'ptr' | 'txt'>;

/** The domain itself and, for a sub-domain, the registrable domain: where its zone may start. */
export function zonesOf(domainName: string): string[] {
  return [...new Set([domainName, organizationOf(domainName)])];
}

/** `acme.co.uk` for `mail.acme.co.uk` (public suffix list). */
export function organizationOf(domainName: string): string {
  return getDomain(domainName) ?? domainName;
}

/** One sentence about a record that DNS does not have. */
export async function explainAbsence(
  expected: ExpectedRecord,
  domainName: string,
  lookups: Lookups,
): Promise<string> {
  const organization = organizationOf(domainName);
  const [whole, misplaced, other] = await Promise.all([
    lookups.mx(organization),
    findMisplaced(expected, domainName, lookups),
    findOtherType(expected, lookups),
  ]);
  if (whole.kind === 'nxdomain') {
    return `the domain ${organization} does not exist in DNS: check its spelling, or register it and set its name servers`;
  }
  return misplaced ?? other ?? nothingThere(expected);
}

function nothingThere({ type, name }: ExpectedRecord): string {
  return `there is no ${type} record at ${name}: add it with the value shown; a new record can take an hour to be seen`;
}

/** The record under a name that a DNS panel makes of the right one. */
async function findMisplaced(
  expected: ExpectedRecord,
  domainName: string,
  lookups: Lookups,
): Promise<string | null> {
  const { name, type } = expected;
  const organization = organizationOf(domainName);
  const places = zonesOf(domainName).map((zone) => ({
    wrong: `${name}.${zone}`,
    advice: `your DNS panel appended the zone name, so enter only "${within(name, zone)}" as its name`,
  }));
  if (organization !== domainName) {
    places.push({
      wrong: `${within(name, domainName)}.${organization}`,
      advice: `the sub-domain is missing, so enter "${within(name, organization)}" as its name`,
    });
  }
  const there = await Promise.all(places.map(({ wrong }) => isThere(expected, wrong, lookups)));
  const place = places[there.indexOf(true)];
  if (place === undefined) return null;
  return `the ${type} record exists at ${place.wrong}: ${place.advice}`;
}

/** A wildcard answers for every name, so what is there must look like what was asked for. */
async function isThere(expected: ExpectedRecord, name: string, lookups: Lookups): Promise<boolean> {
  if (expected.type === 'MX') {
    return has(await lookups.mx(name), ({ exchange }) =>
      exchange.startsWith(expected.value.toLowerCase()),
    );
  }
  return has(await lookups.txt(name), (text) =>
    expected.record === 'DKIM' ? looksLikeDkimKey(text) : /v=spf1/i.test(text),
  );
}

function has<T>(answer: DnsAnswer<T>, test: (record: T) => boolean): boolean {
  return answer.kind === 'records' && answer.records.some(test);
}

/** Another record type at the right name. */
async function findOtherType(expected: ExpectedRecord, lookups: Lookups): Promise<string | null> {
  const { name, type, record } = expected;
  const [cname, a, mx] = await Promise.all([
    lookups.cname(name),
    lookups.a(name),
    lookups.mx(name),
  ]);
  if (cname.kind === 'records') {
    return `there is a CNAME at ${name} (to ${cname.records.join(', ')}), which has no ${type} record: replace it with the ${type} record shown`;
  }
  if (a.kind === 'records') return wrongType(expected, 'an A');
  // The return path has an MX beside its SPF; a DKIM name has none.
  if (mx.kind === 'records' && record === 'DKIM') return wrongType(expected, 'an MX');
  return null;
}

function wrongType({ name, type }: ExpectedRecord, found: string): string {
  return `there is ${found} record at ${name}, but no ${type} record: choose the type ${type} and enter the value shown`;
}

/** The part of a name before its zone, as DNS panels want it. */
function within(name: string, zone: string): string {
  return name.endsWith(`.${zone}`) ? name.slice(0, -zone.length - 1) : name;
}
