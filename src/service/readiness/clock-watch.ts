/**
 * Compares the clock of this machine with the clock of the database, at the start and every few seconds.
 *
 * Ids have the time of the machine's clock, which decides in which week an email is stored. Retention uses the
 * database's clock. Mail accepted by a machine that is months behind would be removed with the next old weeks. So a
 * difference of a minute is reported, and from an hour on no mail is accepted.
 */
import { hostname } from 'node:os';
import type { Logger } from 'pino';
import { CONDITION_LAPSES_AFTER_MS, type OperatorEvents } from '../../core/operator-events.ts';
import { CLOCK_SKEW } from '../../core/thresholds.ts';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../lib/units.ts';
import { leastSkewMs, type World } from '../../lib/world.ts';
import { readClockMs } from '../../delivery/queue/worker-store.ts';
import type { Queryable } from '../../database/database.ts';

/** A level ends below this share of its limit, so that a clock at the limit is not reported repeatedly. */
const ENDS_BELOW_SHARE = 0.8;

export type ClockState = {
  /** Least amount by which this machine is ahead; negative: behind. */
  skewMs: number;
  refusal: string | null;
};

type SkewLevel = 'right' | 'wrong' | 'refusing';

type ClockWatchOptions = {
  db: Queryable;
  world: Pick<World, 'now'>;
  log: Pick<Logger, 'warn'>;
  operatorEvents: OperatorEvents;
  onCheck: (state: ClockState) => void;
};

export class ClockWatch {
  readonly #options: ClockWatchOptions;
  #level: SkewLevel = 'right';

  constructor(options: ClockWatchOptions) {
    this.#options = options;
  }

  /** @throws when the database does not answer; the previous state remains */
  async check(): Promise<void> {
    const { db, world, onCheck } = this.#options;
    const begunMs = world.now();
    const databaseMs = await readClockMs(db);
    if (databaseMs === null) return;
    const skewMs = leastSkewMs({ begunMs, otherMs: databaseMs, endedMs: world.now() });
    this.#report(skewMs);
    const isRefusing = this.#level === 'refusing';
    onCheck({ skewMs, refusal: isRefusing ? `the ${describeSkew(skewMs)}` : null });
  }

  /** The condition logs its begin and end. This logs a change from one wrong level to the other. */
  #report(skewMs: number): void {
    const before = this.#level;
    this.#level = classifySkew(Math.abs(skewMs), before);
    const { log, operatorEvents } = this.#options;
    const host = hostname();
    const condition = { type: 'clock.skewed', subject: host } as const;
    if (this.#level === 'right') return operatorEvents.clear(condition);
    const details = { skew_s: Math.round(skewMs / 1_000) };
    const message = `The ${describeSkew(skewMs, `of ${host}`)}.`;
    const remedy = this.#remedy();
    const lapsesAfterMs = CONDITION_LAPSES_AFTER_MS;
    operatorEvents.raise({ ...condition, message, remedy, details, lapsesAfterMs });
    if (this.#level === before || before === 'right') return;
    log.warn({ event: condition.type, subject: host, remedy, ...details }, message);
  }

  #remedy(): string {
    const what = this.#level === 'refusing' ? 'No mail is accepted here until it is right. ' : '';
    return `${what}Have both clocks set by NTP (timedatectl, chronyc tracking; docs/scale.md, "Clocks").`;
  }
}

export function classifySkew(differenceMs: number, before: SkewLevel): SkewLevel {
  const refusedMs = CLOCK_SKEW.refusedMs * (before === 'refusing' ? ENDS_BELOW_SHARE : 1);
  const reportedMs = CLOCK_SKEW.soonMs * (before === 'right' ? 1 : ENDS_BELOW_SHARE);
  if (differenceMs >= refusedMs) return 'refusing';
  return differenceMs >= reportedMs ? 'wrong' : 'right';
}

function describeSkew(skewMs: number, clockOwner = 'of this machine'): string {
  const direction = skewMs > 0 ? 'ahead of' : 'behind';
  return `clock ${clockOwner} is ${describePeriod(Math.abs(skewMs))} ${direction} that of its database`;
}

const UNITS = [
  { name: 'days', ms: DAY_MS },
  { name: 'hours', ms: HOUR_MS },
  { name: 'minutes', ms: MINUTE_MS },
] as const;

/** Returns `200 days`, `90 minutes`: in the largest unit that gives two or more. */
function describePeriod(ms: number): string {
  const unit = UNITS.find((one) => ms >= 2 * one.ms) ?? { name: 'seconds', ms: 1_000 };
  return `${Math.round(ms / unit.ms)} ${unit.name}`;
}
