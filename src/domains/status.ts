/**
 * The state of a sending domain, as a pure rule. A verified domain keeps sending through a bad day
 * of DNS: it fails only after its required records stayed away for 72 hours.
 *
 *     not_started ── checked ──> pending ── records found ──> verified ── away 72 h ──> failed
 *                                   ^ stays until they are       ^ found again ───────────┘
 */

export type DomainStatus = 'not_started' | 'pending' | 'verified' | 'failed';

export type DomainState = {
  status: DomainStatus;
  /** When it last became verified; null: never was. */
  verifiedAt: Date | null;
  /** Since when a required record of a verified domain is away; null: none is. */
  failingSince: Date | null;
};

/** `unknown`: DNS did not answer, so neither is shown. */
export type RequiredRecords = 'verified' | 'unverified' | 'unknown';

export type DomainChange = DomainState & { event: 'domain.verified' | 'domain.failed' | null };

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
  // A silent DNS says nothing about the records: the clock of 72 hours neither starts nor rings.
  if (previous.status !== 'verified' || required === 'unknown') return { ...previous, event: null };
  const failingSince = previous.failingSince ?? now;
  if (now.getTime() - failingSince.getTime() < FAILED_AFTER_MS) {
    return { ...previous, failingSince, event: null };
  }
  return { ...previous, status: 'failed', failingSince, event: 'domain.failed' };
}
