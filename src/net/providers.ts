/**
 * The operator of a mail server. Limits belong to the operator of the servers, not to the recipient's
 * domain: all the domains that Google hosts share the limits of Google. A data file: add a line when a
 * provider counts connections over several names.
 */
import { getDomain } from 'tldts';
import { isIP } from 'node:net';

export type ProviderSuffixes = readonly (readonly [suffix: string, key: string])[];

/**
 * Host name suffix → roll-up key, for providers with more than one domain or with several groups of
 * servers under one. Other servers are rolled up by registrable domain. The groups are those of
 * KumoMTA's shaping rules (Apache-2.0), which large senders keep current.
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

/** Of these, those that refuse or slow down mail in the clear (same source). */
const TLS_ONLY: ReadonlySet<string> = new Set(['google', 'orange', 'comcast']);

/** Whether this mail server is to be sent nothing in the clear, whatever its handshake does. */
export function takesOnlyTls(hostName: string): boolean {
  const known = knownProvider(hostName);
  return known !== undefined && TLS_ONLY.has(known);
}

/**
 * One key for a set of mail servers, the same in whatever order they come: the known providers, else
 * the registrable domains of the hosts, joined with `+`.
 * @param own entries of the operator, which override the table
 */
export function providerOf(hostNames: readonly string[], own: ProviderSuffixes = []): string {
  return [...new Set(hostNames.map((name) => rollUp(name, own)))].toSorted().join('+');
}

function rollUp(hostName: string, own: ProviderSuffixes): string {
  const known = providerIn(own, hostName) ?? knownProvider(hostName);
  if (known !== undefined) return known;
  if (isIP(hostName) !== 0) return hostName;
  // Private suffixes count as borders: two customers of one cloud are not one provider.
  return getDomain(hostName, { allowPrivateDomains: true }) ?? hostName;
}

function knownProvider(hostName: string): string | undefined {
  return providerIn(PROVIDER_SUFFIXES, hostName);
}

function providerIn(table: ProviderSuffixes, hostName: string): string | undefined {
  return table.find(([suffix]) => hostName === suffix || hostName.endsWith(`.${suffix}`))?.[1];
}
