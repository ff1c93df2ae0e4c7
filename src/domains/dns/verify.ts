/**
 * Checks the records of a sending domain in DNS, without this service's cache.
 *
 * Guarantees: a check ends within 30 s and never throws. A record is wrong only if DNS says so. A record that
 * is not verified has a `problem` that says what to do. The test environment makes no queries.
 *
 * For each record, a check looks it up, compares it, and explains why it is missing (absent-records.ts). Then
 * advice.ts adds advice. The result determines the next status of the domain. A domain sends while it is
 * verified or degraded:
 *
 *     not_started ─ checked ─> pending ─ found ─> verified ─ missing at two checks ─> degraded ─ for 72 h ─> failed
 *                                                    ^ found again ──────────────────────┴──────────────────────┘
 */
import { explainAbsence } from './absent-records.ts';
import { compareDkim } from './compare-dkim.ts';
import { compareMx } from './compare-mx.ts';
import { compareSpf, mechanismsOf } from './compare-spf.ts';
import {
  problemText,
  type RecordComparison,
  type RecordProblem,
  TRY_AGAIN,
} from './record-comparison.ts';
import { type DnsLookups, zonesOf } from './zone-names.ts';
import { type Advice, adviseOn, type Source, toAdvice } from './advice.ts';
import { type DmarcRecords, findDmarcRecords } from './dmarc-records.ts';
import {
  type CheckedRecord,
  type ExpectedRecord,
  type InstallationHosts,
  sufficientSpf,
} from './records.ts';
import { findSpfCoverage } from '../spf/coverage.ts';
import { FAILED_AFTER_MS } from '../domain-limits.ts';
import type { DnsResult, LookupOptions, MxRecord } from '../../net/dns/resolver.ts';
import type { DomainStatus, StoredDomain } from '../domain-store.ts';

export type DomainCheck = {
  records: CheckedRecord[];
  /** Null: there is none. */
  dmarc: DmarcRecords | null;
  advice: Advice[];
  required: RequiredRecords;
  published: PublishedKeys;
};

/** True for a DKIM key that receivers find; null when DNS did not respond. */
export type PublishedKeys = { rsa: boolean | null; ed25519: boolean | null };

type CheckContext = {
  name: string;
  installation: InstallationHosts;
  /** EHLO name and source addresses of this node. */
  hostname: string;
  sources?: readonly Source[];
  resolver: DnsLookups;
};

type LookupContext = Pick<CheckContext, 'name' | 'installation'> & { lookups: DnsLookups };

/** @property problem its two parts apart, as the doctor shows them */
export type ComparedRecord = Omit<CheckedRecord, 'problem'> & Pick<RecordComparison, 'problem'>;

/** A check makes at most three look-ups in a row, each with these options. */
const FRESH: LookupOptions = { fresh: true, budgetMs: 10_000 };
/** Limit on the records shown. Other services may have many long TXT records at the name. */
const FOUND_MAX = 10;
const FOUND_CHARACTERS_MAX = 1_000;

export async function checkDomain(
  expected: readonly ExpectedRecord[],
  context: CheckContext,
): Promise<DomainCheck> {
  const lookups = freshLookups(context.resolver);
  const dmarc = findDmarcRecords(context.name, lookups);
  const [records, findings] = await Promise.all([
    Promise.all(expected.map((record) => checkRecord(record, { ...context, lookups }))),
    adviseOn({ ...context, sources: context.sources ?? [], lookups, dmarc }),
  ]);
  return { ...summarize(records, findings.map(toAdvice)), dmarc: shownDmarc(await dmarc) };
}

/** The same check with mistake and remedy apart, and without advice. */
export function compareRecords(
  expected: readonly ExpectedRecord[],
  context: Pick<CheckContext, 'name' | 'installation' | 'resolver'>,
): Promise<ComparedRecord[]> {
  const lookups = freshLookups(context.resolver);
  return Promise.all(expected.map((record) => compareRecord(record, { ...context, lookups })));
}

/**
 * Returns the result for the test environment, without DNS queries. Every record is verified, except under
 * `.invalid`: there every record is missing, so that clients can test failures.
 */
export function checkTestDomain(expected: readonly ExpectedRecord[], name: string): DomainCheck {
  const isMissing = name === 'invalid' || name.endsWith('.invalid');
  const records = expected.map((record): CheckedRecord => {
    if (isMissing) {
      const problem = `there is no ${record.type} record at ${record.name}: names under .invalid never verify in the test environment`;
      return { ...record, status: 'missing', found: [], problem };
    }
    const found = record.type === 'MX' ? `${record.priority ?? 10} ${record.value}` : record.value;
    return { ...record, status: 'verified', found: [found], problem: null };
  });
  return { ...summarize(records, []), dmarc: null };
}

/** Limits the records like those of the domain. */
function shownDmarc(dmarc: DmarcRecords | null): DmarcRecords | null {
  if (dmarc?.kind !== 'records') return dmarc;
  return { ...dmarc, texts: shownRecords(dmarc.texts) };
}

function shownRecords(texts: readonly string[]): string[] {
  return texts.slice(0, FOUND_MAX).map((text) => printable(text).slice(0, FOUND_CHARACTERS_MAX));
}

function summarize(records: CheckedRecord[], advice: Advice[]): Omit<DomainCheck, 'dmarc'> {
  const required = records.filter((record) => record.required);
  const unverified = required.filter(({ status }) => status !== 'verified');
  const wrong = unverified.filter(({ status }) => status !== 'dns_error');
  return {
    records,
    advice,
    required: unverified.length === 0 ? 'verified' : wrong.length === 0 ? 'unknown' : 'unverified',
    published: { rsa: isPublished(records, 'rsa'), ed25519: isPublished(records, 'ed25519') },
  };
}

function isPublished(records: readonly CheckedRecord[], type: keyof PublishedKeys): boolean | null {
  const key = records.find(
    ({ record, value, key: generation }) =>
      record === 'DKIM' && generation === undefined && value.includes(`k=${type};`),
  );
  if (key === undefined || key.status === 'dns_error') return null;
  return key.status === 'verified';
}

export function isNextPublished({ records }: DomainCheck): boolean {
  return records.some(
    ({ key, value, status }) => key === 'next' && value.includes('k=rsa;') && status === 'verified',
  );
}

/** Returns the same check after a switch: the next keys are current, and the current keys are the previous ones. */
export function switchToNextKeys({ records, advice, dmarc }: DomainCheck): DomainCheck {
  const isDkim = ({ record }: CheckedRecord): boolean => record === 'DKIM';
  const next = records
    .filter(({ key }) => key === 'next')
    .map(({ key: _key, ...record }) => ({ ...record, required: record.value.includes('k=rsa;') }));
  const previous = records
    .filter((record) => isDkim(record) && record.key === undefined)
    .map((record) => ({ ...record, required: false, key: 'previous' as const }));
  const others = records.filter((record) => !isDkim(record));
  return { ...summarize([...next, ...others, ...previous], advice), dmarc };
}

export async function checkRecord(
  expected: ExpectedRecord,
  context: LookupContext,
): Promise<CheckedRecord> {
  const compared = await compareRecord(expected, context);
  return { ...compared, problem: problemText(compared.problem) };
}

async function compareRecord(
  expected: ExpectedRecord,
  { name: domainName, installation, lookups }: LookupContext,
): Promise<ComparedRecord> {
  const explainMissing = () => explainAbsence(expected, domainName, lookups);
  if (expected.type === 'MX') {
    const response = await lookups.mx(expected.name);
    const names = [expected.value, ...installation.hosts.map(({ name }) => name)];
    const ownNames = names.map((name) => name.toLowerCase());
    return compareResponse(expected, response, {
      toText: ({ preference, exchange }: MxRecord) => `${preference} ${exchange}`,
      compare: (records) => compareMx(ownNames, records, zonesOf(domainName)),
      explainMissing,
    });
  }
  const response = await lookups.txt(expected.name);
  if (expected.record === 'DKIM') {
    return compareResponse(expected, response, {
      toText: (text: string) => text,
      compare: (texts) => compareDkim(expected.value, texts),
      explainMissing,
    });
  }
  const sufficient = sufficientSpf(installation);
  const coverage =
    response.kind === 'records'
      ? await findSpfCoverage([...mechanismsOf(expected.value), ...sufficient.flat()], {
          domain: expected.name,
          texts: response.records,
          installation,
          lookups,
        })
      : null;
  return compareResponse(expected, response, {
    toText: (text: string) => text,
    compare: (texts) => compareSpf(expected.value, texts, sufficient, coverage),
    explainMissing,
  });
}

type RecordRules<DnsRecord> = {
  toText: (record: DnsRecord) => string;
  compare: (records: readonly DnsRecord[]) => RecordComparison;
  explainMissing: () => Promise<RecordProblem>;
};

async function compareResponse<DnsRecord>(
  expected: ExpectedRecord,
  response: DnsResult<DnsRecord>,
  { toText, compare, explainMissing }: RecordRules<DnsRecord>,
): Promise<ComparedRecord> {
  if (response.kind === 'records') {
    const found = shownRecords(response.records.slice(0, FOUND_MAX).map(toText));
    const { status, problem } = compare(response.records);
    return { ...expected, found, status, problem: problem && printableProblem(problem) };
  }
  if (response.kind === 'error') {
    const mistake = `DNS gave no answer, so nothing is known about this record (${response.message})`;
    const problem = { mistake, remedy: TRY_AGAIN };
    return { ...expected, found: [], status: 'dns_error', problem };
  }
  return { ...expected, found: [], status: 'missing', problem: await explainMissing() };
}

function printableProblem({ mistake, remedy }: RecordProblem): RecordProblem {
  return { mistake: printable(mistake), remedy: printable(remedy) };
}

/** Replaces control characters of DNS texts, because PostgreSQL refuses NUL and terminals obey ESC. */
function printable(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, '\uFFFD');
}

function freshLookups(resolver: DnsLookups): DnsLookups {
  return {
    a: (name) => resolver.a(name, FRESH),
    aaaa: (name) => resolver.aaaa(name, FRESH),
    cname: (name) => resolver.cname(name, FRESH),
    mx: (name) => resolver.mx(name, FRESH),
    ptr: (ip) => resolver.ptr(ip, FRESH),
    txt: (name) => resolver.txt(name, FRESH),
  };
}

export type DomainState = {
  status: DomainStatus;
  verifiedAt: Date | null;
  /** When a check first missed a required record of a domain that was verified; null when none is missing. */
  failingSince: Date | null;
};

/** `unknown` when DNS did not respond. */
type RequiredRecords = 'verified' | 'unverified' | 'unknown';

type DomainChange = DomainState & {
  event: 'domain.verified' | 'domain.degraded' | 'domain.recovered' | 'domain.failed' | null;
};

type CheckTime = {
  now: Date;
  /** True when this check began after the previous one was stored. Of two checks at the same time, only one counts. */
  isLater: boolean;
};

export function nextDomainState(
  previous: DomainState,
  required: RequiredRecords,
  { now, isLater }: CheckTime,
): DomainChange {
  const { status } = previous;
  const isSending = status === 'verified' || status === 'degraded';
  if (required === 'verified') {
    if (!isSending) {
      return { status: 'verified', verifiedAt: now, failingSince: null, event: 'domain.verified' };
    }
    const event = status === 'degraded' ? 'domain.recovered' : null;
    return { ...previous, status: 'verified', failingSince: null, event };
  }
  if (status === 'not_started') return { ...previous, status: 'pending', event: null };
  // Without a response from DNS, the 72 hours neither start nor end.
  if (!isSending || required === 'unknown') return { ...previous, event: null };
  const { failingSince } = previous;
  if (failingSince === null) return { ...previous, failingSince: now, event: null };
  if (now.getTime() - failingSince.getTime() >= FAILED_AFTER_MS) {
    return { ...previous, status: 'failed', event: 'domain.failed' };
  }
  if (status === 'degraded' || !isLater) return { ...previous, event: null };
  return { ...previous, status: 'degraded', event: 'domain.degraded' };
}

type SigningKeys = Pick<StoredDomain, 'rsaPublished' | 'ed25519Verified'>;

/**
 * Most receivers verify only RSA, so the RSA key signs until a second check misses its record. Nothing changes when
 * DNS does not respond.
 */
export function nextSigningKeys(
  previous: SigningKeys,
  published: PublishedKeys,
  status: DomainStatus,
): SigningKeys {
  const isRsaGone = published.rsa === false && (status === 'degraded' || status === 'failed');
  return {
    rsaPublished: published.rsa === true || (previous.rsaPublished && !isRsaGone),
    ed25519Verified: published.ed25519 ?? previous.ed25519Verified,
  };
}
