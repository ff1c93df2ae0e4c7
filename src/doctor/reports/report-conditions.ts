/**
 * Decides which conditions a run opens and ends. A red or yellow finding that is new opens a condition, and one that is
 * gone ends it. A finding that turns from yellow to red ends one condition and opens the other.
 *
 * A check without a result changes nothing: it neither opens nor ends a condition.
 */
import type { ConditionKey, ConditionType, NewCondition } from '../../core/operator-events.ts';
import { DAY_MS } from '../../lib/units.ts';
import type { DoctorReport, ReportedFinding } from './report.ts';

const TYPES = { red: 'doctor.red', yellow: 'doctor.yellow' } as const satisfies Record<
  string,
  ConditionType
>;
/** The service reports what these checks find by their own conditions. */
const REPORTED_BY_THE_SERVICE = new Set(['conditions', 'certificates']);
/** Limit on the conditions of a node: an installation may have hundreds of domains. */
export const CONDITIONS_MAX = 100;
/** A node that is gone does not end its conditions, so they end after three daily runs without a report. */
const LAPSES_AFTER_MS = 3 * DAY_MS;

type OpenCondition = ConditionKey & { details: Readonly<Record<string, unknown>> };

/** @property instance of the node: it ends only its own conditions */
type Node = { instance: string; host: string };

/** Returns the conditions of a report, the worst first, at most CONDITIONS_MAX. */
export function conditionsOf(report: DoctorReport, node: Node): NewCondition[] {
  const conditions = new Map<string, NewCondition>();
  for (const finding of report.findings) {
    const condition = conditionOf(finding, node);
    // The worst finding about an object comes first.
    if (condition === null || conditions.has(condition.subject)) continue;
    conditions.set(condition.subject, condition);
    if (conditions.size === CONDITIONS_MAX) break;
  }
  return [...conditions.values()];
}

/** Returns the open conditions that the report has no finding for. */
export function endedConditions(
  report: DoctorReport,
  open: readonly OpenCondition[],
  node: Node,
): ConditionKey[] {
  const types = new Map(conditionsOf(report, node).map(({ type, subject }) => [subject, type]));
  const unknown = report.findings.filter(({ level }) => level === 'unknown');
  const isUnknown = (check: unknown): boolean => unknown.some((finding) => finding.check === check);
  return open
    .filter(({ type, subject, details }) => {
      const isOwn = type.startsWith('doctor.') && details['instance'] === node.instance;
      if (!isOwn || types.get(subject) === type) return false;
      return types.has(subject) || !isUnknown(details['check']);
    })
    .map(({ type, subject }) => ({ type, subject }));
}

function conditionOf(finding: ReportedFinding, { instance, host }: Node): NewCondition | null {
  const { level, check, found, meaning, remedy, command } = finding;
  if (level !== 'red' && level !== 'yellow') return null;
  if (REPORTED_BY_THE_SERVICE.has(check)) return null;
  return {
    type: TYPES[level],
    subject: `${check} (${placeOf(finding, host)})`,
    message: found,
    remedy: remedy ?? `Read ${finding.docs}.`,
    details: { instance, host, check, meaning, command },
    lapsesAfterMs: LAPSES_AFTER_MS,
  };
}

/** All nodes find the same about a domain, so they share its conditions. */
function placeOf({ check, subject }: ReportedFinding, host: string): string {
  if (subject === null || subject === host) return host;
  return /^(domain|bulk)_/.test(check) ? subject : `${subject} on ${host}`;
}
