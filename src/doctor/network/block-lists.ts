/**
 * Looks up the addresses and names of this installation in block lists (RFC 5782). Spamhaus answers 127.255.255.x to
 * resolvers that may not ask. The result is then `unknown`, never a listing. A list that does not contain its own test
 * entry is `unknown`, too, because it would report every address as clean.
 */
import { isIPv6 } from 'node:net';
import { reverseName } from '../../net/dns/resolver.ts';
import { isPublicAddress } from '../../net/ip-addresses.ts';
import type { CheckContext } from '../check-context.ts';
import { findDomains } from '../domains/live-domains.ts';
import { type Finding, green, type Level, red, unknown, yellow } from '../finding.ts';
import type { Check } from '../run-checks.ts';
import { findSources, withoutSources } from './sources.ts';

/** `what` completes "is on". */
type Listing = { level: Extract<Level, 'red' | 'yellow'>; what: string };

type List = {
  zone: string;
  /** The zone below a key of Spamhaus DQS, or null when the list has none. */
  zoneOfKey: string | null;
  title: string;
  hasIpv6: boolean;
  /** An entry that every list has, for tests of the list itself (RFC 5782 §5). */
  testEntry: string;
  /** Completes "ask for removal: ". */
  removal: string;
  /** By the address in the answer. */
  listings: Readonly<Record<string, Listing>>;
};

const SPAMHAUS_ZEN: List = {
  zone: 'zen.spamhaus.org',
  zoneOfKey: 'zen.dq.spamhaus.net',
  title: 'Spamhaus ZEN',
  hasIpv6: true,
  testEntry: '2.0.0.127',
  removal: 'https://check.spamhaus.org',
  listings: {
    '127.0.0.2': { level: 'red', what: 'Spamhaus SBL (sends spam)' },
    '127.0.0.3': { level: 'red', what: 'Spamhaus CSS (sends mail that looks like spam)' },
    '127.0.0.4': { level: 'red', what: 'Spamhaus XBL (an infected or hijacked machine)' },
    '127.0.0.9': { level: 'red', what: 'Spamhaus DROP (a hijacked network)' },
    '127.0.0.10': { level: 'red', what: 'Spamhaus PBL (a range of end users, says its owner)' },
    '127.0.0.11': { level: 'red', what: 'Spamhaus PBL (a range of end users)' },
  },
};

const SPAMCOP: List = {
  zone: 'bl.spamcop.net',
  zoneOfKey: null,
  title: 'SpamCop',
  hasIpv6: false,
  testEntry: '2.0.0.127',
  removal: 'https://www.spamcop.net/bl.shtml (it ends within a day after the last report)',
  listings: { '127.0.0.2': { level: 'yellow', what: 'SpamCop (users reported its mail)' } },
};

const SPAMHAUS_DBL: List = {
  zone: 'dbl.spamhaus.org',
  zoneOfKey: 'dbl.dq.spamhaus.net',
  title: 'Spamhaus DBL',
  hasIpv6: false,
  testEntry: 'dbltest.com',
  removal: 'https://check.spamhaus.org',
  listings: {
    '127.0.1.2': { level: 'red', what: 'Spamhaus DBL (low reputation)' },
    '127.0.1.4': { level: 'red', what: 'Spamhaus DBL (phishing)' },
    '127.0.1.5': { level: 'red', what: 'Spamhaus DBL (malware)' },
    '127.0.1.6': { level: 'red', what: 'Spamhaus DBL (controls a botnet)' },
    '127.0.1.102': { level: 'red', what: 'Spamhaus DBL (abused)' },
    '127.0.1.103': { level: 'red', what: 'Spamhaus DBL (an abused redirector)' },
    '127.0.1.104': { level: 'red', what: 'Spamhaus DBL (abused for phishing)' },
    '127.0.1.105': { level: 'red', what: 'Spamhaus DBL (abused for malware)' },
    '127.0.1.106': { level: 'red', what: 'Spamhaus DBL (abused for a botnet)' },
  },
};

/** Answers that are no listings, and their reasons. */
const REFUSALS: Readonly<Record<string, string>> = {
  '127.255.255.252': 'the name of the list is wrong',
  '127.255.255.254': 'it does not answer public or shared resolvers',
  '127.255.255.255': 'this resolver has asked too often',
};

const ADDRESSES_MAX = 4;
const NAMES_MAX = 12;

export const BLOCK_LISTS: Check = {
  id: 'block_lists',
  title: 'Block lists of addresses',
  async run(context) {
    const { allowPrivateNetworks } = context.config;
    const ips = (await findSources(context))
      .map(({ ip }) => ip)
      .filter((ip) => allowPrivateNetworks || isPublicAddress(ip));
    if (ips.length === 0) return [withoutSources(context)];
    const findings = [SPAMHAUS_ZEN, SPAMCOP].map((list) => {
      const entries = ips
        .filter((ip) => list.hasIpv6 || !isIPv6(ip))
        .slice(0, ADDRESSES_MAX)
        .map((ip) => ({ subject: ip, entry: entryOf(ip) }));
      return askList(context, list, entries);
    });
    return (await Promise.all(findings)).flat();
  },
};

export const BLOCK_LISTS_OF_NAMES: Check = {
  id: 'block_lists_of_names',
  title: 'Block lists of names',
  async run(context) {
    const { hostname, publicUrl, trackingUrl } = context.config;
    const hosts = [publicUrl, trackingUrl].flatMap((url) =>
      url === null ? [] : [new URL(url).hostname],
    );
    const domains = (await findDomains(context)).map(({ name }) => name);
    const names = [hostname, ...hosts, ...domains]
      .map((name) => name.toLowerCase())
      .filter((name) => /\.[a-z][a-z0-9-]*$/.test(name));
    const entries = [...new Set(names)].slice(0, NAMES_MAX);
    if (entries.length === 0) return [unknown('No name of this installation is known.')];
    return askList(
      context,
      SPAMHAUS_DBL,
      entries.map((name) => ({ subject: name, entry: name })),
    );
  },
};

type Entry = { subject: string; entry: string };

async function askList(
  context: CheckContext,
  list: List,
  entries: readonly Entry[],
): Promise<Finding[]> {
  if (entries.length === 0) return [];
  const unusable = await findRefusal(context, list);
  if (unusable !== null) return [unusable];
  return Promise.all(entries.map((entry) => askAbout(context, list, entry)));
}

/** `zone` is for queries. `shownZone` is for findings and commands, which must not contain the key. */
function zoneOf({ config: { spamhausKey } }: CheckContext, { zone, zoneOfKey }: List) {
  const isKeyed = spamhausKey !== null && zoneOfKey !== null;
  if (!isKeyed) return { isKeyed, zone, shownZone: zone };
  const shownZone = `$LETTERHAUS_SPAMHAUS_KEY.${zoneOfKey}`;
  return { isKeyed, zone: `${spamhausKey}.${zoneOfKey}`, shownZone };
}

const OWN_RESOLVER =
  'Run a resolver on this machine, such as unbound, and set LETTERHAUS_DNS_SERVERS=127.0.0.1.';

async function findRefusal(context: CheckContext, list: List): Promise<Finding | null> {
  const { isKeyed, zone, shownZone } = zoneOf(context, list);
  const test = await context.resolver.a(`${list.testEntry}.${zone}`);
  const codes = test.kind === 'records' ? test.records : [];
  const reason = refusalIn(codes);
  if (reason === null && codes.length > 0) return null;
  const absence = isKeyed ? 'it does not know the key' : 'it does not list its own test entry';
  const silence = test.kind === 'error' ? test.message.replaceAll(zone, shownZone) : absence;
  const orKey = list.zoneOfKey === null ? '' : ' Or set LETTERHAUS_SPAMHAUS_KEY.';
  return unknown(`${list.title} cannot be asked: ${reason ?? silence}.`, {
    subject: list.zone,
    remedy: isKeyed ? 'Compare LETTERHAUS_SPAMHAUS_KEY with your account.' : OWN_RESOLVER + orKey,
    command: `dig +short ${list.testEntry}.${shownZone}`,
  });
}

async function askAbout(
  context: CheckContext,
  list: List,
  { subject, entry }: Entry,
): Promise<Finding> {
  const { zone, shownZone } = zoneOf(context, list);
  const answer = await context.resolver.a(`${entry}.${zone}`);
  if (answer.kind === 'error') {
    const reason = answer.message.replaceAll(zone, shownZone);
    return unknown(`${list.title} did not answer: ${reason}.`, { subject });
  }
  const codes = answer.kind === 'records' ? answer.records : [];
  const listings = codes.flatMap((code) => list.listings[code] ?? []);
  const [first] = listings;
  if (first === undefined) {
    const reason = refusalIn(codes);
    if (reason !== null) return unknown(`${list.title} did not answer: ${reason}.`, { subject });
    return green(`${subject} is not on ${list.title}.`, subject);
  }
  const report = first.level === 'red' ? red : yellow;
  return report(`${subject} is on ${listings.map(({ what }) => what).join(' and ')}.`, {
    subject,
    meaning: 'Many receivers refuse all mail from it, or with links to it.',
    remedy: `Find out what it sent and stop that, then ask for removal: ${list.removal}.`,
    command: `dig +short ${entry}.${shownZone}`,
  });
}

function refusalIn(codes: readonly string[]): string | null {
  return codes.map((code) => REFUSALS[code]).find((reason) => reason !== undefined) ?? null;
}

/** Returns the address as lists name it: `9.113.0.203`, or 32 nibbles. */
function entryOf(ip: string): string {
  return reverseName(ip).replace(/\.(?:in-addr|ip6)\.arpa$/, '');
}
