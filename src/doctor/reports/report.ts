/** The report of a run: its findings with the worst first, and the number of checks at each level. */
import { type Finding, type Level, LEVELS } from '../finding.ts';
import type { CheckReport } from '../run-checks.ts';

const DOCUMENT = 'docs/doctor.md';

export type ReportedFinding = Finding & { check: string; title: string; docs: string };

/** Number of checks by their worst finding. */
export type CheckCounts = Readonly<Record<Level, number>>;

export type DoctorReport = { checks: CheckCounts; findings: readonly ReportedFinding[] };

/** Findings of one level have the order of the checks. */
export function createReport(reports: readonly CheckReport[]): DoctorReport {
  const findings = reports
    .flatMap(({ id, title, findings: found }) => found.map((one) => reported(one, { id, title })))
    .toSorted((a, b) => LEVELS.indexOf(a.level) - LEVELS.indexOf(b.level));
  return { checks: countChecks(reports), findings };
}

function reported(finding: Finding, { id, title }: Pick<CheckReport, 'id' | 'title'>) {
  return { check: id, title, ...finding, docs: `${DOCUMENT}#${id}` };
}

function countChecks(reports: readonly CheckReport[]): CheckCounts {
  const countOf = (level: Level): number =>
    reports.filter((report) => report.level === level).length;
  return {
    red: countOf('red'),
    yellow: countOf('yellow'),
    unknown: countOf('unknown'),
    green: countOf('green'),
  };
}

/** One sentence for the log and for the end of the command's output. */
export function summarize({ red, yellow, unknown, green }: CheckCounts): string {
  const all = red + yellow + unknown + green;
  return `${red} red, ${yellow} yellow, ${unknown} unknown; ${green} of ${all} checks are green`;
}
