/**
 * Predicts the authentication result of a message at a receiver: DKIM (RFC 6376), SPF of the return path (RFC 7208)
 * and DMARC (RFC 9989). Dry runs and diagnoses use it, so unlike `verify.ts` it reads the resolver's cache, as
 * deliveries do. A record is `unknown` when DNS does not answer.
 */
import type {
  AuthenticationFinding,
  DkimFinding,
  DmarcFinding,
  SpfFinding,
} from '../../core/findings.ts';
import type { DkimAlgorithm } from '../../mail/dkim.ts';
import { findDmarcRecords } from './advice.ts';
import { type Lookups, organizationOf } from './judge-records.ts';
import type { CheckedRecord, ExpectedRecord, Places } from './records.ts';
import { checkRecord, checkTestDomain } from './verify.ts';

type Sender = {
  name: string;
  expected: readonly ExpectedRecord[];
  algorithms: readonly DkimAlgorithm[];
};

type Context = {
  lookups: Lookups;
  places: Places;
  /** Null when this service delivers directly. */
  relay: string | null;
};

export async function findAuthentication(
  sender: Sender,
  { lookups, places, relay }: Context,
): Promise<AuthenticationFinding> {
  const { name, expected } = sender;
  const [records, dmarc] = await Promise.all([
    Promise.all(
      expected
        .filter(({ record }) => record !== 'MX')
        .map((one) => checkRecord(one, { name, places, lookups })),
    ),
    findDmarcRecords(name, lookups),
  ]);
  const tags = dmarc?.kind === 'records' ? tagsOf(dmarc.texts) : null;
  const dkim = dkimOf(sender, records);
  const spf = { ...spfOf(records, relay), aligned: tags?.get('aspf') !== 's' };
  return { dkim, spf, dmarc: judgeDmarc({ dkim, spf, record: dmarc, tags, name }) };
}

/** Makes no DNS queries, like `verify.ts`. DMARC passes when DKIM or SPF passes. */
export function testAuthentication(sender: Sender): AuthenticationFinding {
  const { records } = checkTestDomain(sender.expected, sender.name);
  const [dkim, spf] = [dkimOf(sender, records), spfOf(records, null)];
  const isPassed = [...dkim, spf].some(({ verdict }) => verdict === 'pass');
  const result = isPassed
    ? ({ verdict: 'pass', problem: null } as const)
    : ({ verdict: 'fail', problem: NONE_PASSES } as const);
  return { dkim, spf, dmarc: { domain: null, policy: null, ...result } };
}

const NONE_PASSES =
  'no DKIM signature and no SPF result of an aligned domain passes; see their problems';

export function unknownAuthentication(sender: Sender, problem: string): AuthenticationFinding {
  const records = sender.expected.map((one): CheckedRecord => ({
    ...one,
    status: 'dns_error',
    found: [],
    problem,
  }));
  const dmarc = { domain: null, policy: null, verdict: 'unknown', problem } as const;
  return { dkim: dkimOf(sender, records), spf: spfOf(records, null), dmarc };
}

/** The signing domain equals the domain of From, so a signature is aligned under every policy. */
function dkimOf(
  { name, algorithms }: Sender,
  records: readonly CheckedRecord[],
): AuthenticationFinding['dkim'] {
  return records
    .filter(({ record }) => record === 'DKIM')
    .map((record): DkimFinding => ({
      domain: name,
      selector: record.name.slice(0, record.name.indexOf('._domainkey.')),
      algorithm: record.value.includes('k=ed25519') ? 'ed25519-sha256' : 'rsa-sha256',
      ...verdictOf(record),
      aligned: true,
    }))
    .filter(({ algorithm }) => algorithms.includes(algorithm));
}

function spfOf(records: readonly CheckedRecord[], relay: string | null): SpfFinding {
  const record = records.find((one) => one.record === 'SPF');
  if (record === undefined) throw new Error('a sending domain has an SPF record');
  const common = { domain: record.name, aligned: true };
  if (relay === null) return { ...common, ...verdictOf(record) };
  const problem = `mail leaves through the relay ${relay}, and whether the record at ${record.name} authorises its addresses is not known here`;
  return { ...common, verdict: 'unknown', problem };
}

function verdictOf({ status, problem }: CheckedRecord): Pick<SpfFinding, 'verdict' | 'problem'> {
  if (status === 'verified') return { verdict: 'pass', problem };
  return { verdict: status === 'dns_error' ? 'unknown' : 'fail', problem };
}

function judgeDmarc(found: {
  name: string;
  dkim: AuthenticationFinding['dkim'];
  spf: SpfFinding;
  record: Awaited<ReturnType<typeof findDmarcRecords>>;
  tags: ReadonlyMap<string, string> | null;
}): DmarcFinding {
  const { name, dkim, spf, record, tags } = found;
  if (record?.kind === 'error') {
    return { domain: null, policy: null, verdict: 'unknown', problem: record.message };
  }
  if (record === null) {
    const problem = `there is no DMARC record at _dmarc.${organizationOf(name)}`;
    return { domain: null, policy: null, verdict: 'none', problem };
  }
  const inherited = record.at === name ? undefined : tags?.get('sp');
  const policy = POLICIES.find((one) => one === (inherited ?? tags?.get('p')));
  if (policy === undefined) {
    const problem = `the DMARC record at _dmarc.${record.at} is not valid, so receivers ignore it`;
    return { domain: record.at, policy: null, verdict: 'none', problem };
  }
  const aligned = [...dkim, spf].filter((one) => one.aligned);
  const isPassed = aligned.some(({ verdict }) => verdict === 'pass');
  const mayPass = aligned.some(({ verdict }) => verdict === 'unknown');
  const problem = isPassed ? null : NONE_PASSES;
  const verdict = isPassed ? 'pass' : mayPass ? 'unknown' : 'fail';
  return { domain: record.at, policy, verdict, problem };
}

const POLICIES = ['none', 'quarantine', 'reject'] as const;

/** Several records count as none (RFC 9989 §4.7). */
function tagsOf(texts: readonly string[]): ReadonlyMap<string, string> {
  const [text = ''] = texts;
  if (texts.length !== 1 || !/^v\s*=\s*DMARC1\s*(;|$)/.test(text)) return new Map();
  return new Map(
    text.split(';').map((tag): [string, string] => {
      const [key = '', value = ''] = tag.split('=');
      return [key.trim().toLowerCase(), value.trim().toLowerCase()];
    }),
  );
}
