/**
 * The kinds of differences that the daily reconciliation finds, and their meanings.
 *
 * For each project and day (UTC) of acceptance, the reconciliation counts the recipients of the stored emails by
 * status:
 *
 *     accepted = delivered + sent + bounced + failed + suppressed + canceled + complained + open
 *
 * `accepted` was counted by the statistics when the mail was accepted. The statistics count an outcome on the day on
 * which it happens, so outcomes are compared with the events of that day. Each email is also compared with its
 * recipients, its rows in the queue and its events. reconciliation-store.ts contains the statements.
 */
import { FINAL_STATUSES, type FinalStatus } from '../core/statuses.ts';
import { HOUR_MS } from '../lib/units.ts';

/** In order of severity, the most severe first. */
export const DIFFERENCE_KINDS = [
  'accepted_differs',
  'outcome_differs',
  'email_missing',
  'recipient_missing',
  'not_queued',
  'queued_after_end',
  'open_count_differs',
  'event_missing',
  'status_unexplained',
] as const;
export type DifferenceKind = (typeof DIFFERENCE_KINDS)[number];

type Meaning = {
  /** Completes "3 emails …". Differences of counters do not use it. */
  predicate: string;
  remedy: string;
};

const SHOW_EMAIL = 'Look at it with `letterhaus emails show ID`';
const ROWS_LOST =
  'Rows were lost or removed by hand: ask who changed the database, check its disk and its log, and compare with the newest backup (docs/reconciliation.md).';

export const DIFFERENCES: Readonly<Record<DifferenceKind, Meaning>> = {
  accepted_differs: { predicate: 'differ from what was counted at acceptance', remedy: ROWS_LOST },
  outcome_differs: { predicate: 'differ from what was counted', remedy: ROWS_LOST },
  email_missing: {
    predicate: 'left recipients, events or places in the queue without an email',
    remedy: ROWS_LOST,
  },
  recipient_missing: { predicate: 'lack a recipient', remedy: ROWS_LOST },
  not_queued: {
    predicate:
      'have a recipient that has not ended and has no place in the queue, so it is never sent',
    remedy: `${SHOW_EMAIL}, and send the email again if it is still wanted.`,
  },
  queued_after_end: {
    predicate: 'have a place in the queue for a recipient that has ended, so it may be sent twice',
    remedy:
      'Hold it at once with `letterhaus queue hold --email ID`, then see docs/reconciliation.md.',
  },
  open_count_differs: {
    predicate: 'count another number of open recipients than they have',
    remedy: `${SHOW_EMAIL}: its status may be wrong.`,
  },
  event_missing: {
    predicate: 'lack an event, so the timeline and the event stream are incomplete',
    remedy: `${SHOW_EMAIL}. ${ROWS_LOST}`,
  },
  status_unexplained: {
    predicate: 'have a recipient whose status is not that of its last event',
    remedy: `${SHOW_EMAIL}. ${ROWS_LOST}`,
  },
};

/** @property emails number of emails with the difference; 0 for counters */
export type Difference = {
  kind: DifferenceKind;
  emails: number;
  examples: readonly string[];
  /** For counters: its name, its count, and the stored number. */
  counter?: 'emails' | 'recipients' | CountedStatus;
  counted?: number;
  stored?: number;
};

/** Outcomes of recipients by the status that they cause. A recipient may be deferred several times. */
export const OUTCOMES = [
  'sent',
  'delivered',
  'deferred',
  'bounced',
  'failed',
  'suppressed',
  'canceled',
  'complained',
] as const;
export type CountedStatus = (typeof OUTCOMES)[number];
export type Outcomes = Readonly<Record<CountedStatus, number>>;

export const NO_OUTCOMES: Outcomes = {
  sent: 0,
  delivered: 0,
  deferred: 0,
  bounced: 0,
  failed: 0,
  suppressed: 0,
  canceled: 0,
  complained: 0,
};

export function addOutcomes(first: Outcomes, second: Outcomes): Outcomes {
  const sums = OUTCOMES.map((outcome) => [outcome, first[outcome] + second[outcome]] as const);
  return Object.fromEntries(sums) as Record<CountedStatus, number>;
}

/** @param isPartial the retention may have removed events of the day before they were counted */
export function compareOutcomes(
  { counted, stored }: { counted: Outcomes; stored: Outcomes },
  isPartial: boolean,
): Difference[] {
  return OUTCOMES.filter((outcome) =>
    isPartial ? counted[outcome] < stored[outcome] : counted[outcome] !== stored[outcome],
  ).map((outcome) => ({
    kind: 'outcome_differs',
    emails: 0,
    examples: [],
    counter: outcome,
    counted: counted[outcome],
    stored: stored[outcome],
  }));
}

export const EXAMPLES_MAX = 5;

export type Statuses = Readonly<Record<FinalStatus | 'open', number>>;
export const STATUS_COLUMNS = [...FINAL_STATUSES, 'open'] as const;

/** A day is compared with the counters this long after its end, when none of its transactions still runs. */
export const DAY_ENDS_AFTER_MS = HOUR_MS;

export function describeDifference(difference: Difference): string {
  const { kind, emails, examples, counter, counted, stored } = difference;
  if (kind === 'accepted_differs') {
    return `${counted} ${counter} were accepted, and ${stored} are stored.`;
  }
  if (kind === 'outcome_differs') {
    return `${counted} recipients were counted as ${counter}, and ${stored} have such an event.`;
  }
  const named = examples.length === 0 ? '' : `: ${examples.join(', ')}`;
  return `${emails} ${emails === 1 ? 'email' : 'emails'} ${inflect(DIFFERENCES[kind].predicate, emails)}${named}.`;
}

function inflect(predicate: string, emails: number): string {
  if (emails !== 1) return predicate;
  return predicate.replace(/^(have|lack|count)/, (verb) => (verb === 'have' ? 'has' : `${verb}s`));
}

/** Returns the size of a difference. An acknowledgement covers no larger one. */
export function sizeOfDifference({ emails, counted = 0, stored = 0 }: Difference): number {
  return Math.max(emails, Math.abs(counted - stored));
}

export function sortDifferences(differences: readonly Difference[]): Difference[] {
  const rank = ({ kind }: Difference): number => DIFFERENCE_KINDS.indexOf(kind);
  return differences.toSorted((a, b) => rank(a) - rank(b));
}
