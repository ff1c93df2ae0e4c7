/**
 * Checks the records of a sending domain in DNS, without this service's cache.
 *
 * Guarantees: a check ends within 30 s and never throws. A record is wrong only if DNS says so. A record that
 * is not verified has a `problem` that says what to do. The test environment makes no queries.
 *
 * For each record, a check looks it up, compares it, and explains why it is missing (`judge-records.ts`). Then
 * `advice.ts` adds advice. The result determines the next status of the domain. A domain sends while it is
 * verified or degraded:
 *
 *     not_started ─ checked ─> pending ─ found ─> verified ─ missing at two checks ─> degraded ─ for 72 h ─> failed
 *                                                    ^ found again ──────────────────────┴──────────────────────┘
 */
import {
  explainAbsence,
  judgeDkim,
  type Judgement,
  judgeMx,
  judgeSpf,
  type Lookups,
  mechanismsOf,
  zonesOf,
} from './judge-records.ts';
import { type Advice, adviseOn, type Source } from './advice.ts';
import { type CheckedRecord, type ExpectedRecord, type Places, sufficientSpf } from './records.ts';
import { spfCoverage } from '../spf/coverage.ts';
import { FAILED_AFTER_MS } from '../limits.ts';
import type { DnsResult, LookupOptions, MxRecord } from '../../net/dns/resolver.ts';
import type { DomainStatus, StoredDomain } from '../domain-store.ts';

export type DomainCheck = {
  records: CheckedRecord[];
  advice: Advice[];
  required: RequiredRecords;
  published: PublishedKeys;
};

/** Whether receivers find the DKIM keys; null when DNS did not answer. */
export type PublishedKeys = { rsa: boolean | null; ed25519: boolean | null };

type CheckContext = {
  name: string;
  places: Places;
  /** EHLO name and source addresses of this node. */
  hostname: string;
  sources?: readonly Source[];
  resolver: Lookups;
};

/** A check makes at most three look-ups in a row, each with these options. */
const FRESH: LookupOptions = { fresh: true, budgetMs: 10_000 };
/** Limit on the records shown. Other services may have many long TXT records at the name. */
const MAX_FOUND = 10;
const MAX_FOUND_CHARACTERS = 1_000;

export async function checkDomain(
  expected: readonly ExpectedRecord[],
  context: CheckContext,
): Promise<DomainCheck> {
  const lookups = freshLookups(context.resolver);
  const [records, advice] = await Promise.all([
    Promise.all(expected.map((record) => checkRecord(record, { ...context, lookups }))),
    adviseOn({ ...context, sources: context.sources ?? [], lookups }),
  ]);
  return checkOf(records, advice);
}

/**
 * Returns the result for the test environment, without DNS queries. Every record is verified, except under
 * `.invalid`: there every record is missing, so that clients can test failures.
 */
export function checkTestDomain(expected: readonly ExpectedRecord[], name: string): DomainCheck {
  const missing = name === 'invalid' || name.endsWith('.invalid');
  const records = expected.map((record): CheckedRecord => {
    if (missing) {
      const problem = `there is no ${record.type} record at ${record.name}: names under .invalid never verify in the test environment`;
      return { ...record, status: 'missing', found: [], problem };
    }
    const found = record.type === 'MX' ? `${record.priority ?? 10} ${record.value}` : record.value;
    return { ...record, status: 'verified', found: [found], problem: null };
  });
  return checkOf(records, []);
}

function checkOf(records: CheckedRecord[], advice: Advice[]): DomainCheck {
  const required = records.filter((record) => record.required);
  const bad = required.filter(({ status }) => status !== 'verified');
  const known = bad.filter(({ status }) => status !== 'dns_error');
  return {
    records,
    advice,
    required: bad.length === 0 ? 'verified' : known.length === 0 ? 'unknown' : 'unverified',
    published: { rsa: isPublished(records, 'rsa'), ed25519: isPublished(records, 'ed25519') },
  };
}

function isPublished(records: readonly CheckedRecord[], type: keyof PublishedKeys): boolean | null {
  const key = records.find(
    ({ record, value, key: other }) =>
      record === 'DKIM' && other === undefined && value.includes(`k=${type};`),
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
export function withNextKeys({ records, advice }: DomainCheck): DomainCheck {
  const isDkim = ({ record }: CheckedRecord): boolean => record === 'DKIM';
  const next = records
    .filter(({ key }) => key === 'next')
    .map(({ key: _key, ...record }) => ({ ...record, required: record.value.includes('k=rsa;') }));
  const previous = records
    .filter((record) => isDkim(record) && record.key === undefined)
    .map((record) => ({ ...record, required: false, key: 'previous' as const }));
  const others = records.filter((record) => !isDkim(record));
  return checkOf([...next, ...others, ...previous], advice);
}

export async function checkRecord(
  expected: ExpectedRecord,
  {
    name: domainName,
    places,
    lookups,
  }: Pick<CheckContext, 'name' | 'places'> & { lookups: Lookups },
): Promise<CheckedRecord> {
  if (expected.type === 'MX') {
    const answer = await lookups.mx(expected.name);
    const names = [expected.value, ...places.hosts.map(({ name }) => name)];
    const ours = names.map((name) => name.toLowerCase());
    return judged(expected, answer, {
      text: ({ preference, exchange }: MxRecord) => `${preference} ${exchange}`,
      judge: (records) => judgeMx(ours, records, zonesOf(domainName)),
      absent: () => explainAbsence(expected, domainName, lookups),
    });
  }
  const answer = await lookups.txt(expected.name);
  const sufficient = expected.record === 'SPF' ? sufficientSpf(places) : [];
  const coverage =
    expected.record === 'SPF' && answer.kind === 'records'
      ? await spfCoverage([...mechanismsOf(expected.value), ...sufficient.flat()], {
          domain: expected.name,
          texts: answer.records,
          places,
          lookups,
        })
      : null;
  return judged(expected, answer, {
    text: (text: string) => text,
    judge: (texts) =>
      expected.record === 'DKIM'
        ? judgeDkim(expected.value, texts)
        : judgeSpf(expected.value, texts, sufficient, coverage),
    absent: () => explainAbsence(expected, domainName, lookups),
  });
}

async function judged<T>(
  expected: ExpectedRecord,
  answer: DnsResult<T>,
  rules: {
    text: (record: T) => string;
    judge: (records: readonly T[]) => Judgement;
    absent: () => Promise<string>;
  },
): Promise<CheckedRecord> {
  if (answer.kind === 'records') {
    const found = answer.records
      .slice(0, MAX_FOUND)
      .map((record) => printable(rules.text(record)).slice(0, MAX_FOUND_CHARACTERS));
    const { status, problem } = rules.judge(answer.records);
    return { ...expected, found, status, problem: problem && printable(problem) };
  }
  if (answer.kind === 'error') {
    const problem = `DNS gave no answer, so nothing is known about this record: ${answer.message}; try again in a few minutes`;
    return { ...expected, found: [], status: 'dns_error', problem };
  }
  return { ...expected, found: [], status: 'missing', problem: await rules.absent() };
}

/** PostgreSQL refuses NUL and terminals obey ESC, so control characters of DNS texts are replaced. */
function printable(text: string): string {
  return text.replaceAll(/\p{Cc}/gu, '\uFFFD');
}

function freshLookups(resolver: Lookups): Lookups {
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

/** `unknown` when DNS did not answer. */
type RequiredRecords = 'verified' | 'unverified' | 'unknown';

type DomainChange = DomainState & {
  event: 'domain.verified' | 'domain.degraded' | 'domain.recovered' | 'domain.failed' | null;
};

type CheckTime = {
  now: Date;
  /** This check began after the previous one was stored. Of two checks at the same time, only one counts. */
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
  // Without an answer from DNS, the 72 hours neither start nor end.
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
 * DNS does not answer.
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
