/**
 * Runs checks, a few at a time, each with a timeout. A check that throws or does not end is reported as `unknown` with
 * the reason, and never ends the run.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { CheckContext } from './check-context.ts';
import { type Finding, type Level, unknown, worstOf } from './finding.ts';

export type Check = {
  /** Stable, for --only and programs, and a heading of docs/doctor.md. */
  id: string;
  title: string;
  /** Returns at least one finding. A check that returns none is reported as `unknown`. */
  run(context: CheckContext): Promise<readonly Finding[]> | readonly Finding[];
};

/** @property level the worst level of the findings */
export type CheckReport = { id: string; title: string; level: Level; findings: readonly Finding[] };

type RunOptions = {
  timeoutMs?: number;
  parallel?: number;
  /** Called when a check begins, and with its report when it has ended. */
  onBegin?: (id: string) => void;
  onEnd?: (report: CheckReport) => void;
};

/** Longer than the look-ups of a domain, which end within 30 s. */
const TIMEOUT_MS = 45_000;
const PARALLEL = 8;

/** Returns a report for each check, in their order. Never throws. */
export async function runChecks(
  checks: readonly Check[],
  context: CheckContext,
  options: RunOptions = {},
): Promise<CheckReport[]> {
  const { timeoutMs = TIMEOUT_MS, parallel = PARALLEL, onBegin, onEnd } = options;
  const reports = new Map<Check, CheckReport>();
  const waiting = [...checks];
  const runInTurn = async (): Promise<void> => {
    for (let check = waiting.shift(); check !== undefined; check = waiting.shift()) {
      onBegin?.(check.id);
      const findings = await findingsOf(check, context, timeoutMs);
      const { id, title } = check;
      const report = { id, title, level: worstOf(findings.map(({ level }) => level)), findings };
      reports.set(check, report);
      onEnd?.(report);
    }
  };
  await Promise.all(Array.from({ length: parallel }, runInTurn));
  return checks.map((check) => reports.get(check)!);
}

async function findingsOf(
  check: Check,
  context: CheckContext,
  timeoutMs: number,
): Promise<readonly Finding[]> {
  const ended = new AbortController();
  const late = pause(timeoutMs, null, { signal: ended.signal }).catch(() => null);
  try {
    const running = Promise.resolve().then(() => check.run(context));
    // Its failure after the timeout has no reader.
    running.catch(() => {});
    const findings = await Promise.race([running, late]);
    if (findings === null) {
      return [unknown(`The check did not end within ${timeoutMs / 1_000} s.`)];
    }
    return findings.length > 0 ? findings : [unknown('The check found nothing to judge.')];
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return [unknown(`The check failed: ${reason.replace(/\.$/, '')}.`)];
  } finally {
    ended.abort();
  }
}
