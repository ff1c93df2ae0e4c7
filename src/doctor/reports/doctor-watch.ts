/**
 * Runs the doctor in a service that sends live mail: after its start, daily, and when an operator asks for it. Stores
 * the report, and notifies the operator of changes (report-conditions.ts).
 *
 * The start logs three lines: how many checks are green, the worst finding, and where to read more. A service that
 * restarts within 10 minutes logs them from the stored report, so that a crash loop does not connect
 * to large receivers and ask block lists again and again.
 */
import type { Logger } from 'pino';
import type { Queryable } from '../../database/database.ts';
import type { OperatorEvents } from '../../core/operator-events.ts';
import type { World } from '../../lib/world.ts';
import { DAY_MS } from '../../lib/units.ts';
import { listConditions } from '../../operator/condition-store.ts';
import { CONDITIONS_MAX, conditionsOf, endedConditions } from './report-conditions.ts';
import { createReport, type DoctorReport, summarize } from './report.ts';
import {
  claimRun,
  type ClaimedRun,
  findReport,
  registerNode,
  saveProgress,
  saveReport,
} from '../report-store.ts';
import type { CheckReport } from '../run-checks.ts';

const AFTER_START_MS = 10 * 60_000;
const PROGRESS_EVERY_MS = 1_000;
/** Also the reports of other nodes. */
const OPEN_CONDITIONS_MAX = 50 * CONDITIONS_MAX;

type WatchOptions = {
  db: Queryable;
  node: { instance: string; host: string };
  /** Runs after the start and daily; otherwise only when an operator asks. */
  isDaily: boolean;
  /** Runs all checks. Rejects when the service stops. @param onProgress gets the number of checks that have ended */
  examine: (onProgress: (ended: number) => void) => Promise<readonly CheckReport[]>;
  operatorEvents: OperatorEvents;
  log: Pick<Logger, 'info' | 'warn'>;
  world: Pick<World, 'monotonicMs'>;
};

export class DoctorWatch {
  readonly #options: WatchOptions;
  #hasStarted = false;

  constructor(options: WatchOptions) {
    this.#options = options;
  }

  /** Runs the doctor if it is due. Maintenance calls it every few seconds. */
  async run(): Promise<void> {
    const { db, node, isDaily } = this.#options;
    const isStart = !this.#hasStarted;
    if (isStart) await registerNode(db, node);
    const everyMs = isStart ? AFTER_START_MS : DAY_MS;
    const run = await claimRun(db, node.instance, isDaily ? everyMs : null);
    this.#hasStarted = true;
    const report = run === null ? null : await this.#examine(run);
    if (isStart && isDaily) await this.#logStart(report);
  }

  async #examine({ runId, isLive }: ClaimedRun): Promise<DoctorReport> {
    const { db, examine, world } = this.#options;
    let savedAtMs = world.monotonicMs();
    const onProgress = (ended: number): void => {
      if (world.monotonicMs() - savedAtMs < PROGRESS_EVERY_MS) return;
      savedAtMs = world.monotonicMs();
      saveProgress(db, runId, ended).catch(() => {}); // the next one, or the report, is stored
    };
    const report = createReport(await examine(onProgress));
    const isStored = await saveReport(db, runId, report);
    if (isStored && isLive) await this.#notify(report);
    return report;
  }

  async #notify(report: DoctorReport): Promise<void> {
    const { db, node, operatorEvents } = this.#options;
    const open = await listConditions(db, OPEN_CONDITIONS_MAX);
    for (const ended of endedConditions(report, open, node)) operatorEvents.clear(ended);
    for (const condition of conditionsOf(report, node)) operatorEvents.raise(condition);
  }

  /** @param fresh null: the node ran the doctor a moment ago, or sends no live mail yet */
  async #logStart(fresh: DoctorReport | null): Promise<void> {
    const report = fresh ?? (await this.#readStored());
    if (report === null) return;
    const { log } = this.#options;
    const { checks } = report;
    const level = checks.red > 0 ? 'warn' : 'info';
    log[level]({ ...checks }, `doctor: ${summarize(checks)}`);
    const worst = report.findings.find((one) => one.level === 'red' || one.level === 'yellow');
    if (worst === undefined) return;
    const { check, subject, found, meaning, remedy } = worst;
    log[level]({ check, subject, remedy }, `doctor: the worst is ${check}: ${found} ${meaning}`);
    log[level]('doctor: `letterhaus doctor` says for each finding what to do');
  }

  async #readStored(): Promise<DoctorReport | null> {
    const { db, node } = this.#options;
    const stored = await findReport(db, node.instance);
    if (stored === null || stored.ageS === null || stored.ageS * 1_000 > AFTER_START_MS)
      return null;
    const { red, yellow, unknown, green, findings } = stored;
    return { checks: { red, yellow, unknown, green }, findings };
  }
}
