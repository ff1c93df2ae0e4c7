/**
 * Predicts the authentication result of a message at a receiver: DKIM (RFC 6376), SPF of the return path (RFC 7208)
 * and DMARC (RFC 9989). Dry runs and diagnoses use it, so unlike verify.ts it reads the resolver's cache, as
 * deliveries do. A record is `unknown` when DNS does not respond.
 */
import type {
  AuthenticationFinding,
  DkimFinding,
  DmarcFinding,
  SpfFinding,
} from '../../core/dns/dns-findings.ts';
import type { DkimAlgorithm } from '../../mail/dkim.ts';
import { type DmarcRecords, findDmarcRecords, isDmarc, parseDmarcTags } from './dmarc-records.ts';
import type { CheckedRecord, ExpectedRecord, InstallationHosts } from './records.ts';
import { checkRecord, checkTestDomain } from './verify.ts';
import { type DnsLookups, organizationOf } from './zone-names.ts';

const NONE_PASSES =
  'no DKIM signature and no SPF result of an aligned domain passes; see their problems';

const POLICIES = ['none', 'quarantine', 'reject'] as const;

type Sender = {
  name: string;
  expected: readonly ExpectedRecord[];
  algorithms: readonly DkimAlgorithm[];
};

type Context = {
  lookups: DnsLookups;
  installation: InstallationHosts;
  /** Null when this service delivers directly. */
  relay: string | null;
};

export async function findAuthentication(
  sender: Sender,
  { lookups, installation, relay }: Context,
): Promise<AuthenticationFinding> {
  const { name, expected } = sender;
  const [records, dmarc] = await Promise.all([
    Promise.all(
      expected
        .filter(({ record }) => record !== 'MX')
        .map((record) => checkRecord(record, { name, installation, lookups })),
    ),
    findDmarcRecords(name, lookups),
  ]);
  const tags = dmarc?.kind === 'records' ? readTags(dmarc.texts) : null;
  const dkim = dkimFindings(sender, records);
  const spf = { ...spfFinding(records, relay), aligned: tags?.get('aspf') !== 's' };
  return { dkim, spf, dmarc: dmarcFinding({ dkim, spf, record: dmarc, tags, name }) };
}

/** Returns the findings of the test environment, without DNS queries. DMARC passes when DKIM or SPF passes. */
export function findTestAuthentication(sender: Sender): AuthenticationFinding {
  const { records } = checkTestDomain(sender.expected, sender.name);
  const [dkim, spf] = [dkimFindings(sender, records), spfFinding(records, null)];
  const isPassed = [...dkim, spf].some(({ verdict }) => verdict === 'pass');
  const result = isPassed
    ? ({ verdict: 'pass', problem: null } as const)
    : ({ verdict: 'fail', problem: NONE_PASSES } as const);
  return { dkim, spf, dmarc: { domain: null, policy: null, ...result } };
}

export function createUnknownAuthentication(
  sender: Sender,
  problem: string,
): AuthenticationFinding {
  const records = sender.expected.map((record): CheckedRecord => ({
    ...record,
    status: 'dns_error',
    found: [],
    problem,
  }));
  const dmarc = { domain: null, policy: null, verdict: 'unknown', problem } as const;
  return { dkim: dkimFindings(sender, records), spf: spfFinding(records, null), dmarc };
}

/** The signing domain equals the domain of From, so a signature is aligned under every policy. */
function dkimFindings(
  { name, algorithms }: Sender,
  records: readonly CheckedRecord[],
): AuthenticationFinding['dkim'] {
  return records
    .filter(({ record }) => record === 'DKIM')
    .map((record): DkimFinding => ({
      domain: name,
      selector: record.name.slice(0, record.name.indexOf('._domainkey.')),
      algorithm: record.value.includes('k=ed25519') ? 'ed25519-sha256' : 'rsa-sha256',
      ...recordVerdict(record),
      aligned: true,
    }))
    .filter(({ algorithm }) => algorithms.includes(algorithm));
}

function spfFinding(records: readonly CheckedRecord[], relay: string | null): SpfFinding {
  const record = records.find(({ record: purpose }) => purpose === 'SPF');
  if (record === undefined) throw new Error('a sending domain has an SPF record');
  const common = { domain: record.name, aligned: true };
  if (relay === null) return { ...common, ...recordVerdict(record) };
  const problem = `mail leaves through the relay ${relay}, and whether the record at ${record.name} authorises its addresses is not known here`;
  return { ...common, verdict: 'unknown', problem };
}

function recordVerdict({
  status,
  problem,
}: CheckedRecord): Pick<SpfFinding, 'verdict' | 'problem'> {
  if (status === 'verified') return { verdict: 'pass', problem };
  return { verdict: status === 'dns_error' ? 'unknown' : 'fail', problem };
}

function dmarcFinding(found: {
  name: string;
  dkim: AuthenticationFinding['dkim'];
  spf: SpfFinding;
  record: DmarcRecords | null;
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
  const subdomainPolicy = record.at === name ? undefined : tags?.get('sp');
  const policy = POLICIES.find((value) => value === (subdomainPolicy ?? tags?.get('p')));
  if (policy === undefined) {
    const problem = `the DMARC record at _dmarc.${record.at} is not valid, so receivers ignore it`;
    return { domain: record.at, policy: null, verdict: 'none', problem };
  }
  const aligned = [...dkim, spf].filter((finding) => finding.aligned);
  const isPassed = aligned.some(({ verdict }) => verdict === 'pass');
  const mayPass = aligned.some(({ verdict }) => verdict === 'unknown');
  const problem = isPassed ? null : NONE_PASSES;
  const verdict = isPassed ? 'pass' : mayPass ? 'unknown' : 'fail';
  return { domain: record.at, policy, verdict, problem };
}

/** Returns no tags of several records, which count as none (RFC 9989 §4.7). */
function readTags(texts: readonly string[]): ReadonlyMap<string, string> {
  const [text = ''] = texts;
  return texts.length === 1 && isDmarc(text) ? parseDmarcTags(text) : new Map();
}
