/** Names in DNS around a sending domain. */
import { getDomain } from 'tldts';
import type { Resolver } from '../../net/dns/resolver.ts';

export type DnsLookups = Pick<Resolver, 'a' | 'aaaa' | 'cname' | 'mx' | 'ptr' | 'txt'>;

/** Returns the domain and its organization: a DNS panel may append either of them to a name. */
export function zonesOf(domainName: string): string[] {
  return [...new Set([domainName, organizationOf(domainName)])];
}

/** Returns `acme.co.uk` for `mail.acme.co.uk` (public suffix list). */
export function organizationOf(domainName: string): string {
  return getDomain(domainName) ?? domainName;
}

/** Returns the part of a name before its zone, as DNS panels ask for it. */
export function nameWithinZone(name: string, zone: string): string {
  return name.endsWith(`.${zone}`) ? name.slice(0, -zone.length - 1) : name;
}
