/**
 * The operator of a mail server. Sending limits apply per operator, not per recipient domain: all
 * domains hosted at Google share Google's limits. Add a line for a provider that counts connections
 * across several host names.
 */
import { getDomain } from 'tldts';
import { isIP } from 'node:net';

export type ProviderSuffixes = readonly (readonly [suffix: string, key: string])[];

/**
 * Host name suffix → provider key, for providers with several domains or with several groups of servers
 * in one domain. Other servers are grouped by registrable domain. The groups are those of KumoMTA's
 * shaping rules (Apache-2.0).
 */
const PROVIDER_SUFFIXES: ProviderSuffixes = [
  ['google.com', 'google'],
  ['googlemail.com', 'google'],
  ['olc.protection.outlook.com', 'outlook'],
  ['mail.protection.outlook.com', 'office365'],
  ['mx.microsoft', 'microsoft'],
  ['yahoodns.net', 'yahoo'],
  ['icloud.com', 'apple'],
  ['orange.fr', 'orange'],
  ['comcast.net', 'comcast'],
  ['mimecast.com', 'mimecast'],
  ['mimecast.co.za', 'mimecast'],
];

/** Providers that refuse or slow down mail without TLS (same source). */
const TLS_ONLY: ReadonlySet<string> = new Set(['google', 'orange', 'comcast']);

/** Whether this mail server must not get mail in plain text, even if its TLS handshake fails. */
export function takesOnlyTls(hostName: string): boolean {
  const known = knownProvider(hostName);
  return known !== undefined && TLS_ONLY.has(known);
}

/**
 * One key for a set of mail servers, independent of their order: the known providers, else the
 * registrable domains of the hosts, joined with `+`.
 * @param own the operator's entries, which override the table
 */
export function providerOf(hostNames: readonly string[], own: ProviderSuffixes = []): string {
  return [...new Set(hostNames.map((name) => rollUp(name, own)))].toSorted().join('+');
}

function rollUp(hostName: string, own: ProviderSuffixes): string {
  const known = providerIn(own, hostName) ?? knownProvider(hostName);
  if (known !== undefined) return known;
  if (isIP(hostName) !== 0) return hostName;
  // Private suffixes are respected: two customers of one cloud are not one provider.
  return getDomain(hostName, { allowPrivateDomains: true }) ?? hostName;
}

function knownProvider(hostName: string): string | undefined {
  return providerIn(PROVIDER_SUFFIXES, hostName);
}

function providerIn(table: ProviderSuffixes, hostName: string): string | undefined {
  return table.find(([suffix]) => hostName === suffix || hostName.endsWith(`.${suffix}`))?.[1];
}
