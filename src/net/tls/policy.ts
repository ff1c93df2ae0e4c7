/**
 * How the way to one mail server has to be protected: what the sender demands, what the receiver
 * publishes and what its operator is known to require, combined into one rule.
 *
 *     DANE, usable records   ─>  TLS, proven by them; MTA-STS does not count (RFC 8461 §2)
 *     DANE, DNS unsure       ─>  not this server, now (RFC 7672 §2.1.2)
 *     MTA-STS enforce        ─>  only servers of the policy, TLS with a valid certificate
 *     the sender's `enforced`─>  TLS with a valid certificate
 *     DANE, none usable      ─>  TLS, any certificate (RFC 7672 §2.2)
 *     operator requires TLS  ─>  TLS, any certificate
 *     else                   ─>  TLS if it works out, else plain text
 */
import { createHash } from 'node:crypto';
import { DANE_TA, type DaneExpectation, usableRecords } from './dane.ts';
import type { Resolver, TlsaRecord } from '../dns/resolver.ts';
import { policyNames, type StsPolicy, type StsResult } from './mta-sts.ts';
import type { MxHost } from '../dns/mx.ts';
import { takesOnlyTls } from '../providers.ts';
import type { SmtpTlsMode } from '../smtp/types.ts';

/** Whose wish a server was held to, as the API shows it. `mta-sts-testing`: watched, not held. */
export type TlsPolicyName =
  | 'none'
  | 'provider'
  | 'enforced'
  | 'mta-sts-testing'
  | 'mta-sts'
  | 'dane';

/** Types of RFC 8460 §4.2 and the results of its §4.3 that no session has. */
type ReportedPolicy = 'tlsa' | 'sts' | 'no-policy-found';
export type PolicyResult = 'validation-failure' | 'tlsa-invalid' | 'dnssec-invalid' | StsResult;

export type TlsRule = {
  policy: TlsPolicyName;
  reportedAs: ReportedPolicy;
  /** What is to be reported whatever the session does. */
  problem: PolicyResult | null;
} & (
  | { mode: Exclude<SmtpTlsMode, 'off' | 'dane'> }
  /** `key` differs where the records accept different certificates. */
  | { mode: 'dane'; dane: DaneExpectation; key: string }
  /** Nothing may be sent to this server; `why` is a sentence. */
  | { mode: 'barred'; why: string }
);

export type TlsWishes = {
  demand: 'opportunistic' | 'enforced';
  /** The domain's policy of MTA-STS that holds now; null: none. */
  sts: StsPolicy | null;
  dane: DaneFinding;
};

/** What TLSA records say about a mail server. */
export type DaneFinding =
  | { kind: 'none' }
  | { kind: 'usable'; expected: DaneExpectation; key: string }
  | { kind: 'unusable' }
  /** A signed zone whose answer did not come or does not hold. */
  | { kind: 'unsure'; message: string };

export function tlsRuleFor(host: string, wishes: TlsWishes): TlsRule {
  return byDane(wishes) ?? byPolicy(host, wishes);
}

function byDane({ dane }: TlsWishes): TlsRule | null {
  const common = { policy: 'dane', reportedAs: 'tlsa' } as const;
  if (dane.kind === 'usable') {
    const { expected, key } = dane;
    return { ...common, problem: null, mode: 'dane', dane: expected, key };
  }
  if (dane.kind !== 'unsure') return null;
  const why = `Its TLSA records could not be had: ${dane.message}.`;
  return { ...common, problem: 'dnssec-invalid', mode: 'barred', why };
}

function byPolicy(host: string, { demand, sts, dane }: TlsWishes): TlsRule {
  const reportedAs = sts === null ? 'no-policy-found' : 'sts';
  const isNamed = sts === null || policyNames(sts, host);
  if (sts?.mode === 'enforce') {
    const common = { policy: 'mta-sts', reportedAs } as const;
    if (isNamed) return { ...common, problem: null, mode: 'enforced' };
    const why = `The domain's MTA-STS policy does not name ${host} as its mail server.`;
    return { ...common, problem: 'validation-failure', mode: 'barred', why };
  }
  const problem = isNamed ? null : 'validation-failure';
  if (demand === 'enforced') return { policy: 'enforced', reportedAs, problem, mode: 'enforced' };
  if (dane.kind === 'unusable') {
    return { policy: 'dane', reportedAs: 'tlsa', problem: 'tlsa-invalid', mode: 'required' };
  }
  const mode = takesOnlyTls(host) ? 'required' : 'opportunistic';
  if (sts?.mode === 'testing') return { policy: 'mta-sts-testing', reportedAs, problem, mode };
  return { policy: mode === 'required' ? 'provider' : 'none', reportedAs, problem, mode };
}

/**
 * Looks for TLSA records of a server (RFC 7672 §2.2.3).
 * @param options.domain the recipient's: a certificate under DANE-TA may carry that name as well
 */
export async function findDane(
  { daneNames = [], daneAlias }: MxHost,
  options: { resolver: Pick<Resolver, 'tlsa'>; port: number; domain: string; nowMs: number },
): Promise<DaneFinding> {
  const { resolver, port, domain, nowMs } = options;
  for (const name of daneNames) {
    const answer = await resolver.tlsa(`_${port}._tcp.${name}`);
    if (answer.kind === 'error') return { kind: 'unsure', message: answer.message };
    if (answer.kind !== 'records' || !answer.authenticated) continue;
    const { records, key, provesNames } = prepared(answer.records);
    if (records.length === 0) return { kind: 'unusable' };
    const all = daneAlias === undefined ? [name, domain] : [name, domain, daneAlias];
    const names = provesNames ? all : [name];
    return { kind: 'usable', expected: { records, names, nowMs }, key: [key, ...names].join(' ') };
  }
  return { kind: 'none' };
}

type Prepared = { records: TlsaRecord[]; key: string; provesNames: boolean };

/** By the answer that the resolver remembers: a hundred certificates in it are parsed once. */
const preparations = new WeakMap<readonly TlsaRecord[], Prepared>();

function prepared(answer: readonly TlsaRecord[]): Prepared {
  let preparation = preparations.get(answer);
  if (preparation === undefined) {
    const records = usableRecords(answer);
    const texts = records.map((record) => Object.values(record).join('.'));
    const key = createHash('sha256').update(texts.toSorted().join()).digest('base64');
    preparation = { records, key, provesNames: records.some(({ usage }) => usage === DANE_TA) };
    preparations.set(answer, preparation);
  }
  return preparation;
}
