/** The report of the doctor, for people and for programs. */
import type { Cli } from '../cli/command.ts';
import { table } from '../cli/table.ts';
import { type Finding, LEVELS } from './finding.ts';
import type { CheckReport } from './run-checks.ts';

const DOCUMENT = 'docs/doctor.md';

type ReportedFinding = Finding & { id: string; title: string };

/** Returns all findings, the worst first. Findings of one level have the order of the checks. */
function sortedFindings(reports: readonly CheckReport[]): ReportedFinding[] {
  return reports
    .flatMap(({ id, title, findings }) => findings.map((finding) => ({ id, title, ...finding })))
    .toSorted((a, b) => LEVELS.indexOf(a.level) - LEVELS.indexOf(b.level));
}

/** Counts checks by their worst finding. */
function countChecks(reports: readonly CheckReport[]) {
  const countOf = (level: CheckReport['level']): number =>
    reports.filter((report) => report.level === level).length;
  return {
    red: countOf('red'),
    yellow: countOf('yellow'),
    unknown: countOf('unknown'),
    green: countOf('green'),
  };
}

export function reportJson(reports: readonly CheckReport[]) {
  return {
    object: 'doctor_report',
    checks: countChecks(reports),
    findings: sortedFindings(reports).map(({ id, title, ...finding }) => ({
      check: id,
      title,
      ...finding,
      docs: `${DOCUMENT}#${id}`,
    })),
  };
}

/** Lists what is not green. Only a finding begins a row with its level; its other sentences follow below. */
export function reportText(
  cli: Pick<Cli, 'program' | 'widthColumns'>,
  reports: readonly CheckReport[],
): string {
  const findings = sortedFindings(reports).filter(({ level }) => level !== 'green');
  const { red, yellow, unknown, green } = countChecks(reports);
  const summary = `${red} red, ${yellow} yellow, ${unknown} unknown; ${green} of ${reports.length} checks are green.`;
  if (findings.length === 0) return summary;
  const shared = Map.groupBy(findings, ({ level, found, meaning, remedy, command }) =>
    JSON.stringify([level, found, meaning, remedy, command]),
  );
  const list = table(cli, {
    columns: ['LEVEL', 'CHECK', { heading: 'FINDING', wraps: true }],
    rows: [...shared.values()].flatMap(rowsOf),
    none: '',
  });
  return `${list}\n\n${summary}\n${DOCUMENT} says more about each check.`;
}

/** @param findings the same of several checks, for example of all that need the database; not empty */
function rowsOf(findings: readonly ReportedFinding[]): string[][] {
  const { level, id, found, meaning, remedy, command } = findings[0]!;
  const others = new Set(findings.map((finding) => finding.id).filter((one) => one !== id));
  const also = others.size === 0 ? null : `Other checks found the same: ${[...others].join(', ')}.`;
  const below = [also, meaning, remedy, command === null ? null : `$ ${command}`];
  const rows = below.flatMap((text) => (text === null ? [] : [['', '', text]]));
  return [[level, id, found], ...rows];
}
