/**
 * Decides from the stored reports which DMARC policy a domain may have next: none, then quarantine, then reject. Only
 * the owner changes the record, because only the owner knows which other services send for the domain.
 *
 * Anybody can write reports, so the result is only a proposal. It needs reports of two weeks that were written under
 * the policy of today. Failures of our own addresses stop it. Failures of other addresses may be forgeries, which a
 * strict policy stops, or a service that the owner has forgotten. The owner decides.
 */
import type { DmarcTotals } from './dmarc-store.ts';
import { DAY_MS } from '../../lib/units.ts';
import { isDmarc, parseDmarcTags } from '../dns/dmarc-records.ts';

/** The period whose reports count. */
export const DMARC_DAYS = 14;
/** Days of it with a report. A shop may send on working days only. */
const DAYS_WITH_REPORTS_MIN = 5;
const MESSAGES_MIN = 20;
const OWN_FAILED_MAX = 0.01;
const OTHERS_FAILED_MAX = 0.02;
const NEXT = { none: 'quarantine', quarantine: 'reject' } as const;
const SOURCES_NAMED_MAX = 3;

export const DMARC_STATES = [
  'unverified',
  'dns_error',
  'inherited',
  'no_record',
  'invalid_record',
  'no_reports',
  'collecting',
  'own_mail_fails',
  'others_fail',
  'ready',
  'strictest',
] as const;

export type DmarcProgress = {
  state: (typeof DMARC_STATES)[number];
  /** A sentence for the owner, with what to do. */
  message: string;
  /** The record with the next policy, or null when it is too early for it. */
  proposal: string | null;
};

/** A record as DNS has it, and the sum of its reports. */
export type DmarcEvidence = {
  /** The domain that publishes the record. */
  at: string;
  text: string;
  totals: DmarcTotals;
  /** The address of the service for reports. */
  reportAddress: string;
  /** Addresses that this service sends from. */
  ownIps: readonly string[];
};

/** Returns `none`, `quarantine`, `reject`, or null when the record has no valid policy. */
export function policyOf(text: string): 'none' | 'quarantine' | 'reject' | null {
  const policy = isDmarc(text) ? parseDmarcTags(text).get('p') : undefined;
  return policy === 'none' || policy === 'quarantine' || policy === 'reject' ? policy : null;
}

export function dmarcProgress(evidence: DmarcEvidence): DmarcProgress {
  const { at, text, totals } = evidence;
  const policy = policyOf(text);
  if (policy === null) {
    return withoutProposal(
      'invalid_record',
      `The DMARC record of ${at} has no valid policy. Write p=none, p=quarantine or p=reject.`,
    );
  }
  if (policy === 'reject') {
    const message = `The DMARC policy of ${at} is reject, the strictest one.`;
    return withoutProposal('strictest', `${message}${ownFailure(evidence)}`);
  }
  const head = `The DMARC policy of ${at} is ${policy}.`;
  if (totals.reports === 0) return withoutReports(head, evidence);
  const { own, others } = sums(evidence);
  const sent = own.passed + own.failed + others.passed + others.failed;
  const coveredMs = totals.now.getTime() - (totals.firstAt?.getTime() ?? 0);
  const coversPeriod = coveredMs >= (DMARC_DAYS - 1) * DAY_MS;
  if (!coversPeriod || totals.days < DAYS_WITH_REPORTS_MIN || sent < MESSAGES_MIN) {
    return withoutProposal(
      'collecting',
      `${head} Receivers have reported ${sent} messages on ${totals.days} days. A proposal needs ${MESSAGES_MIN} messages, and reports of two weeks on at least ${DAYS_WITH_REPORTS_MIN} days.`,
    );
  }
  if (isMoreThan(OWN_FAILED_MAX, own)) {
    const remedy = `Repair that before a stricter policy: letterhaus doctor ${at}.`;
    return withoutProposal('own_mail_fails', `${head}${ownFailure(evidence)} ${remedy}`);
  }
  const proposal = text.replace(/(;\s*p\s*=\s*)\w+/i, `$1${NEXT[policy]}`);
  if (isMoreThan(OTHERS_FAILED_MAX, { ...others, passed: sent - others.failed })) {
    const message = `${head} ${others.failed} of ${sent} messages failed, most from ${others.named.join(', ')}, which this service does not send from. If one of them sends for you, give it a DKIM key or a place in SPF first. If none does, change the record to "${proposal}".`;
    return { state: 'others_fail', message, proposal };
  }
  const message = `${head} Of ${sent} messages that ${organizations(totals)} reported in two weeks, ${sent - own.failed - others.failed} passed. Change the record to "${proposal}".`;
  return { state: 'ready', message, proposal };
}

function withoutReports(head: string, { text, reportAddress }: DmarcEvidence): DmarcProgress {
  const reported = parseDmarcTags(text).get('rua') ?? '';
  const message = reported.includes(`mailto:${reportAddress}`)
    ? `${head} No report has arrived at ${reportAddress} yet. Receivers send one a day for domains with mail.`
    : `${head} Add mailto:${reportAddress} to rua in the record, so that the service reads the reports and says when a stricter policy is safe.`;
  return withoutProposal('no_reports', message);
}

function withoutProposal(state: DmarcProgress['state'], message: string): DmarcProgress {
  return { state, message, proposal: null };
}

type Sum = { passed: number; failed: number };

function sums({ totals, ownIps }: DmarcEvidence): { own: Sum; others: Sum & { named: string[] } } {
  const own = { passed: 0, failed: 0 };
  const others = { passed: 0, failed: 0, named: [] as string[] };
  for (const { ip, passed, failed } of totals.sources) {
    const sum = ownIps.includes(ip) ? own : others;
    sum.passed += passed;
    sum.failed += failed;
    if (sum === others && failed > 0 && others.named.length < SOURCES_NAMED_MAX)
      others.named.push(ip);
  }
  return { own, others };
}

function isMoreThan(share: number, { passed, failed }: Sum): boolean {
  return failed > share * (passed + failed);
}

/** Returns '' when our own mail passes. */
function ownFailure(evidence: DmarcEvidence): string {
  const { own } = sums(evidence);
  if (!isMoreThan(OWN_FAILED_MAX, own)) return '';
  return ` Receivers reported that ${own.failed} of ${own.passed + own.failed} messages of this service failed.`;
}

function organizations({ organizations: count }: DmarcTotals): string {
  return count === 1 ? 'one receiver' : `${count} receivers`;
}
