/**
 * Conditions of the installation that an operator has to act on, with events at their beginning and end. How code
 * reports one:
 *
 *   operatorEvents.raise({
 *     type: 'provider.blocked', subject: 'gmail', message: 'gmail refuses all mail from 192.0.2.7.',
 *     remedy: 'Ask for delisting: https://…', details: { provider: 'gmail', reply: '550 5.7.1 …' },
 *   });
 *   operatorEvents.clear({ type: 'provider.blocked', subject: 'gmail' });
 *
 * Guarantees, over all processes and nodes: each type and subject has at most one open condition. The first `raise`
 * logs one line (`warn`, with the remedy) and stores one event; later ones only update the time of the last report.
 * `clear` logs the end (`info`) and stores an event. Call both on every check: they return at once, never throw, and
 * retry while the database is unavailable (operator/operator-event-log.ts).
 *
 * `raiseInTransaction` (operator/operator-event-log.ts) commits something else with the beginning, such as an event of
 * a project. operator/condition-store.ts contains the statements. A new type needs a line in CONDITIONS and an entry in
 * docs/monitoring.md.
 */

/** `endsAs`: the event type of the end. `ended`: the sentence of that event, unless the caller passes one. */
export const CONDITIONS = {
  'provider.blocked': { endsAs: 'provider.unblocked', ended: 'The provider accepts mail again.' },
  'domain.degraded': { endsAs: 'domain.recovered', ended: 'The records of the domain are back.' },
  'webhook.disabled': { endsAs: 'webhook.disabled', ended: 'The webhook is enabled again.' },
  'disk.low': { endsAs: 'disk.low', ended: 'The disk has enough free space again.' },
  'database.full': { endsAs: 'database.full', ended: 'The database is below its maximum again.' },
  'storage.low': {
    endsAs: 'storage.low',
    ended: 'The stored mail of the project is below its maximum again.',
  },
  'secret_key.unusable': {
    endsAs: 'secret_key.unusable',
    ended: 'The secret key decrypts the stored secrets again.',
  },
  'certificate.expiring': {
    endsAs: 'certificate.expiring',
    ended: 'The certificate has been renewed.',
  },
  'certificate.mismatch': {
    endsAs: 'certificate.mismatch',
    ended: 'The certificate matches its name and key again.',
  },
  'certificate.not_issued': {
    endsAs: 'certificate.not_issued',
    ended: 'The authority has issued the certificate.',
  },
  'clock.skewed': { endsAs: 'clock.skewed', ended: 'The clock of the machine is correct again.' },
  'reconciliation.difference': {
    endsAs: 'reconciliation.difference',
    ended: 'All mail of the project is accounted for again.',
  },
  'operator.unreachable': {
    endsAs: 'operator.unreachable',
    ended: 'Mail to the operator can be sent again.',
  },
  'dns.unavailable': { endsAs: 'dns.unavailable', ended: 'A DNS server answers again.' },
  'backup.failed': { endsAs: 'backup.failed', ended: 'The last backup succeeded.' },
  'backup.overdue': { endsAs: 'backup.overdue', ended: 'A new backup was made.' },
  'doctor.red': { endsAs: 'doctor.red', ended: 'The doctor no longer finds this.' },
  'doctor.yellow': { endsAs: 'doctor.yellow', ended: 'The doctor no longer finds this.' },
} as const satisfies Record<string, { endsAs: string; ended: string }>;

export type ConditionType = keyof typeof CONDITIONS;

export type OperatorEventType = ConditionType | (typeof CONDITIONS)[ConditionType]['endsAs'];

export const CONDITION_TYPES = Object.keys(CONDITIONS) as ConditionType[];

export const OPERATOR_EVENT_TYPES = [
  ...new Set(
    CONDITION_TYPES.flatMap((type): OperatorEventType[] => [type, CONDITIONS[type].endsAs]),
  ),
];

/**
 * The project of operator events. Operators' keys and webhooks belong to it. Lists of projects omit it; its row is
 * inserted with the first key or webhook. The id sorts after all others.
 */
export const OPERATOR_PROJECT_ID = 'ffffffff-ffff-7fff-bfff-ffffffffffff';

/** @property subject object of the condition; type and subject identify it */
export type ConditionKey = { type: ConditionType; subject: string };

export type NewCondition = ConditionKey & {
  /** One sentence about the problem. It is logged and mailed, so it must not contain recipient addresses. */
  message: string;
  /** One sentence about what to do. */
  remedy: string;
  /** Facts for programs, in snake_case. The log line contains them, too. */
  details?: Readonly<Record<string, unknown>>;
  /**
   * Milliseconds after the last report until the service ends the condition. A machine that reports a state repeatedly
   * may be gone. Use several report intervals, and more than CONDITION_REPORTED_EVERY_MS.
   */
  lapsesAfterMs?: number;
};

/** @property endMessage absent: the sentence of the type */
export type EndedCondition = ConditionKey & {
  endMessage?: string;
  details?: Readonly<Record<string, unknown>>;
};

/** Minimum milliseconds between two stored reports of one condition. */
export const CONDITION_REPORTED_EVERY_MS = 60_000;
/** The `lapsesAfterMs` of conditions that every check reports, so that conditions of a removed machine end. */
export const CONDITION_LAPSES_AFTER_MS = 10 * 60_000;

export type OperatorEvents = {
  raise(condition: NewCondition): void;
  clear(ended: EndedCondition): void;
};
