/**
 * Reports conditions of the installation for one process: to the log, and to the database, which stores their events
 * and webhooks (operator/condition-store.ts). core/operator-events.ts documents the calls.
 *
 * Guarantees: `raise` and `clear` return at once and never throw. Reports are stored one after the other. While the
 * database is unavailable, the last report of each condition is kept and retried, and its line is logged at once. A
 * state that is reported repeatedly is stored once a minute.
 */
import type { Logger } from 'pino';
import {
  CONDITION_REPORTED_EVERY_MS,
  CONDITIONS,
  type ConditionKey,
  type EndedCondition,
  type NewCondition,
  type OperatorEvents,
} from '../core/operator-events.ts';
import type { World } from '../lib/world.ts';
import {
  clearCondition,
  listLapsedConditions,
  listConditions,
  raiseCondition,
} from './condition-store.ts';
import { type Database, DatabaseUnavailable, type Queryable } from '../database/database.ts';

const RETRY_MS = 5_000;
const LOGGED_MAX = 100;
/** Limit on remembered conditions: a bug that invents subjects must not fill the memory. */
const REMEMBERED_MAX = 1_000;

type ConditionReport = { isLogged: boolean; ifLapsed?: true } & (
  | { kind: 'raised'; condition: NewCondition }
  | { kind: 'cleared'; condition: EndedCondition }
);

type Options = {
  db: Queryable;
  log: Pick<Logger, 'warn' | 'info' | 'error'>;
  world: Pick<World, 'monotonicMs'>;
};

export class OperatorEventLog implements OperatorEvents, AsyncDisposable {
  readonly #options: Options;
  /** Reports that are not stored yet, in order: the last one of each condition. */
  readonly #waiting = new Map<string, ConditionReport>();
  /** The last report of each condition that this process stored. */
  readonly #stored = new Map<string, { kind: ConditionReport['kind']; atMs: number }>();
  #writing: Promise<void> | null = null;
  #retry: NodeJS.Timeout | undefined;

  constructor(options: Options) {
    this.#options = options;
  }

  raise(condition: NewCondition): void {
    this.#report({ kind: 'raised', condition, isLogged: false });
  }

  clear(condition: EndedCondition): void {
    this.#report({ kind: 'cleared', condition, isLogged: false });
  }

  /**
   * Opens a condition in one transaction with `work`. Only the call that opens it runs `work`. For callers that retry
   * when this throws.
   */
  async raiseInTransaction(
    db: Pick<Database, 'transaction'>,
    condition: NewCondition,
    work: (tx: Queryable) => Promise<void>,
  ): Promise<void> {
    const isNew = await db.transaction(async (tx) => {
      const raised = await raiseCondition(tx, condition);
      if (raised.isNew) await work(tx);
      return raised.isNew;
    });
    if (isNew) this.#logOnce({ kind: 'raised', condition, isLogged: false });
  }

  /** Logs one line for each open condition at the start, because it was logged when it began. */
  async logOpenConditions(): Promise<void> {
    const { db, log } = this.#options;
    for (const { type, subject, details, remedy, message, since } of await listConditions(
      db,
      LOGGED_MAX,
    )) {
      log.warn({ ...details, event: type, subject, remedy, since }, message);
    }
  }

  /** Ends conditions that were not reported within their `lapsesAfterMs`. Maintenance calls it periodically. */
  async clearLapsed(): Promise<void> {
    for (const { type, subject } of await listLapsedConditions(this.#options.db)) {
      const endMessage =
        'It is no longer reported; the machine that reported it may have been removed.';
      const report = { kind: 'cleared', condition: { type, subject, endMessage } } as const;
      await this.#store({ ...report, isLogged: false, ifLapsed: true });
    }
  }

  /** Resolves when all reports are stored, or the database was found to be unavailable. */
  async flush(): Promise<void> {
    clearTimeout(this.#retry);
    this.#startWriting();
    await this.#writing;
  }

  /** Loses reports that cannot be stored now. The next start reports lasting states again. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.flush();
    clearTimeout(this.#retry);
  }

  #report(report: ConditionReport): void {
    const key = keyOf(report.condition);
    const waiting = this.#waiting.get(key);
    const isKnown = waiting === undefined && this.#isStored(key, report.kind);
    if (isKnown) return;
    if (waiting === undefined && this.#waiting.size >= REMEMBERED_MAX) return this.#logOnce(report);
    const isLogged = waiting?.kind === report.kind && waiting.isLogged;
    this.#waiting.set(key, { ...report, isLogged });
    this.#stored.delete(key);
    this.#startWriting();
  }

  #isStored(key: string, kind: ConditionReport['kind']): boolean {
    const stored = this.#stored.get(key);
    if (stored?.kind !== kind) return false;
    return this.#options.world.monotonicMs() - stored.atMs < CONDITION_REPORTED_EVERY_MS;
  }

  #startWriting(): void {
    this.#writing ??= this.#writeAll().finally(() => (this.#writing = null));
  }

  async #writeAll(): Promise<void> {
    clearTimeout(this.#retry);
    for (;;) {
      const [next] = this.#waiting;
      if (next === undefined) return;
      const [key, report] = next;
      this.#waiting.delete(key);
      try {
        await this.#store(report);
        if (this.#stored.size >= REMEMBERED_MAX) this.#stored.clear();
        const atMs = this.#options.world.monotonicMs();
        if (!this.#waiting.has(key)) this.#stored.set(key, { kind: report.kind, atMs });
      } catch (error) {
        if (!(error instanceof DatabaseUnavailable)) {
          this.#logOnce(report);
          this.#options.log.error(
            { err: error },
            'the database refused a condition, which is only in this log',
          );
          continue;
        }
        if (!this.#waiting.has(key)) this.#waiting.set(key, report);
        for (const waiting of this.#waiting.values()) this.#logOnce(waiting);
        this.#retry = setTimeout(() => this.#startWriting(), RETRY_MS).unref();
        return;
      }
    }
  }

  async #store(report: ConditionReport): Promise<void> {
    const { db } = this.#options;
    const isChange =
      report.kind === 'raised'
        ? (await raiseCondition(db, report.condition)).isNew
        : await clearCondition(db, report.condition, { ifLapsed: report.ifLapsed === true });
    if (isChange !== false && isChange !== null) this.#logOnce(report);
  }

  #logOnce(report: ConditionReport): void {
    if (report.isLogged) return;
    report.isLogged = true;
    const { log } = this.#options;
    const { type, subject, details } = report.condition;
    const logFields = { ...details, event: type, subject };
    if (report.kind === 'raised') {
      const { message, remedy } = report.condition;
      log.warn({ ...logFields, remedy }, message);
    } else {
      const { endsAs, ended } = CONDITIONS[type];
      log.info(
        { ...logFields, event: endsAs, state: 'cleared' },
        report.condition.endMessage ?? ended,
      );
    }
  }
}

function keyOf({ type, subject }: ConditionKey): string {
  return `${type} ${subject}`;
}
