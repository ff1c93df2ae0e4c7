/**
 * The providers of mail hosts. Limits, suspensions and slow-downs apply to a provider.
 *
 * Anybody may publish an MX record with any host name, and may rent a name below a hoster's domain. So only two
 * kinds of names form a group: names of the MX hosts of a large provider, which nobody else can point to a server,
 * and names that the operator of this service lists. Any other host is a provider of its own, so a dead or malicious
 * name below a domain affects no other name. An address block forms no group, because the neighbours in a cloud are
 * strangers.
 */
import { hash } from 'node:crypto';
import { isIP } from 'node:net';
import { getDomain } from 'tldts';

export type ProviderSuffixes = readonly (readonly [suffix: string, key: string])[];

/**
 * MX host names and the provider's key, for providers that count connections over all of their MX hosts. The groups
 * come from KumoMTA's shaping rules (Apache-2.0). The patterns match MX hosts only: `www.google.com` is not Google's
 * mail.
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

/** Limit on a key, because index entries contain it and PostgreSQL limits their size. */
const KEY_CHARACTERS_MAX = 200;

/** Returns whether mail must not be sent to this server in plain text, even after a failed TLS handshake. */
export function requiresTls(hostName: string): boolean {
  const known = knownProvider(hostName);
  return known !== undefined && TLS_ONLY.has(known);
}

/**
 * Returns one key for a set of mail servers in any order: the known providers, else the names of the hosts, joined
 * with `+`.
 * @param operatorEntries the operator's entries, which override the table
 */
export function providerOf(
  hostNames: readonly string[],
  operatorEntries: ProviderSuffixes = [],
): string {
  const keys = hostNames.map(
    (name) => providerIn(operatorEntries, name) ?? knownProvider(name) ?? keyOfHost(name),
  );
  return shortened([...new Set(keys)].toSorted());
}

/** Returns whether the key is a large provider or a name in the operator's file, not made from host names. */
export function isNamedProvider(key: string): boolean {
  return !/[.:]/.test(key);
}

/**
 * Returns the registrable domains of a key's hosts. Their servers often count connections together, so the hosts of
 * a domain share a limit on connections (delivery/broker/group-capacity.ts), and nothing else.
 */
export function connectionGroup(provider: string): string {
  const groups = provider.split('+').map((key) => {
    // Private suffixes are respected: two customers of one cloud are not one group.
    return isIP(key) === 0 ? (getDomain(key, { allowPrivateDomains: true }) ?? key) : key;
  });
  return [...new Set(groups)].toSorted().join('+');
}

/**
 * Returns the key of a single host. DNS permits names without a dot and any character in a name. Their key never
 * equals another one, such as `google` or the key of several hosts.
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

/** Joins as many hosts as fit, and a digest of all of them. */
function shortened(keys: readonly string[]): string {
  const joined = keys.join('+');
  if (joined.length <= KEY_CHARACTERS_MAX) return joined;
  const digest = `and-others-${hash('sha256', joined, 'hex').slice(0, 16)}`;
  const keptKeys = [...keys];
  const isTooLong = (): boolean => [...keptKeys, digest].join('+').length > KEY_CHARACTERS_MAX;
  while (isTooLong()) keptKeys.pop();
  return [...keptKeys, digest].join('+');
}
