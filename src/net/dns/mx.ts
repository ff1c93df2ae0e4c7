/**
 * Where mail for a domain goes: RFC 5321 §5.1 (MX, implicit MX, order), RFC 7505 (null MX).
 *
 *     MX of the domain ── none ──> the domain itself is the host (implicit MX)
 *        │ sort by preference, shuffle equals, drop ourselves and what is worse, at most 10
 *     addresses of each host ── only those that the guard lets pass
 *        │
 *     hosts to try in order, or the one reason why there are none
 *
 * Promises: a failing DNS is never mistaken for a domain without mail; no address leaves here that
 * the guard refuses. Connect to these addresses, never to the names again.
 */
import type { World } from '../../core/world.ts';
import type { AddressGuard } from '../addresses.ts';
import type { DnsAnswer, MxRecord, Resolver } from './resolver.ts';
import { providerOf, type ProviderSuffixes } from '../providers.ts';

/**
 * `addresses` is never empty. `daneNames`: where TLSA records may be, because DNSSEC vouches for
 * the way from the domain to these addresses; the first that has some counts (RFC 7672 §2.2).
 * `daneAlias`: where the domain's own CNAMEs led on that way (§3.2.2).
 */
export type MxHost = {
  name: string;
  preference: number;
  addresses: readonly string[];
  daneNames?: readonly string[];
  daneAlias?: string;
};

/** A mail server that was left out, for the transcript of the attempt. */
type DroppedHost = { name: string; reason: string };

/** Every `message` is one sentence for the sender. */
export type Route =
  /** In the order to try them. `provider`: what their limits are counted under. */
  | {
      kind: 'hosts';
      hosts: readonly MxHost[];
      provider: string;
      dropped: readonly DroppedHost[];
    }
  /** The domain says that it takes no mail: permanent, 5.1.10. */
  | { kind: 'null_mx'; message: string }
  /** NXDOMAIN: permanent, 5.1.2. */
  | { kind: 'no_such_domain'; message: string }
  /**
   * The domain exists, but DNS says for certain that no mail server of it has an address: permanent,
   * 5.4.4, as RFC 5321 §5.1 wants an error and Postfix (`smtp_defer_if_no_mx_address_found = no`)
   * and Exim bounce.
   */
  | { kind: 'no_mail_host'; message: string }
  /** All addresses are refused by the guard, or the best mail server is this one: permanent, 5.4.6. */
  | { kind: 'refused'; message: string }
  /** DNS did not answer (5321 §5.1: queue and retry), 4.4.3. */
  | { kind: 'temporary'; message: string };

export type RouteOptions = {
  resolver: Pick<Resolver, 'mx' | 'a' | 'aaaa'>;
  guard: AddressGuard;
  random: World['random'];
  /** In the order in which to try addresses of one host; default IPv4 first, then IPv6. */
  addressFamilies?: readonly (4 | 6)[];
  /** In lower case: a mail server of such a name is us. */
  ownNames?: ReadonlySet<string>;
  /** Who runs which hosts, before the table of providers.ts. */
  providerSuffixes?: ProviderSuffixes;
};

type Candidate = { name: string; preference: number };
type Located =
  | { kind: 'host'; host: MxHost }
  | { kind: 'unknown' | 'nowhere' | 'refused'; name: string; reason: string };

const MAX_HOSTS = 10;
/** Per host: what is beyond them would not be tried within one attempt. */
const MAX_ADDRESSES = 8;

/** @param domain in lower case, A-labels */
export async function resolveRoute(domain: string, options: RouteOptions): Promise<Route> {
  const answer = await options.resolver.mx(domain);
  const candidates = candidatesOf(domain, answer);
  if ('kind' in candidates) return candidates;
  const ordered = inOrder(candidates, options.random);
  const foreign = withoutOurselves(ordered, options.ownNames).slice(0, MAX_HOSTS);
  if (foreign.length === 0) {
    const message = `the best mail server of ${domain} is this service itself, and it takes no mail for that domain`;
    return { kind: 'refused', message };
  }
  const isSecure = 'authenticated' in answer && answer.authenticated;
  const alias = answer.kind === 'records' ? answer.canonicalName : undefined;
  const located = await Promise.all(
    foreign.map((candidate) => locate(candidate, { ...options, isSecure, alias })),
  );
  return routeOf(domain, located, options.providerSuffixes);
}

function candidatesOf(
  domain: string,
  answer: DnsAnswer<MxRecord>,
): readonly Candidate[] | Exclude<Route, { kind: 'hosts' }> {
  if (answer.kind === 'error') return { kind: 'temporary', message: answer.message };
  if (answer.kind === 'nxdomain') {
    return { kind: 'no_such_domain', message: `the domain ${domain} does not exist` };
  }
  if (answer.kind === 'nodata') return [{ name: domain, preference: 0 }];
  // RFC 7505 §3: "." next to other records is a mistake, and the others count.
  const named = answer.records.filter(({ exchange }) => exchange !== '.');
  if (named.length === 0) {
    return {
      kind: 'null_mx',
      message: `the domain ${domain} says that it takes no mail (null MX)`,
    };
  }
  const best = new Map<string, Candidate>();
  for (const { exchange, preference } of named) {
    const known = best.get(exchange);
    if (known === undefined || preference < known.preference) {
      best.set(exchange, { name: exchange, preference });
    }
  }
  return [...best.values()];
}

/** Best preference first; equal ones in random order, to spread the load (5321 §5.1: MUST). */
function inOrder(candidates: readonly Candidate[], random: World['random']): Candidate[] {
  return candidates
    .map((candidate) => ({ candidate, dice: random() }))
    .toSorted(
      (one, other) =>
        one.candidate.preference - other.candidate.preference || one.dice - other.dice,
    )
    .map(({ candidate }) => candidate);
}

/** If we are in the list, we and all that are worse or equal are dropped, else mail would loop. */
function withoutOurselves(
  ordered: readonly Candidate[],
  ownNames?: ReadonlySet<string>,
): Candidate[] {
  const own = ordered.find(({ name }) => ownNames?.has(name));
  return ordered.filter(({ preference }) => own === undefined || preference < own.preference);
}

async function locate(
  candidate: Candidate,
  options: RouteOptions & { isSecure: boolean; alias: string | undefined },
): Promise<Located> {
  const { resolver, guard, addressFamilies = [4, 6] } = options;
  const { name } = candidate;
  const answers = await Promise.all(
    addressFamilies.map((family) => (family === 4 ? resolver.a(name) : resolver.aaaa(name))),
  );
  const addresses = answers.flatMap((answer) => (answer.kind === 'records' ? answer.records : []));
  const open = addresses.filter((address) => guard.refuses(address) === null);
  if (open.length > 0) {
    const host = { ...candidate, addresses: open.slice(0, MAX_ADDRESSES) };
    const daneNames = options.isSecure ? secureNames(name, answers) : [];
    if (daneNames.length === 0) return { kind: 'host', host };
    const { alias } = options;
    const daneAlias = alias === undefined ? {} : { daneAlias: alias };
    return { kind: 'host', host: { ...host, daneNames, ...daneAlias } };
  }
  const failed = answers.find((answer) => answer.kind === 'error');
  if (failed !== undefined) return { kind: 'unknown', name, reason: failed.message };
  const [refused] = addresses;
  if (refused === undefined) return { kind: 'nowhere', name, reason: `${name} has no address` };
  return { kind: 'refused', name, reason: `${guard.refuses(refused)}` };
}

/** The end of the host's CNAMEs, then its own name; none unless all its addresses are secure. */
function secureNames(name: string, answers: readonly DnsAnswer<string>[]): string[] {
  const found = answers.filter((answer) => answer.kind === 'records');
  if (!found.every(({ authenticated }) => authenticated)) return [];
  return [...new Set([found[0]?.canonicalName ?? name, name])];
}

function routeOf(
  domain: string,
  located: readonly Located[],
  suffixes: ProviderSuffixes | undefined,
): Route {
  const hosts = located.flatMap((one) => (one.kind === 'host' ? [one.host] : []));
  const without = located.flatMap((one) => (one.kind === 'host' ? [] : [one]));
  if (hosts.length > 0) {
    const dropped = without.map(({ name, reason }) => ({ name, reason }));
    return { kind: 'hosts', hosts, provider: providerOf(bestNames(hosts), suffixes), dropped };
  }
  const unknown = without.find(({ kind }) => kind === 'unknown');
  if (unknown !== undefined) return { kind: 'temporary', message: unknown.reason };
  const refused = without.find(({ kind }) => kind === 'refused');
  if (refused !== undefined) {
    const message = `no mail server of ${domain} may be connected to: ${refused.name} is at an address that is not public (${refused.reason})`;
    return { kind: 'refused', message };
  }
  return { kind: 'no_mail_host', message: `no mail server of ${domain} has an address` };
}

/** Secondary servers may belong to another operator; the limits are those of the main ones. */
function bestNames(hosts: readonly MxHost[]): string[] {
  const best = Math.min(...hosts.map(({ preference }) => preference));
  return hosts.filter(({ preference }) => preference === best).map(({ name }) => name);
}
