/**
 * Advice about a sending domain: settings that are not required but affect delivery. It covers DMARC (RFC 9989),
 * reverse DNS of the source addresses, whether replies can arrive, and broken MTA-STS records. Each finding is one
 * sentence. A DNS query without an answer yields no finding.
 */
import { isIPv6 } from 'node:net';
import { isPublicAddress } from '../../net/ip-addresses.ts';
import type { DnsResult } from '../../net/dns/resolver.ts';
import { type Lookups, organizationOf } from './judge-records.ts';

export type Advice = {
  about: 'dmarc' | 'ptr' | 'replies' | 'mta_sts' | 'inbound';
  message: string;
};

/** A local address that mail leaves from, and the name that EHLO gives for it. */
export type Source = { ip: string; heloName: string };

type AdviceContext = {
  name: string;
  hostname: string;
  sources: readonly Source[];
  lookups: Lookups;
};

const MAX_SOURCES = 8;

export async function adviseOn(context: AdviceContext): Promise<Advice[]> {
  const findings = await Promise.all([
    adviseDmarc(context),
    advisePtr(context),
    adviseReplies(context),
    adviseMtaSts(context),
  ]);
  return findings.flat();
}

async function adviseDmarc({ name, lookups }: AdviceContext): Promise<Advice[]> {
  const found = await findDmarcRecords(name, lookups);
  if (found?.kind === 'error') return [];
  if (found !== null) return dmarcFindings(found.at, found.texts, found.at !== name);
  const organization = organizationOf(name);
  const message = `there is no DMARC record at _dmarc.${organization}, and large receivers require one: start with the TXT record "v=DMARC1; p=none; rua=mailto:dmarc@${organization}"`;
  return [{ about: 'dmarc', message }];
}

type DmarcRecords =
  /** `at` is the domain that has the records. At least one is meant as a DMARC record. */
  { kind: 'records'; at: string; texts: readonly string[] } | { kind: 'error'; message: string };

/** Falls back to the domain's organization (RFC 9989). Returns null when neither has a record. */
export async function findDmarcRecords(
  name: string,
  lookups: Pick<Lookups, 'txt'>,
): Promise<DmarcRecords | null> {
  for (const at of new Set([name, organizationOf(name)])) {
    const answer = await lookups.txt(`_dmarc.${at}`);
    if (answer.kind === 'error') return answer;
    const texts = answer.kind === 'records' ? answer.records : [];
    const meant = texts.filter((text) => /dmarc1/i.test(text));
    if (meant.length > 0) return { kind: 'records', at, texts: meant };
  }
  return null;
}

function dmarcFindings(at: string, texts: readonly string[], inherited: boolean): Advice[] {
  const finding = (message: string): Advice[] => [{ about: 'dmarc', message }];
  const [text = ''] = texts;
  if (texts.length > 1) {
    return finding(
      `there are ${texts.length} DMARC records at _dmarc.${at}, so receivers ignore them all: keep one`,
    );
  }
  if (!/^v\s*=\s*DMARC1\s*(;|$)/.test(text)) {
    return finding(
      `the DMARC record at _dmarc.${at} must start with "v=DMARC1;", without quotation marks: receivers ignore it`,
    );
  }
  const tags = new Map(
    text.split(';').map((tag): [string, string] => {
      const [key = '', value = ''] = tag.split('=');
      return [key.trim().toLowerCase(), value.trim().toLowerCase()];
    }),
  );
  const policy = (inherited ? tags.get('sp') : undefined) ?? tags.get('p') ?? '';
  if (!['none', 'quarantine', 'reject'].includes(policy)) {
    return finding(
      `the DMARC record at _dmarc.${at} has no valid policy: set p= to none, quarantine or reject`,
    );
  }
  if (policy !== 'none') return [];
  return finding(
    `the DMARC policy at _dmarc.${at} is "none", which only reports: change it to p=quarantine once the reports contain only your own mail`,
  );
}

/** Checks forward-confirmed reverse DNS: address → name → the same address. */
async function advisePtr({ hostname, sources, lookups }: AdviceContext): Promise<Advice[]> {
  const known = sources.filter(({ ip }) => isPublicAddress(ip));
  const used = known.length > 0 ? known : await sourcesAt(hostname, lookups);
  if (used === null) return [];
  if (used.length === 0) {
    const message = `${hostname}, the host name of this service, has no public address in DNS: bounces cannot be received, and SPF by that name fails`;
    return [{ about: 'ptr', message }];
  }
  const findings = await Promise.all(
    used.slice(0, MAX_SOURCES).map((source) => reverseFinding(source, lookups)),
  );
  return findings.flatMap((message) => (message === null ? [] : [{ about: 'ptr', message }]));
}

async function reverseFinding({ ip, heloName }: Source, lookups: Lookups): Promise<string | null> {
  const reverse = await lookups.ptr(ip);
  if (reverse.kind === 'error') return null;
  if (reverse.kind !== 'records') {
    return `the sending address ${ip} has no reverse DNS, and large receivers refuse such mail: have the provider of the address set its PTR to ${heloName}`;
  }
  const [name = ''] = reverse.records;
  const forward = await (isIPv6(ip) ? lookups.aaaa(name) : lookups.a(name));
  if (forward.kind === 'error') return null;
  if (forward.kind === 'records' && forward.records.includes(ip)) return null;
  return `the reverse DNS of ${ip} says ${name}, but ${name} does not resolve to ${ip}: add that address record, or have the PTR set to ${heloName}`;
}

/** Returns null when DNS did not answer. */
async function sourcesAt(heloName: string, lookups: Lookups): Promise<Source[] | null> {
  const answers = await Promise.all([lookups.a(heloName), lookups.aaaa(heloName)]);
  if (answers.some(({ kind }) => kind === 'error')) return null;
  const recordsOf = (answer: DnsResult<string>) =>
    answer.kind === 'records' ? answer.records : [];
  const ips = answers.flatMap(recordsOf).filter(isPublicAddress);
  return ips.map((ip) => ({ ip, heloName }));
}

/** RFC 7505 §4.2: receivers may refuse mail from a domain that accepts none. */
async function adviseReplies({ name, lookups }: AdviceContext): Promise<Advice[]> {
  const [mx, a, aaaa] = await Promise.all([lookups.mx(name), lookups.a(name), lookups.aaaa(name)]);
  if (mx.kind === 'records' && mx.records.every(({ exchange }) => exchange === '.')) {
    const message = `${name} accepts no mail (null MX), so replies are lost and some receivers refuse mail from it: give it a mail server`;
    return [{ about: 'replies', message }];
  }
  if ([mx, a, aaaa].some(({ kind }) => kind === 'records' || kind === 'error')) return [];
  const message = `${name} has neither an MX nor an address, so replies are lost and some receivers refuse mail from it: add an MX`;
  return [{ about: 'replies', message }];
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

/** RFC 8461 §3.1: several records, or a record without an id, count as no record. */
async function adviseMtaSts({ name, lookups }: AdviceContext): Promise<Advice[]> {
  const answer = await lookups.txt(`_mta-sts.${name}`);
  if (answer.kind !== 'records') return [];
  const meant = answer.records.filter((text) => /STSv1/i.test(text));
  const [text = ''] = meant;
  const valid = meant.length === 1 && /^v=STSv1\s*;\s*id=[A-Za-z0-9]{1,32}\s*(;|$)/.test(text);
  if (meant.length === 0 || valid) return [];
  const message = `the MTA-STS record at _mta-sts.${name} is not valid, so senders ignore your policy: keep exactly one, like "v=STSv1; id=20261121"`;
  return [{ about: 'mta_sts', message }];
}
