/**
 * The receiver that limits, suspensions and slow-downs belong to.
 *
 * Anybody may publish an MX record with any host name, and may rent a name below a hoster's domain. So
 * only two kinds of names count as one receiver: those that a large provider gives to its MX hosts, which
 * nobody else can point to a server, and those that the operator of this service lists. Any other host is a
 * receiver of its own, so a dead or malicious name below a domain affects no other name. An address block
 * is no receiver either: in a cloud, the neighbours in it are strangers.
 */
import { hash } from 'node:crypto';
import { isIP } from 'node:net';
import { getDomain } from 'tldts';

export type ProviderSuffixes = readonly (readonly [suffix: string, key: string])[];

/**
 * MX host names → provider key, for providers that count connections over all of their MX hosts. The
 * groups are those of KumoMTA's shaping rules (Apache-2.0). The patterns match MX hosts only:
 * `www.google.com` is not Google's mail.
 */
const MX_HOSTS: readonly (readonly [hosts: RegExp, key: string])[] = [
  [/^(?:alt[1-4]\.)?(?:aspmx|gmail-smtp-in|gmr-smtp-in)\.l\.google\.com$/, 'google'],
  [/^aspmx[2-5]\.googlemail\.com$/, 'google'],
  [/^smtp\.google\.com$/, 'google'],
  [/^[a-z0-9-]+\.olc\.protection\.outlook\.com$/, 'outlook'],
  [/^[a-z0-9-]+\.mail\.protection\.outlook\.com$/, 'office365'],
  [/^[a-z0-9-]+\.[a-z0-9]+-v\d+\.mx\.microsoft$/, 'microsoft'],
  [/^(?:mta\d+|mx-[a-z0-9]+(?:\.mail)?)\.[a-z]+\d\.yahoodns\.net$/, 'yahoo'],
  [/^mx\d+\.mail\.icloud\.com$/, 'apple'],
  [/^smtp-in\d*\.orange\.fr$/, 'orange'],
  [/^mx\d[a-z0-9]*(?:\.mxge)?\.comcast\.net$/, 'comcast'],
  [/^[a-z0-9-]+-inbound-[a-z0-9]+\.mimecast\.(?:com|co\.za)$/, 'mimecast'],
];

export const KNOWN_PROVIDERS: readonly string[] = [...new Set(MX_HOSTS.map(([, key]) => key))];

/** Providers that refuse or slow down mail without TLS (same source). */
const TLS_ONLY: ReadonlySet<string> = new Set(['google', 'orange', 'comcast']);

/** A key is part of index entries, whose size PostgreSQL limits. */
const KEY_CHARACTERS_MAX = 200;

/** Whether this mail server must not get mail in plain text, even if its TLS handshake fails. */
export function takesOnlyTls(hostName: string): boolean {
  const known = knownProvider(hostName);
  return known !== undefined && TLS_ONLY.has(known);
}

/**
 * One key for a set of mail servers, independent of their order: the known providers, else the names of
 * the hosts, joined with `+`.
 * @param own the operator's entries, which override the table
 */
export function providerOf(hostNames: readonly string[], own: ProviderSuffixes = []): string {
  const keys = hostNames.map(
    (name) => providerIn(own, name) ?? knownProvider(name) ?? keyOfHost(name),
  );
  return shortened([...new Set(keys)].toSorted());
}

/** Whether the key is that of a large provider, or a name from the operator's file, and not made from names of hosts. */
export function isNamedProvider(key: string): boolean {
  return !/[.:]/.test(key);
}

/**
 * The registrable domains of a key's hosts. Their servers often count connections together, so the hosts
 * of a domain share a number of them (delivery/broker/room.ts), and nothing else.
 */
export function groupOf(provider: string): string {
  const groups = provider.split('+').map((key) => {
    // Private suffixes are respected: two customers of one cloud are not one group.
    return isIP(key) === 0 ? (getDomain(key, { allowPrivateDomains: true }) ?? key) : key;
  });
  return [...new Set(groups)].toSorted().join('+');
}

/**
 * DNS permits any character in a name and names without a dot. They are written so that they equal no
 * other key: neither `google` nor the key of several hosts.
 */
function keyOfHost(name: string): string {
  if (isIP(name) !== 0) return name;
  const plain = name.replaceAll(/[^a-z0-9._-]/g, '?');
  return plain.includes('.') ? plain : `${plain}.`;
}

function knownProvider(hostName: string): string | undefined {
  return MX_HOSTS.find(([hosts]) => hosts.test(hostName))?.[1];
}

function providerIn(table: ProviderSuffixes, hostName: string): string | undefined {
  return table.find(([suffix]) => hostName === suffix || hostName.endsWith(`.${suffix}`))?.[1];
}

/** As many hosts as fit, and a digest of all of them. */
function shortened(keys: readonly string[]): string {
  const whole = keys.join('+');
  if (whole.length <= KEY_CHARACTERS_MAX) return whole;
  const digest = `and-others-${hash('sha256', whole, 'hex').slice(0, 16)}`;
  const shown = [...keys];
  const isTooLong = (): boolean => [...shown, digest].join('+').length > KEY_CHARACTERS_MAX;
  while (isTooLong()) shown.pop();
  return [...shown, digest].join('+');
}
