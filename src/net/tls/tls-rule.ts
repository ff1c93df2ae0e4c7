/**
 * The TLS rule for one mail server, from the sender's setting, the receiver's published policies and known
 * requirements of the provider:
 *
 *     DANE, usable records   ─>  TLS that matches the records; MTA-STS does not apply (RFC 8461 §2)
 *     DANE, look-up failed   ─>  this server is not used now (RFC 7672 §2.1.2)
 *     MTA-STS enforce        ─>  only servers of the policy, TLS with a valid certificate
 *     sender's `enforced`    ─>  TLS with a valid certificate
 *     DANE, no usable record ─>  TLS, any certificate (RFC 7672 §2.2)
 *     provider requires TLS  ─>  TLS, any certificate
 *     otherwise              ─>  TLS if possible, else plain text
 */
import { createHash } from 'node:crypto';
import { DANE_TA, type DaneExpectation, usableRecords } from './dane.ts';
import type { Resolver, TlsaRecord } from '../dns/resolver.ts';
import { policyNames, type StsPolicy, type StsResult } from './mta-sts.ts';
import type { MxHost } from '../dns/mx.ts';
import { requiresTls } from '../providers.ts';
import type { SmtpTlsMode } from '../smtp/client-session.ts';

/** The rule that applied, as the API shows it. `mta-sts-testing`: reported, not enforced. */
export type TlsPolicyName =
  | 'none'
  | 'provider'
  | 'enforced'
  | 'mta-sts-testing'
  | 'mta-sts'
  | 'dane';

/** Policy types of RFC 8460 §4.2, and the results of §4.3 that do not concern a session. */
type ReportedPolicy = 'tlsa' | 'sts' | 'no-policy-found';
export type PolicyResult = 'validation-failure' | 'tlsa-invalid' | 'dnssec-invalid' | StsResult;

export type TlsRule = {
  policy: TlsPolicyName;
  reportedAs: ReportedPolicy;
  /** A result to report independently of the session. */
  problem: PolicyResult | null;
} & (
  | { mode: Exclude<SmtpTlsMode, 'off' | 'dane'> }
  /** `key` identifies the accepted certificates. */
  | { mode: 'dane'; dane: DaneExpectation; key: string }
  /** This server must not be used; `why` is a sentence. */
  | { mode: 'barred'; why: string }
);

export type TlsRequirements = {
  senderDemand: 'opportunistic' | 'enforced';
  /** The current MTA-STS policy of the domain, or null when there is none. */
  stsPolicy: StsPolicy | null;
  dane: DaneFinding;
};

export type DaneFinding =
  | { kind: 'none' }
  | { kind: 'usable'; expected: DaneExpectation; key: string }
  | { kind: 'unusable' }
  /** The zone is signed, but the look-up or its validation failed. */
  | { kind: 'lookup_failed'; message: string };

export function tlsRuleFor(host: string, wishes: TlsRequirements): TlsRule {
  return daneRule(wishes) ?? policyRule(host, wishes);
}

function daneRule({ dane }: TlsRequirements): TlsRule | null {
  const common = { policy: 'dane', reportedAs: 'tlsa' } as const;
  if (dane.kind === 'usable') {
    const { expected, key } = dane;
    return { ...common, problem: null, mode: 'dane', dane: expected, key };
  }
  if (dane.kind !== 'lookup_failed') return null;
  const why = `Its TLSA records could not be obtained: ${dane.message}.`;
  return { ...common, problem: 'dnssec-invalid', mode: 'barred', why };
}

function policyRule(host: string, { senderDemand, stsPolicy, dane }: TlsRequirements): TlsRule {
  const reportedAs = stsPolicy === null ? 'no-policy-found' : 'sts';
  const isNamed = stsPolicy === null || policyNames(stsPolicy, host);
  if (stsPolicy?.mode === 'enforce') {
    const common = { policy: 'mta-sts', reportedAs } as const;
    if (isNamed) return { ...common, problem: null, mode: 'enforced' };
    const why = `The domain's MTA-STS policy does not name ${host} as its mail server.`;
    return { ...common, problem: 'validation-failure', mode: 'barred', why };
  }
  const problem = isNamed ? null : 'validation-failure';
  if (senderDemand === 'enforced')
    return { policy: 'enforced', reportedAs, problem, mode: 'enforced' };
  if (dane.kind === 'unusable') {
    return { policy: 'dane', reportedAs: 'tlsa', problem: 'tlsa-invalid', mode: 'required' };
  }
  const mode = requiresTls(host) ? 'required' : 'opportunistic';
  if (stsPolicy?.mode === 'testing')
    return { policy: 'mta-sts-testing', reportedAs, problem, mode };
  return { policy: mode === 'required' ? 'provider' : 'none', reportedAs, problem, mode };
}

/** Looks up the TLSA records of a server (RFC 7672 §2.2.3). DANE-TA certificates may also name `domain`. */
export async function findDane(
  { daneNames = [], daneAlias }: MxHost,
  options: { resolver: Pick<Resolver, 'tlsa'>; port: number; domain: string; nowMs: number },
): Promise<DaneFinding> {
  const { resolver, port, domain, nowMs } = options;
  for (const name of daneNames) {
    const lookup = await resolver.tlsa(`_${port}._tcp.${name}`);
    if (lookup.kind === 'error') return { kind: 'lookup_failed', message: lookup.message };
    if (lookup.kind !== 'records' || !lookup.authenticated) continue;
    const { records, key, provesNames } = prepareRecords(lookup.records);
    if (records.length === 0) return { kind: 'unusable' };
    const acceptedNames = daneAlias === undefined ? [name, domain] : [name, domain, daneAlias];
    const names = provesNames ? acceptedNames : [name];
    return { kind: 'usable', expected: { records, names, nowMs }, key: [key, ...names].join(' ') };
  }
  return { kind: 'none' };
}

type PreparedRecords = { records: TlsaRecord[]; key: string; provesNames: boolean };

/** Prepared records by the resolver's cached records, so that certificates are parsed once. */
const preparations = new WeakMap<readonly TlsaRecord[], PreparedRecords>();

function prepareRecords(lookup: readonly TlsaRecord[]): PreparedRecords {
  let preparation = preparations.get(lookup);
  if (preparation === undefined) {
    const records = usableRecords(lookup);
    const texts = records.map((record) => Object.values(record).join('.'));
    const key = createHash('sha256').update(texts.toSorted().join()).digest('base64');
    preparation = { records, key, provesNames: records.some(({ usage }) => usage === DANE_TA) };
    preparations.set(lookup, preparation);
  }
  return preparation;
}
