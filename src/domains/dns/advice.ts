/**
 * Advice about a sending domain: settings that are not required but affect delivery. It covers DMARC (RFC 9989),
 * reverse DNS of the source addresses, whether replies can arrive, and broken MTA-STS records. A DNS query without a
 * response yields no finding. The API shows a finding and its remedy as one sentence, and the doctor as two.
 */
import { isIPv6 } from 'node:net';
import { isPublicAddress } from '../../net/ip-addresses.ts';
import type { DnsResult } from '../../net/dns/resolver.ts';
import { type DmarcRecords, findDmarcRecords, isDmarc, parseDmarcTags } from './dmarc-records.ts';
import { type DnsLookups, organizationOf } from './zone-names.ts';

/** One sentence, as it is stored and shown by the API. */
export type Advice = {
  about: 'dmarc' | 'ptr' | 'replies' | 'mta_sts' | 'inbound';
  message: string;
};

/** Two clauses without a capital at the start and without a full stop at the end. */
export type AdviceFinding = { about: Advice['about'] } & Clauses;
type Clauses = { found: string; remedy: string };

export function toAdvice({ about, found, remedy }: AdviceFinding): Advice {
  return { about, message: `${found}: ${remedy}` };
}

/** A local address that mail leaves from, and the name that EHLO gives for it. */
export type Source = { ip: string; heloName: string };

type AdviceContext = {
  name: string;
  hostname: string;
  sources: readonly Source[];
  lookups: DnsLookups;
  /** The DMARC records of the domain, if the caller looks them up. */
  dmarc?: Promise<DmarcRecords | null>;
};

const SOURCES_MAX = 8;

export async function adviseOn(context: AdviceContext): Promise<AdviceFinding[]> {
  const findings = await Promise.all([
    adviseDmarc(context),
    advisePtr(context),
    adviseReplies(context),
    adviseMtaSts(context),
  ]);
  return findings.flat();
}

async function adviseDmarc({ name, lookups, dmarc }: AdviceContext): Promise<AdviceFinding[]> {
  const found = await (dmarc ?? findDmarcRecords(name, lookups));
  if (found?.kind === 'error') return [];
  if (found !== null) return dmarcFindings(found.at, found.texts, found.at !== name);
  const organization = organizationOf(name);
  return [
    {
      about: 'dmarc',
      found: `there is no DMARC record at _dmarc.${organization}, and large receivers require one`,
      remedy: `start with the TXT record "v=DMARC1; p=none; rua=mailto:dmarc@${organization}"`,
    },
  ];
}

function dmarcFindings(
  at: string,
  texts: readonly string[],
  isInherited: boolean,
): AdviceFinding[] {
  const finding = (clauses: Clauses): AdviceFinding[] => [{ about: 'dmarc', ...clauses }];
  const [text = ''] = texts;
  if (texts.length > 1) {
    return finding({
      found: `there are ${texts.length} DMARC records at _dmarc.${at}, so receivers ignore them all`,
      remedy: 'keep one',
    });
  }
  if (!isDmarc(text)) {
    return finding({
      found: `the DMARC record at _dmarc.${at} does not start with "v=DMARC1;", so receivers ignore it`,
      remedy: 'write its text without quotation marks, and start it with v=DMARC1;',
    });
  }
  const tags = parseDmarcTags(text);
  const policy = (isInherited ? tags.get('sp') : undefined) ?? tags.get('p') ?? '';
  if (!['none', 'quarantine', 'reject'].includes(policy)) {
    return finding({
      found: `the DMARC record at _dmarc.${at} has no valid policy`,
      remedy: 'set p= to none, quarantine or reject',
    });
  }
  if (policy !== 'none') return [];
  return finding({
    found: `the DMARC policy at _dmarc.${at} is "none", which only reports`,
    remedy: 'change it to p=quarantine once the reports contain only your own mail',
  });
}

/** Checks forward-confirmed reverse DNS: address → name → the same address. */
async function advisePtr({ hostname, sources, lookups }: AdviceContext): Promise<AdviceFinding[]> {
  const configured = sources.filter(({ ip }) => isPublicAddress(ip));
  const used = configured.length > 0 ? configured : await lookUpSources(hostname, lookups);
  if (used === null) return [];
  if (used.length === 0) {
    const found = `${hostname}, the host name of this service, has no public address in DNS, so bounces cannot be received and SPF by that name fails`;
    return [{ about: 'ptr', found, remedy: 'add an address record for it' }];
  }
  const findings = await Promise.all(
    used.slice(0, SOURCES_MAX).map((source) => checkReverseName(source, lookups)),
  );
  return findings.flatMap((found) => (found === null ? [] : [{ about: 'ptr', ...found }]));
}

async function checkReverseName(
  { ip, heloName }: Source,
  lookups: DnsLookups,
): Promise<Clauses | null> {
  const reverse = await lookups.ptr(ip);
  if (reverse.kind === 'error') return null;
  if (reverse.kind !== 'records') {
    return {
      found: `the sending address ${ip} has no reverse DNS, and large receivers refuse such mail`,
      remedy: `have the provider of the address set its PTR to ${heloName}`,
    };
  }
  const [name = ''] = reverse.records;
  const forward = await (isIPv6(ip) ? lookups.aaaa(name) : lookups.a(name));
  if (forward.kind === 'error') return null;
  if (forward.kind === 'records' && forward.records.includes(ip)) return null;
  return {
    found: `the reverse DNS of ${ip} says ${name}, but ${name} does not resolve to ${ip}`,
    remedy: `add that address record, or have the PTR set to ${heloName}`,
  };
}

/** Returns null when DNS did not respond. */
async function lookUpSources(heloName: string, lookups: DnsLookups): Promise<Source[] | null> {
  const responses = await Promise.all([lookups.a(heloName), lookups.aaaa(heloName)]);
  if (responses.some(({ kind }) => kind === 'error')) return null;
  const recordsOf = (response: DnsResult<string>) =>
    response.kind === 'records' ? response.records : [];
  const ips = responses.flatMap(recordsOf).filter(isPublicAddress);
  return ips.map((ip) => ({ ip, heloName }));
}

/** Checks that replies can arrive (RFC 7505 §4.2): receivers may refuse mail from a domain that accepts none. */
async function adviseReplies({ name, lookups }: AdviceContext): Promise<AdviceFinding[]> {
  const [mx, a, aaaa] = await Promise.all([lookups.mx(name), lookups.a(name), lookups.aaaa(name)]);
  if (mx.kind === 'records' && mx.records.every(({ exchange }) => exchange === '.')) {
    const found = `${name} accepts no mail (null MX), so replies are lost and some receivers refuse mail from it`;
    return [{ about: 'replies', found, remedy: 'give it a mail server' }];
  }
  if ([mx, a, aaaa].some(({ kind }) => kind === 'records' || kind === 'error')) return [];
  const found = `${name} has neither an MX nor an address, so replies are lost and some receivers refuse mail from it`;
  return [{ about: 'replies', found, remedy: 'add an MX' }];
}

/**
 * Warns when the MX record names this node but its inbound port is closed. Other nodes cannot be checked from here.
 * @param inboundPort port on which this node receives bounces; null when it receives none
 */
export function adviseInbound(
  returnPathHost: string,
  { hostname, inboundPort }: { hostname: string; inboundPort: number | null },
): Advice[] {
  if (inboundPort !== null || returnPathHost !== hostname) return [];
  const message = `bounces and complaints by mail are lost: the MX record names ${hostname}, where this service does not receive mail. Set LETTERHAUS_INBOUND_PORT=25 and open that port`;
  return [{ about: 'inbound', message }];
}

/** Checks the MTA-STS record (RFC 8461 §3.1): several records, or a record without an id, count as no record. */
async function adviseMtaSts({ name, lookups }: AdviceContext): Promise<AdviceFinding[]> {
  const response = await lookups.txt(`_mta-sts.${name}`);
  if (response.kind !== 'records') return [];
  const candidates = response.records.filter((text) => /STSv1/i.test(text));
  const [text = ''] = candidates;
  const isValid =
    candidates.length === 1 && /^v=STSv1\s*;\s*id=[A-Za-z0-9]{1,32}\s*(;|$)/.test(text);
  if (candidates.length === 0 || isValid) return [];
  const found = `the MTA-STS record at _mta-sts.${name} is not valid, so senders ignore your policy`;
  return [{ about: 'mta_sts', found, remedy: 'keep exactly one, like "v=STSv1; id=20261121"' }];
}
