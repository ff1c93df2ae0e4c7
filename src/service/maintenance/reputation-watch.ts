/**
 * Checks every 30 seconds the senders whose mail has ended since the last check, and reports when
 * bounces or complaints are beyond the rule (core/guard.ts): an event `project.guard`, a warning in
 * lists, a metric. Several machines may check at once: the first to record it reports it.
 */
import type { Logger } from 'pino';
import {
  countOf,
  GUARD_KINDS,
  guardRule,
  type GuardKind,
  type GuardRule,
  judgeReputation,
  showPercent,
  ratePpm,
  thresholdOf,
} from '../../core/guard.ts';
import type { Database } from '../../store/postgres/database.ts';
import { recordEvent } from '../../store/events.ts';
import {
  endTrip,
  listGuards,
  pauseSender,
  readStandings,
  saveTrip,
  type Standing,
  type Trip,
} from '../../store/reputation.ts';

/** A worker's counts may be committed later than counts that were seen already. */
const LOOK_BACK_MS = 60_000;

export class ReputationWatch {
  readonly #db: Database;
  readonly #log: Pick<Logger, 'warn' | 'info'>;
  #since = new Date(0);

  constructor(db: Database, log: Pick<Logger, 'warn' | 'info'>) {
    this.#db = db;
    this.#log = log;
  }

  async run(): Promise<void> {
    const standings = await readStandings(this.#db, this.#since);
    const [first] = standings;
    if (first === undefined) return;
    const own = new Map((await listGuards(this.#db)).map((guard) => [guard.projectId, guard]));
    for (const standing of standings) {
      const rule = guardRule(own.get(standing.projectId));
      for (const kind of GUARD_KINDS) await this.#look(standing, kind, rule);
    }
    this.#since = new Date(first.now.getTime() - LOOK_BACK_MS);
  }

  async #look(standing: Standing, kind: GuardKind, rule: GuardRule): Promise<void> {
    const trip = standing.trips.find((one) => one.kind === kind);
    const tripped = trip ? { isPaused: trip.isPaused, belowForMs: trip.belowForMs } : null;
    const judgement = judgeReputation(kind, standing, { rule, tripped });
    if (tripped === null && judgement !== 'trips') return;
    const now = {
      ...standing,
      kind,
      count: countOf(kind, standing),
      thresholdPpm: thresholdOf(kind, rule),
      isPaused: rule.pauses,
    };
    if (judgement === 'recovers') return this.#recovered(now);
    const below = BELOW[judgement];
    await this.#db.transaction(async (tx) => {
      const saved = await saveTrip(tx, now, below);
      if (!saved.isNew) return;
      if (saved.isPaused) await pauseSender(tx, saved);
      const data = eventData(saved, 'tripped');
      await recordEvent(tx, { scope: standing, type: 'project.guard', data });
      this.#log.warn(data, 'a sender has too many bounces or complaints');
    });
  }

  async #recovered(now: Omit<Trip, 'since'>): Promise<void> {
    await this.#db.transaction(async (tx) => {
      const ended = await endTrip(tx, now);
      if (ended === null) return;
      const data = eventData({ ...now, since: ended.since, isPaused: false }, 'cleared');
      await recordEvent(tx, { scope: now, type: 'project.guard', data });
      this.#log.info(data, 'a sender has few bounces and complaints again');
    });
  }
}

const BELOW = { trips: 'not', stays: 'keep', gets_better: 'better', gets_worse: 'not' } as const;

/** `data` of the event, as webhooks get it. */
function eventData(trip: Trip, state: 'tripped' | 'cleared'): object {
  const { projectId, environment, domain, kind, count, ended, thresholdPpm, since, isPaused } =
    trip;
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
