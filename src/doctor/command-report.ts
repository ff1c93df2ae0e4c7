/** The output of `letterhaus doctor`, for people and for programs. */
import type { Cli } from '../cli/command.ts';
import { table } from '../cli/table.ts';
import { createReport, type ReportedFinding, summarize } from './reports/report.ts';
import type { CheckReport } from './run-checks.ts';

const DOCUMENT = 'docs/doctor.md';

export function reportJson(reports: readonly CheckReport[]) {
  return { object: 'doctor_report', ...createReport(reports) };
}

/**
 * Lists the findings that are not green. Only a finding begins a row with its level; its other sentences follow below.
 */
export function reportText(
  cli: Pick<Cli, 'program' | 'widthColumns'>,
  reports: readonly CheckReport[],
): string {
  const report = createReport(reports);
  const findings = report.findings.filter(({ level }) => level !== 'green');
  const summary = `${summarize(report.checks)}.`;
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
  const { level, check, found, meaning, remedy, command } = findings[0]!;
  const others = new Set(findings.map((finding) => finding.check).filter((one) => one !== check));
  const also = others.size === 0 ? null : `Other checks found the same: ${[...others].join(', ')}.`;
  const below = [also, meaning, remedy, command === null ? null : `$ ${command}`];
  const rows = below.flatMap((text) => (text === null ? [] : [['', '', text]]));
  return [[level, check, found], ...rows];
}
