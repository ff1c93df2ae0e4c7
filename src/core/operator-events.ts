/**
 * Conditions of the installation that an operator has to act on, and the events at their beginning and end.
 * How code reports one:
 *
 *   operatorEvents.raise({
 *     type: 'provider.blocked', subject: 'gmail', message: 'gmail refuses all mail from 192.0.2.7.',
 *     remedy: 'Ask for delisting: https://…', details: { provider: 'gmail', reply: '550 5.7.1 …' },
 *   });
 *   operatorEvents.clear({ type: 'provider.blocked', subject: 'gmail' });
 *
 * Guarantees, over all processes and nodes: one open condition for each type and subject. The call that opens it
 * writes one log line (`warn`, with the remedy) and one event; reporting it again only notes when. The call that
 * ends it writes the ending line (`info`) and event. Both may be called as often as the state is looked at: they
 * return at once, do not fail, and are repeated while the database is away (operator/events.ts).
 *
 * What has to commit with the beginning of a condition, such as an event of a project, goes through
 * `raiseTogether` (operator/events.ts); the statements are in operator/condition-store.ts. A new type needs a line in CONDITIONS, and its entry in docs/monitoring.md.
 */

/** The types, each with the type of its ending event, and the sentence of that event unless the caller has one. */
export const CONDITIONS = {
  'provider.blocked': { endsAs: 'provider.unblocked', ended: 'The provider takes mail again.' },
  'domain.degraded': { endsAs: 'domain.recovered', ended: 'The records of the domain are back.' },
  'webhook.disabled': { endsAs: 'webhook.disabled', ended: 'The webhook is enabled again.' },
  'disk.low': { endsAs: 'disk.low', ended: 'The disk has room again.' },
  'database.full': { endsAs: 'database.full', ended: 'The database is below its maximum again.' },
  'storage.low': { endsAs: 'storage.low', ended: 'The stored mail of the project has room again.' },
  'secret_key.unusable': {
    endsAs: 'secret_key.unusable',
    ended: 'The secret key opens what is stored again.',
  },
  'certificate.expiring': {
    endsAs: 'certificate.expiring',
    ended: 'The certificate is renewed.',
  },
  'certificate.mismatch': {
    endsAs: 'certificate.mismatch',
    ended: 'The certificate fits its name and its key again.',
  },
  'clock.skewed': { endsAs: 'clock.skewed', ended: 'The clock of the machine is right again.' },
  'reconciliation.difference': {
    endsAs: 'reconciliation.difference',
    ended: 'All mail of the project is accounted for again.',
  },
  'operator.unreachable': {
    endsAs: 'operator.unreachable',
    ended: 'Mail to the operator can be sent again.',
  },
  'dns.unavailable': { endsAs: 'dns.unavailable', ended: 'A DNS server answers again.' },
  'backup.failed': { endsAs: 'backup.failed', ended: 'A backup succeeded again.' },
  'backup.overdue': { endsAs: 'backup.overdue', ended: 'There is a new backup again.' },
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
 * The project that these events belong to: an operator's key is a key of it, an operator's webhook is an endpoint of
 * it. Lists of projects leave it out; its row is made with its first key or webhook. The id sorts after all others.
 */
export const OPERATOR_PROJECT_ID = 'ffffffff-ffff-7fff-bfff-ffffffffffff';

/** @property subject what it concerns: with the type, the identity of the condition */
export type ConditionKey = { type: ConditionType; subject: string };

export type NewCondition = ConditionKey & {
  /** One sentence that says what is wrong. No addresses of recipients: it is logged and mailed. */
  message: string;
  /** One sentence that says what to do. */
  remedy: string;
  /** Facts for programs, in snake_case; they also stand in the log line. */
  details?: Readonly<Record<string, unknown>>;
  /**
   * For states that are reported for as long as they last: how long after the last report the condition ends by
   * itself, because the machine that reported it may be gone. Use several times the interval of the reports, and
   * more than CONDITION_REPORTED_EVERY_MS.
   */
  lapsesAfterMs?: number;
};

/** @property endMessage by default the sentence of the type */
export type EndedCondition = ConditionKey & {
  endMessage?: string;
  details?: Readonly<Record<string, unknown>>;
};

/** Repeated reports of the same state are stored at most this often. */
export const CONDITION_REPORTED_EVERY_MS = 60_000;

export type OperatorEvents = {
  raise(condition: NewCondition): void;
  clear(ended: EndedCondition): void;
};
