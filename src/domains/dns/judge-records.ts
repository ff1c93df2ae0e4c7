/**
 * Compares the records of a sending domain with DNS: the DKIM key (RFC 6376 §3.6.1), and MX and SPF of the return
 * path (RFC 7208). For a missing record it searches the names where owners often create it by mistake. Records are
 * compared by meaning. Each typical mistake has its own message.
 */
import { BlockList, isIP } from 'node:net';
import { getDomain } from 'tldts';
import type { ExpectedRecord, RecordStatus } from './records.ts';
import { SPF_LOOKUPS_MAX } from '../spf/spf.ts';
import type { SpfCoverage } from '../spf/coverage.ts';
import { isSpf, parseSpf } from '../spf/record.ts';
import type { DnsResult, MxRecord, Resolver } from '../../net/dns/resolver.ts';

export type Judgement = {
  status: Exclude<RecordStatus, 'not_started'>;
  problem: string | null;
};

/** Tag → value, both trimmed. Values keep their inner white space. */
type Tags = ReadonlyMap<string, string>;

/** @param texts TXT records at the name, at least one, each with its strings joined */
export function judgeDkim(expected: string, texts: readonly string[]): Judgement {
  const found = texts.find(looksLikeDkimKey);
  if (found === undefined) return notAKey(expected, texts);
  // RFC 6376 §3.6.2.2: the result with several records is undefined.
  if (texts.length > 1) {
    return mismatch(
      `there are ${texts.length} TXT records at this name, and receivers may read the wrong one: delete all but the one shown`,
    );
  }
  return spoiltText(found) ?? wrongTags(parseTags(expected), parseTags(found));
}

function looksLikeDkimKey(text: string): boolean {
  return /(^|[;\s"'“])p\s*=/i.test(text) && !/DMARC1/i.test(text);
}

function notAKey(expected: string, texts: readonly string[]): Judgement {
  const key = parseTags(expected).get('p');
  if (texts.some((text) => withoutSpaces(text).includes(`${key}`))) {
    return mismatch('the record holds only the key: enter the whole value, from "v=DKIM1" on');
  }
  const [text = ''] = texts;
  return mismatch(
    `the TXT record at this name is not a DKIM key (it starts with "${text.slice(0, 40)}"): add the value shown`,
  );
}

/** Detects zone file syntax, which must not be entered in a DNS panel. */
function spoiltText(text: string): Judgement | null {
  if (/["'“”„‘’]/.test(text)) {
    return mismatch(
      'the value holds quotation marks: enter it without them, the DNS panel adds its own',
    );
  }
  if (text.includes('\\')) {
    return mismatch('the value holds backslashes: enter the semicolons without them');
  }
  return null;
}

function wrongTags(expected: Tags, found: Tags): Judgement {
  const version = found.get('v');
  const versionFirst = [...found.keys()][0] === 'v';
  if (version !== undefined && (version !== 'DKIM1' || !versionFirst)) {
    return mismatch('the value must start with "v=DKIM1": receivers ignore the key');
  }
  const keyType = found.get('k') ?? 'rsa';
  if (keyType !== (expected.get('k') ?? 'rsa')) {
    return mismatch(
      `the record says k=${keyType}, but this key is of type ${expected.get('k') ?? 'rsa'}: enter the value shown`,
    );
  }
  return wrongKey(expected.get('p') ?? '', found.get('p') ?? '') ?? restricted(found);
}

function wrongKey(expected: string, found: string): Judgement | null {
  const key = withoutSpaces(found);
  if (key === expected) return null;
  if (key === '') {
    return mismatch(
      'the key is empty (p=), which means that it was revoked: enter the value shown',
    );
  }
  if (expected.startsWith(key)) {
    return mismatch(
      `the key is cut off after ${key.length} of ${expected.length} characters: enter the whole value; if your DNS panel takes only 255 characters, as two strings`,
    );
  }
  if (/[^A-Za-z0-9+/=]/.test(key)) {
    return mismatch(
      'the key holds characters that do not belong there: copy the value shown once more',
    );
  }
  if (key.toLowerCase() === expected.toLowerCase()) {
    return mismatch(
      'upper and lower case of the key were changed: enter the value exactly as shown',
    );
  }
  return mismatch(
    'another key is published at this name, perhaps from an earlier set-up: replace it with the value shown',
  );
}

function restricted(found: Tags): Judgement {
  const allows = (tag: string, ...wanted: string[]) => {
    const values = found
      .get(tag)
      ?.split(':')
      .map((value) => value.trim());
    return values === undefined || wanted.some((value) => values.includes(value));
  };
  if (!allows('h', 'sha256')) {
    return mismatch('the record excludes sha256 signatures (h=): enter the value shown');
  }
  if (!allows('s', '*', 'email')) {
    return mismatch('the record excludes mail (s=): enter the value shown');
  }
  const spaced = /\s/.test(found.get('p') ?? '');
  return {
    status: 'verified',
    problem: spaced
      ? 'the key holds white space: that is allowed, but some receivers fail on it: enter it without'
      : null,
  };
}

function parseTags(text: string): Tags {
  const pairs = text.split(';').map((tag): [string, string] => {
    const [name = '', ...value] = tag.split('=');
    return [name.trim(), value.join('=').trim()];
  });
  return new Map(pairs.filter(([name]) => name !== ''));
}

function withoutSpaces(text: string): string {
  return text.replaceAll(/\s/g, '');
}

function mismatch(problem: string): Judgement {
  return { status: 'mismatch', problem };
}

const COSTS_LOOKUP = /^[+?~-]?(include:|exists:|redirect=|(a|mx|ptr)([:/]|$))/;

/**
 * @param names host names of this installation; the first is the value to publish
 * @param records at least one, sorted by preference
 * @param zones the domain and its parents; a DNS panel may append any of them
 */
export function judgeMx(
  names: readonly string[],
  records: readonly MxRecord[],
  zones: readonly string[],
): Judgement {
  const [host = ''] = names;
  const best = Math.min(...records.map(({ preference }) => preference));
  const others = records.filter(({ exchange }) => !names.includes(exchange));
  const inTheWay = others.find(({ preference }) => preference <= best);
  if (inTheWay === undefined) return { status: 'verified', problem: null };
  const { exchange } = inTheWay;
  if (exchange === '.') {
    return mismatch(
      `the MX declares that this name accepts no mail (null MX): replace it with ${host}`,
    );
  }
  if (zones.some((zone) => exchange === `${host}.${zone}`)) {
    return mismatch(
      `the MX points to ${exchange}: your DNS panel appended the zone name, so end the value with a dot: "${host}."`,
    );
  }
  if (isIP(exchange) !== 0) {
    return mismatch(`the MX holds an address (${exchange}), but must hold the name ${host}`);
  }
  if (records.length > others.length) {
    return mismatch(
      `the MX ${exchange} has the same or a better priority than ours, so bounces would not reach this service: remove it`,
    );
  }
  return mismatch(`the MX points to ${exchange} instead of ${host}: replace it`);
}

/**
 * @param texts TXT records at the name, at least one, each with its strings joined
 * @param sufficient sets of mechanisms; when one set is present, the rest of the expected record is optional
 * @param coverage hosts that receivers authorise when they follow the record; without it, only the record's own text
 * counts
 */
export function judgeSpf(
  expected: string,
  texts: readonly string[],
  sufficient: readonly (readonly string[])[] = [],
  coverage: SpfCoverage | null = null,
): Judgement {
  const records = texts.filter(isSpf);
  const [found] = records;
  if (found === undefined) return notSpf(texts);
  if (records.length > 1) {
    return mismatch(
      `there are ${records.length} SPF records, which receivers treat as an error: merge them into "${merged(expected, records)}" and delete the others`,
    );
  }
  const terms = termsOf(found);
  const holds = coverage?.passes ?? ((wanted: string): boolean => covers(terms, wanted));
  const missing = mechanismsOf(expected).filter((wanted) => !holds(wanted));
  const isOurs = sufficient.some((mechanisms) => mechanisms.every(holds));
  if (missing.length > 0 && !isOurs) {
    const better = 'problem' in parseSpf(found) ? null : merged(expected, records);
    const error = spfError(coverage?.error ?? null, better);
    if (error !== null) return error;
    return mismatch(
      `the SPF record does not name this service (${missing.join(' ')}): change it to "${merged(expected, records)}"`,
    );
  }
  const lookups = terms.filter((term) => COSTS_LOOKUP.test(term)).length;
  if (lookups > SPF_LOOKUPS_MAX) {
    return mismatch(
      `the SPF record needs ${lookups} DNS look-ups and receivers stop after ${SPF_LOOKUPS_MAX}: remove what you no longer use`,
    );
  }
  if (missing.length === 0) return { status: 'verified', problem: null };
  const problem = `the SPF record does not name all sending hosts (${missing.join(' ')}), whose mail fails SPF: change it to "${merged(expected, records)}"`;
  return { status: 'verified', problem };
}

function spfError(error: SpfCoverage['error'], better: string | null): Judgement | null {
  if (error === null) return null;
  const { result, why } = error;
  if (result === 'temperror') {
    const problem = `DNS gave no answer about a part of the SPF record, so nothing is known about it: ${why}; try again in a few minutes`;
    return { status: 'dns_error', problem };
  }
  const advice =
    better === null ? 'correct it' : `correct that, or change the record to "${better}"`;
  return mismatch(`receivers treat the SPF record as an error, because ${why}: ${advice}`);
}

function notSpf(texts: readonly string[]): Judgement {
  if (texts.some((text) => /^[\s"'“”]+v=spf1/i.test(text))) {
    return mismatch(
      'the SPF record starts with a quotation mark or a space: enter it without, from "v=spf1" on',
    );
  }
  return {
    status: 'missing',
    problem:
      'there are TXT records at this name, but none that starts with "v=spf1": add the value shown',
  };
}

function termsOf(record: string): string[] {
  return record.toLowerCase().split(/\s+/).slice(1).filter(Boolean);
}

export function mechanismsOf(record: string): string[] {
  return termsOf(record).filter((term) => !isAll(term));
}

function isAll(term: string): boolean {
  return /^[+?~-]?all$/.test(term);
}

/** `all` ends the evaluation, so later terms do not count. */
function covers(terms: readonly string[], wanted: string): boolean {
  const end = terms.findIndex(isAll);
  const evaluated = end === -1 ? terms : terms.slice(0, end);
  return evaluated.some((term) => {
    const passing = term.replace(/^\+/, '').replace(/\.$/, '');
    return passing === wanted || networkHolds(passing, wanted);
  });
}

/** `ip4:192.0.2.0/24` contains `ip4:192.0.2.7`. */
function networkHolds(term: string, wanted: string): boolean {
  const [, version, network = '', bits] = /^ip([46]):([^/]+)(?:\/(\d{1,3}))?$/.exec(term) ?? [];
  const family = isIP(network);
  if (version === undefined || family !== Number(version)) return false;
  const type = family === 4 ? 'ipv4' : 'ipv6';
  const longest = family === 4 ? 32 : 128;
  const length = Number(bits ?? longest);
  const address = wanted.replace(/^ip[46]:/, '');
  if (length > longest || isIP(address) !== family) return false;
  const list = new BlockList();
  list.addSubnet(network, length, type);
  return list.check(address, type);
}

/** Merges our record and the records found into one that passes what each of them passes. Our terms come first. */
function merged(expected: string, records: readonly string[]): string {
  const theirs = records.flatMap(termsOf);
  const modifiers = theirs.filter(isModifier);
  // `redirect=` is ignored if there is an `all` (RFC 7208 §6.1).
  const redirected = modifiers.some((term) => term.startsWith('redirect='));
  const end = theirs.find(isAll) ?? (redirected ? '' : '~all');
  const mechanisms = theirs.filter((term) => !isAll(term) && !isModifier(term));
  const terms = new Set([...mechanismsOf(expected), ...mechanisms, ...modifiers, end]);
  return ['v=spf1', ...terms].join(' ').trim();
}

function isModifier(term: string): boolean {
  return /^[a-z][a-z0-9_.-]*=/.test(term);
}

export type Lookups = Pick<Resolver, 'a' | 'aaaa' | 'cname' | 'mx' | 'ptr' | 'txt'>;

export function zonesOf(domainName: string): string[] {
  return [...new Set([domainName, organizationOf(domainName)])];
}

/** Returns `acme.co.uk` for `mail.acme.co.uk` (public suffix list). */
export function organizationOf(domainName: string): string {
  return getDomain(domainName) ?? domainName;
}

export async function explainAbsence(
  expected: ExpectedRecord,
  domainName: string,
  lookups: Lookups,
): Promise<string> {
  const organization = organizationOf(domainName);
  const [whole, misplaced, other] = await Promise.all([
    lookups.mx(organization),
    findMisplaced(expected, domainName, lookups),
    findOtherType(expected, lookups),
  ]);
  if (whole.kind === 'nxdomain') {
    return `the domain ${organization} does not exist in DNS: check its spelling, or register it and set its name servers`;
  }
  return misplaced ?? other ?? nothingThere(expected);
}

function nothingThere({ type, name }: ExpectedRecord): string {
  return `there is no ${type} record at ${name}: add it with the value shown; a new record can take an hour to be seen`;
}

/** Finds the record at a wrong name that DNS panels make from the right one. */
async function findMisplaced(
  expected: ExpectedRecord,
  domainName: string,
  lookups: Lookups,
): Promise<string | null> {
  const { name, type } = expected;
  const organization = organizationOf(domainName);
  const places = zonesOf(domainName).map((zone) => ({
    wrong: `${name}.${zone}`,
    advice: `your DNS panel appended the zone name, so enter only "${within(name, zone)}" as its name`,
  }));
  if (organization !== domainName) {
    places.push({
      wrong: `${within(name, domainName)}.${organization}`,
      advice: `the sub-domain is missing, so enter "${within(name, organization)}" as its name`,
    });
  }
  const there = await Promise.all(places.map(({ wrong }) => isThere(expected, wrong, lookups)));
  const place = places[there.indexOf(true)];
  if (place === undefined) return null;
  return `the ${type} record exists at ${place.wrong}: ${place.advice}`;
}

/** Compares the values, too, because a wildcard matches every name. */
async function isThere(expected: ExpectedRecord, name: string, lookups: Lookups): Promise<boolean> {
  if (expected.type === 'MX') {
    return has(await lookups.mx(name), ({ exchange }) =>
      exchange.startsWith(expected.value.toLowerCase()),
    );
  }
  return has(await lookups.txt(name), (text) =>
    expected.record === 'DKIM' ? looksLikeDkimKey(text) : /v=spf1/i.test(text),
  );
}

function has<T>(answer: DnsResult<T>, test: (record: T) => boolean): boolean {
  return answer.kind === 'records' && answer.records.some(test);
}

async function findOtherType(expected: ExpectedRecord, lookups: Lookups): Promise<string | null> {
  const { name, type, record } = expected;
  const [cname, a, mx] = await Promise.all([
    lookups.cname(name),
    lookups.a(name),
    lookups.mx(name),
  ]);
  if (cname.kind === 'records') {
    return `there is a CNAME at ${name} (to ${cname.records.join(', ')}), which has no ${type} record: replace it with the ${type} record shown`;
  }
  if (a.kind === 'records') return wrongType(expected, 'an A');
  // A return path has an MX beside its SPF. A DKIM name has none.
  if (mx.kind === 'records' && record === 'DKIM') return wrongType(expected, 'an MX');
  return null;
}

function wrongType({ name, type }: ExpectedRecord, found: string): string {
  return `there is ${found} record at ${name}, but no ${type} record: choose the type ${type} and enter the value shown`;
}

function within(name: string, zone: string): string {
  return name.endsWith(`.${zone}`) ? name.slice(0, -zone.length - 1) : name;
}
