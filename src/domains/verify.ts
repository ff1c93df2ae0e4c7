/**
 * Checks the records of a sending domain in DNS, without this service's cache. Guarantees: ends within
 * half a minute, never throws; a record is wrong only if DNS answered so; a record that is not verified
 * has a `problem` that says what to do. The test environment makes no queries. Steps per record: look
 * up, compare, and for a missing record find the reason (judge-records.ts). Then advice.ts. The result
 * determines the next state of the domain:
 *
 *     not_started ── checked ──> pending ── records found ──> verified ── missing 72 h ──> failed
 *                                   ^ until they are found       ^ found again ───────────┘
 */
import {
  explainAbsence,
  judgeDkim,
  type Judgement,
  judgeMx,
  judgeSpf,
  type Lookups,
  zonesOf,
} from './judge-records.ts';
import { type Advice, adviseOn, type Source } from './advice.ts';
import { type CheckedRecord, type ExpectedRecord, type Places, sufficientSpf } from './records.ts';
import type { DnsAnswer, LookupOptions, MxRecord } from '../net/dns/resolver.ts';

export type DomainCheck = {
  /** In the order of `expected`. */
  records: CheckedRecord[];
  advice: Advice[];
  /** The input of nextDomainState. */
  required: RequiredRecords;
  /** Whether receivers can verify Ed25519 signatures; otherwise none are made. */
  ed25519Verified: boolean;
};

type CheckContext = {
  /** The sending domain. */
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
    ed25519Verified: records.some(
      ({ record, value, status }) =>
        record === 'DKIM' && value.includes('k=ed25519') && status === 'verified',
    ),
  };
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
  return judged(expected, await lookups.txt(expected.name), {
    text: (text: string) => text,
    judge: (texts) =>
      expected.record === 'DKIM'
        ? judgeDkim(expected.value, texts)
        : judgeSpf(expected.value, texts, sufficientSpf(places)),
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
    return { ...expected, found, ...rules.judge(answer.records) };
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

type DomainStatus = 'not_started' | 'pending' | 'verified' | 'failed';

export type DomainState = {
  status: DomainStatus;
  /** When it last became verified; null: never. */
  verifiedAt: Date | null;
  /** Since when a required record of a verified domain is missing; null: none is. */
  failingSince: Date | null;
};

/** `unknown`: DNS did not answer. */
type RequiredRecords = 'verified' | 'unverified' | 'unknown';

type DomainChange = DomainState & { event: 'domain.verified' | 'domain.failed' | null };

const FAILED_AFTER_MS = 72 * 3_600_000;

export function nextDomainState(
  previous: DomainState,
  required: RequiredRecords,
  now: Date,
): DomainChange {
  if (required === 'verified') {
    if (previous.status === 'verified') return { ...previous, failingSince: null, event: null };
    return { status: 'verified', verifiedAt: now, failingSince: null, event: 'domain.verified' };
  }
  if (previous.status === 'not_started') return { ...previous, status: 'pending', event: null };
  // Without an answer from DNS the 72 hours neither start nor end.
  if (previous.status !== 'verified' || required === 'unknown') return { ...previous, event: null };
  const failingSince = previous.failingSince ?? now;
  if (now.getTime() - failingSince.getTime() < FAILED_AFTER_MS) {
    return { ...previous, failingSince, event: null };
  }
  return { ...previous, status: 'failed', failingSince, event: 'domain.failed' };
}
