/**
 * Checks every 30 seconds the senders whose mail has ended since the last check. Raises an alert when bounces or
 * complaints exceed the rule (alert.ts): an event `project.reputation_alert`, a warning in lists, a metric. Several
 * machines may check at once, and the first to store the alert reports it.
 */
import type { Logger } from 'pino';
import {
  countOf,
  ALERT_KINDS,
  effectiveAlertRule,
  type AlertKind,
  type AlertRule,
  alertChange,
  showPercent,
  ratePpm,
  thresholdOf,
} from './alert.ts';
import type { Database } from '../database/database.ts';
import { recordEvent } from '../events/event-store.ts';
import {
  endAlert,
  listAlertRules,
  pauseSender,
  readSenderCounts,
  saveAlert,
  type SenderCounts,
  type Alert,
} from './reputation-store.ts';

/** A worker may commit counts later than counts that were already read. */
const LOOK_BACK_MS = 60_000;

const REMEDY =
  'Ask the sender where its addresses come from. `letterhaus queue hold --project` holds its mail now; with ' +
  '`letterhaus projects set-reputation-alert --pause` the next warning does so (docs/reputation.md).';

const BELOW = {
  raises: 'clear',
  stays: 'keep',
  gets_better: 'start',
  gets_worse: 'clear',
} as const;

export class ReputationWatch {
  readonly #db: Database;
  readonly #log: Pick<Logger, 'warn' | 'info'>;
  #since = new Date(0);

  constructor(db: Database, log: Pick<Logger, 'warn' | 'info'>) {
    this.#db = db;
    this.#log = log;
  }

  async run(): Promise<void> {
    const senders = await readSenderCounts(this.#db, this.#since);
    const [first] = senders;
    if (first === undefined) return;
    const rules = await listAlertRules(this.#db);
    const ruleOf = new Map(rules.map((rule) => [rule.projectId, rule]));
    for (const sender of senders) {
      const rule = effectiveAlertRule(ruleOf.get(sender.projectId));
      for (const kind of ALERT_KINDS) await this.#checkSender(sender, kind, rule);
    }
    this.#since = new Date(first.now.getTime() - LOOK_BACK_MS);
  }

  /** Raises, updates or ends the alert of one kind for a sender. */
  async #checkSender(sender: SenderCounts, kind: AlertKind, rule: AlertRule): Promise<void> {
    const alert = sender.alerts.find((active) => active.kind === kind);
    const active = alert ? { isPaused: alert.isPaused, belowForMs: alert.belowForMs } : null;
    const change = alertChange(kind, sender, { rule, active });
    if (active === null && change !== 'raises') return;
    const current = {
      ...sender,
      kind,
      count: countOf(kind, sender),
      thresholdPpm: thresholdOf(kind, rule),
      isPaused: rule.pauses,
    };
    if (change === 'recovers') return this.#endAlert(current);
    const below = BELOW[change];
    await this.#db.transaction(async (tx) => {
      const saved = await saveAlert(tx, current, below);
      if (!saved.isNew) return;
      if (saved.isPaused) await pauseSender(tx, saved);
      const data = eventData(saved, 'raised');
      await recordEvent(tx, { scope: sender, type: 'project.reputation_alert', data });
      this.#log.warn({ ...data, remedy: REMEDY }, 'a sender has too many bounces or complaints');
    });
  }

  /** Ends an alert and reports its end, unless another process has ended it. */
  async #endAlert(current: Omit<Alert, 'since'>): Promise<void> {
    await this.#db.transaction(async (tx) => {
      const endedAlert = await endAlert(tx, current);
      if (endedAlert === null) return;
      const data = eventData({ ...current, since: endedAlert.since, isPaused: false }, 'cleared');
      await recordEvent(tx, { scope: current, type: 'project.reputation_alert', data });
      this.#log.info(data, 'the bounces and complaints of a sender are below the threshold again');
    });
  }
}

function eventData(alert: Alert, state: 'raised' | 'cleared'): object {
  const { projectId, environment, domain, kind, count, ended, thresholdPpm, since, isPaused } =
    alert;
  return {
    project_id: projectId,
    environment,
    domain,
    kind,
    state,
    rate: showPercent(ratePpm(count, ended)),
    threshold: showPercent(thresholdPpm),
    count,
    ended,
    paused: isPaused,
    since: since.toISOString(),
  };
}
