/**
 * The mail hosts of a domain: RFC 5321 §5.1 (MX, implicit MX, order), RFC 7505 (null MX).
 *
 *     MX of the domain ── none ──> the domain itself is the host (implicit MX)
 *        │ sort by preference, shuffle equals, drop this service and less preferred hosts, at most 10
 *     addresses of each host ── only those that the guard permits
 *        │
 *     hosts to try in order, or the reason why there are none
 *
 * Guarantee: a DNS failure never counts as a domain without mail, and the guard permits every returned address.
 * Connect to these addresses; never resolve the names again.
 */
import type { World } from '../../lib/world.ts';
import type { AddressGuard } from '../ip-addresses.ts';
import type { DnsResult, MxRecord, Resolver } from './resolver.ts';
import { providerOf, type ProviderSuffixes } from '../providers.ts';

/**
 * `addresses` is never empty. `daneNames` may have TLSA records, because DNSSEC validates the chain from the domain
 * to these addresses; the first with records is used (RFC 7672 §2.2). `daneAlias` is the target of the domain's own
 * CNAMEs in that chain (§3.2.2). `provider` is set for a less preferred host, which may have another operator than
 * the best ones; absent: the provider of the route.
 */
export type MxHost = {
  name: string;
  preference: number;
  addresses: readonly string[];
  daneNames?: readonly string[];
  daneAlias?: string;
  provider?: string;
};

/** An excluded mail server, for the transcript of the attempt. */
type DroppedHost = { name: string; reason: string };

/** Every `message` is a sentence for the sender of the email. */
export type MailHosts =
  /** Hosts in the order of preference. `provider` is the key of the limits for these hosts. */
  | {
      kind: 'hosts';
      hosts: readonly MxHost[];
      provider: string;
      dropped: readonly DroppedHost[];
    }
  /** The domain accepts no mail (null MX): permanent, 5.1.10. */
  | { kind: 'null_mx'; message: string }
  /** NXDOMAIN: permanent, 5.1.2. */
  | { kind: 'no_such_domain'; message: string }
  /**
   * The domain exists, but according to DNS none of its mail servers has an address: permanent, 5.4.4. RFC 5321 §5.1
   * requires an error. Postfix (`smtp_defer_if_no_mx_address_found = no`) and Exim bounce.
   */
  | { kind: 'no_mail_host'; message: string }
  /** The guard refuses all addresses, or the most preferred mail server is this one: permanent, 5.4.6. */
  | { kind: 'refused'; message: string }
  /** DNS did not respond: queue and retry (RFC 5321 §5.1), 4.4.3. */
  | { kind: 'temporary'; message: string };

export type MailHostOptions = {
  resolver: Pick<Resolver, 'mx' | 'a' | 'aaaa'>;
  guard: AddressGuard;
  random: World['random'];
  /** Host names of this service, in lower case. */
  ownNames?: ReadonlySet<string>;
  /** Entries that precede the table of net/providers.ts. */
  providerSuffixes?: ProviderSuffixes;
};

type Candidate = { name: string; preference: number };
type LocatedHost =
  | { kind: 'host'; host: MxHost }
  | { kind: 'unknown' | 'nowhere' | 'refused'; name: string; reason: string };

const HOSTS_MAX = 10;
/** Limit for one host: an attempt would not try more. */
const ADDRESSES_MAX = 8;

/** @param domain lower-case A-labels */
export async function resolveMailHosts(
  domain: string,
  options: MailHostOptions,
): Promise<MailHosts> {
  const mx = await options.resolver.mx(domain);
  const candidates = mxCandidates(domain, mx);
  if ('kind' in candidates) return candidates;
  const ordered = orderByPreference(candidates, options.random);
  const hosts = dropOwnHosts(ordered, options.ownNames).slice(0, HOSTS_MAX);
  if (hosts.length === 0) {
    const message = `the best mail server of ${domain} is this service itself, which does not receive mail for that domain`;
    return { kind: 'refused', message };
  }
  const isSecure = 'authenticated' in mx && mx.authenticated;
  const alias = mx.kind === 'records' ? mx.canonicalName : undefined;
  const locatedHosts = await Promise.all(
    hosts.map((candidate) => locateHost(candidate, { ...options, isSecure, alias })),
  );
  return mailHostsFrom(domain, locatedHosts, options.providerSuffixes);
}

function mxCandidates(
  domain: string,
  mx: DnsResult<MxRecord>,
): readonly Candidate[] | Exclude<MailHosts, { kind: 'hosts' }> {
  if (mx.kind === 'error') return { kind: 'temporary', message: mx.message };
  if (mx.kind === 'nxdomain') {
    return { kind: 'no_such_domain', message: `the domain ${domain} does not exist` };
  }
  if (mx.kind === 'nodata') return [{ name: domain, preference: 0 }];
  // RFC 7505 §3: "." beside other MX records is an error; it is ignored.
  const mailExchangers = mx.records.filter(({ exchange }) => exchange !== '.');
  if (mailExchangers.length === 0) {
    return {
      kind: 'null_mx',
      message: `the domain ${domain} accepts no mail (null MX)`,
    };
  }
  const best = new Map<string, Candidate>();
  for (const { exchange, preference } of mailExchangers) {
    const known = best.get(exchange);
    if (known === undefined || preference < known.preference) {
      best.set(exchange, { name: exchange, preference });
    }
  }
  return [...best.values()];
}

/** Sorts by preference. Equal hosts are in random order, which spreads the load (RFC 5321 §5.1: MUST). */
function orderByPreference(candidates: readonly Candidate[], random: World['random']): Candidate[] {
  return candidates
    .map((candidate) => ({ candidate, random: random() }))
    .toSorted((a, b) => a.candidate.preference - b.candidate.preference || a.random - b.random)
    .map(({ candidate }) => candidate);
}

/** Drops this service and all hosts that are not preferred to it, which prevents mail loops. */
function dropOwnHosts(ordered: readonly Candidate[], ownNames?: ReadonlySet<string>): Candidate[] {
  const own = ordered.find(({ name }) => ownNames?.has(name));
  return ordered.filter(({ preference }) => own === undefined || preference < own.preference);
}

async function locateHost(
  candidate: Candidate,
  options: MailHostOptions & { isSecure: boolean; alias: string | undefined },
): Promise<LocatedHost> {
  const { resolver, guard } = options;
  const { name } = candidate;
  const lookups = await Promise.all([resolver.a(name), resolver.aaaa(name)]);
  const addresses = lookups.flatMap((lookup) => (lookup.kind === 'records' ? lookup.records : []));
  const permitted = addresses.filter((address) => guard.refusalReason(address) === null);
  if (permitted.length > 0) {
    const host = { ...candidate, addresses: permitted.slice(0, ADDRESSES_MAX) };
    const daneNames = options.isSecure ? validatedNames(name, lookups) : [];
    if (daneNames.length === 0) return { kind: 'host', host };
    const { alias } = options;
    const daneAlias = alias === undefined ? {} : { daneAlias: alias };
    return { kind: 'host', host: { ...host, daneNames, ...daneAlias } };
  }
  const failedLookup = lookups.find((lookup) => lookup.kind === 'error');
  if (failedLookup !== undefined) return { kind: 'unknown', name, reason: failedLookup.message };
  const [refusedAddress] = addresses;
  if (refusedAddress === undefined)
    return { kind: 'nowhere', name, reason: `${name} has no address` };
  return { kind: 'refused', name, reason: `${guard.refusalReason(refusedAddress)}` };
}

/** Returns the end of the host's CNAMEs, then its own name; empty unless all its addresses are validated. */
function validatedNames(name: string, lookups: readonly DnsResult<string>[]): string[] {
  const found = lookups.filter((lookup) => lookup.kind === 'records');
  if (!found.every(({ authenticated }) => authenticated)) return [];
  return [...new Set([found[0]?.canonicalName ?? name, name])];
}

function mailHostsFrom(
  domain: string,
  located: readonly LocatedHost[],
  suffixes: ProviderSuffixes | undefined,
): MailHosts {
  const hosts = located.flatMap((entry) => (entry.kind === 'host' ? [entry.host] : []));
  const unusable = located.flatMap((entry) => (entry.kind === 'host' ? [] : [entry]));
  if (hosts.length > 0) {
    const dropped = unusable.map(({ name, reason }) => ({ name, reason }));
    const best = mostPreferred(hosts);
    const provider = providerOf(
      best.map(({ name }) => name),
      suffixes,
    );
    const hostsWithProvider = hosts.map((host) =>
      best.includes(host) ? host : { ...host, provider: providerOf([host.name], suffixes) },
    );
    return { kind: 'hosts', hosts: hostsWithProvider, provider, dropped };
  }
  const unknown = unusable.find(({ kind }) => kind === 'unknown');
  if (unknown !== undefined) return { kind: 'temporary', message: unknown.reason };
  const refused = unusable.find(({ kind }) => kind === 'refused');
  if (refused !== undefined) {
    const message = `no mail server of ${domain} may be connected to: ${refused.name} is at an address that is not public (${refused.reason})`;
    return { kind: 'refused', message };
  }
  return { kind: 'no_mail_host', message: `no mail server of ${domain} has an address` };
}

/** Returns the most preferred hosts. Other hosts may belong to another operator. */
function mostPreferred(hosts: readonly MxHost[]): MxHost[] {
  const best = Math.min(...hosts.map(({ preference }) => preference));
  return hosts.filter(({ preference }) => preference === best);
}
