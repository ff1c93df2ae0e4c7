/**
 * Reports conditions of the installation for one process: to the log, and to the database, where their events and
 * webhooks begin (operator/condition-store.ts). core/operator-events.ts says how to call it.
 *
 * Guarantees: `raise` and `clear` return at once and never throw. Reports are written one after the other; while the
 * database is away the last report of each condition is kept and repeated, and its line is logged at once. A state
 * that is reported again and again is written once a minute.
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
  lapsedConditions,
  listConditions,
  raiseCondition,
} from './condition-store.ts';
import { type Database, DatabaseUnavailable, type Queryable } from '../database/database.ts';

const RETRY_MS = 5_000;
const LOGGED_MAX = 100;
/** A bug that makes up subjects must not fill the memory. */
const KEPT_MAX = 1_000;

type Report = { isLogged: boolean; ifLapsed?: true } & (
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
  /** Not yet written, in order; the last report of each condition. */
  readonly #waiting = new Map<string, Report>();
  /** What this process wrote last of each condition. */
  readonly #written = new Map<string, { kind: Report['kind']; atMs: number }>();
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
   * Opens a condition in one transaction with `work`, which the one call that opens it runs. For callers that look
   * again when this throws.
   */
  async raiseTogether(
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

  /** At the start: one line for each open condition, which was logged when it began. */
  async logOpen(): Promise<void> {
    const { db, log } = this.#options;
    for (const { type, subject, details, remedy, message, since } of await listConditions(
      db,
      LOGGED_MAX,
    )) {
      log.warn({ ...details, event: type, subject, remedy, since }, message);
    }
  }

  /** Ends conditions that were not reported for as long as they said. Periodically called by maintenance. */
  async clearLapsed(): Promise<void> {
    for (const { type, subject } of await lapsedConditions(this.#options.db)) {
      const endMessage =
        'It is not reported any more; the machine that reported it may have been removed.';
      const report = { kind: 'cleared', condition: { type, subject, endMessage } } as const;
      await this.#store({ ...report, isLogged: false, ifLapsed: true });
    }
  }

  /** Resolves when all reports are written, or the database was found to be away. */
  async flush(): Promise<void> {
    clearTimeout(this.#retry);
    this.#write();
    await this.#writing;
  }

  /** Reports that cannot be written now are lost; those of a state that lasts come from the next start. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.flush();
    clearTimeout(this.#retry);
  }

  #report(report: Report): void {
    const key = keyOf(report.condition);
    const waiting = this.#waiting.get(key);
    const isKnown = waiting === undefined && this.#isWritten(key, report.kind);
    if (isKnown) return;
    if (waiting === undefined && this.#waiting.size >= KEPT_MAX) return this.#logOnce(report);
    const isLogged = waiting?.kind === report.kind && waiting.isLogged;
    this.#waiting.set(key, { ...report, isLogged });
    this.#written.delete(key);
    this.#write();
  }

  #isWritten(key: string, kind: Report['kind']): boolean {
    const written = this.#written.get(key);
    if (written?.kind !== kind) return false;
    return this.#options.world.monotonicMs() - written.atMs < CONDITION_REPORTED_EVERY_MS;
  }

  #write(): void {
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
        if (this.#written.size >= KEPT_MAX) this.#written.clear();
        const atMs = this.#options.world.monotonicMs();
        if (!this.#waiting.has(key)) this.#written.set(key, { kind: report.kind, atMs });
      } catch (error) {
        if (!(error instanceof DatabaseUnavailable)) {
          this.#logOnce(report);
          this.#options.log.error({ err: error }, 'a condition could not be stored');
          continue;
        }
        if (!this.#waiting.has(key)) this.#waiting.set(key, report);
        for (const waiting of this.#waiting.values()) this.#logOnce(waiting);
        this.#retry = setTimeout(() => this.#write(), RETRY_MS).unref();
        return;
      }
    }
  }

  async #store(report: Report): Promise<void> {
    const { db } = this.#options;
    const isNews =
      report.kind === 'raised'
        ? (await raiseCondition(db, report.condition)).isNew
        : await clearCondition(db, report.condition, { ifLapsed: report.ifLapsed === true });
    if (isNews !== false && isNews !== null) this.#logOnce(report);
  }

  #logOnce(report: Report): void {
    if (report.isLogged) return;
    report.isLogged = true;
    const { log } = this.#options;
    const { type, subject, details } = report.condition;
    const facts = { ...details, event: type, subject };
    if (report.kind === 'raised') {
      const { message, remedy } = report.condition;
      log.warn({ ...facts, remedy }, message);
    } else {
      const { endsAs, ended } = CONDITIONS[type];
      log.info({ ...facts, event: endsAs, state: 'cleared' }, report.condition.endMessage ?? ended);
    }
  }
}

function keyOf({ type, subject }: ConditionKey): string {
  return `${type} ${subject}`;
}
