/**
 * Checks the records of a sending domain in DNS, without this service's cache. Guarantees: ends within
 * half a minute, never throws; a record is wrong only if DNS answered so; a record that is not verified
 * has a `problem` that says what to do. The test environment makes no queries. Steps per record: look
 * up, compare, and for a missing record find the reason (judge-records.ts). Then advice.ts. The result
 * determines the next state of the domain, which sends while it is verified or degraded:
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
import type { DnsAnswer, LookupOptions, MxRecord } from '../../net/dns/resolver.ts';
import type { DomainStatus, StoredDomain } from '../domain-store.ts';

export type DomainCheck = {
  /** In the order of `expected`. */
  records: CheckedRecord[];
  advice: Advice[];
  /** The input of nextDomainState. */
  required: RequiredRecords;
  published: PublishedKeys;
};

/** Whether receivers find the DKIM keys; null: DNS did not answer. */
export type PublishedKeys = { rsa: boolean | null; ed25519: boolean | null };

type CheckContext = {
  name: string;
  places: Places;
  /** Of this node: its EHLO names and source addresses. */
  hostname: string;
  sources?: readonly Source[];
  resolver: Lookups;
};

/** Options of each of the at most three consecutive look-ups. */
const FRESH: LookupOptions = { fresh: true, budgetMs: 10_000 };
/** Limits the records shown: other services may have many long TXT records at the name. */
const MAX_FOUND = 10;
const MAX_FOUND_CHARACTERS = 1_000;

/** @param expected from requiredRecords */
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
 * The result for the test environment, without DNS queries: every record is verified, except under
 * `.invalid`, where every record is missing, so that failures can be tested.
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

/** Whether the record of the next RSA key is there, so that the next keys can sign. */
export function isNextPublished({ records }: DomainCheck): boolean {
  return records.some(
    ({ key, value, status }) => key === 'next' && value.includes('k=rsa;') && status === 'verified',
  );
}

/** The same check after the next keys have taken the place of the present ones, which are the previous ones then. */
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
  answer: DnsAnswer<T>,
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

/** Texts from DNS are stored and printed, so NUL (PostgreSQL) and ESC (terminals) are replaced. */
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
  /** When it last became verified; null: never. */
  verifiedAt: Date | null;
  /** Since when a required record of a domain that was verified is missing; null: none is. */
  failingSince: Date | null;
};

/** `unknown`: DNS did not answer. */
type RequiredRecords = 'verified' | 'unverified' | 'unknown';

type DomainChange = DomainState & {
  event: 'domain.verified' | 'domain.degraded' | 'domain.recovered' | 'domain.failed' | null;
};

type Look = {
  now: Date;
  /** It began after the previous one was stored: of two at the same time only one counts. */
  isLater: boolean;
};

export function nextDomainState(
  previous: DomainState,
  required: RequiredRecords,
  { now, isLater }: Look,
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
  // Without an answer from DNS the 72 hours neither start nor end.
  if (!isSending || required === 'unknown') return { ...previous, event: null };
  const { failingSince } = previous;
  if (failingSince === null) return { ...previous, failingSince: now, event: null };
  if (now.getTime() - failingSince.getTime() >= FAILED_AFTER_MS) {
    return { ...previous, status: 'failed', event: 'domain.failed' };
  }
  if (status === 'degraded' || !isLater) return { ...previous, event: null };
  return { ...previous, status: 'degraded', event: 'domain.degraded' };
}

/** Which keys sign: those that a receiver finds. */
type SigningKeys = Pick<StoredDomain, 'rsaPublished' | 'ed25519Verified'>;

/**
 * A missing RSA record counts from the second check on, as for the status: most receivers verify RSA only. Without an
 * answer from DNS nothing changes.
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
