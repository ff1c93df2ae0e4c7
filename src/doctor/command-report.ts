/** The output of `letterhaus doctor`, for people and for programs. */
import type { Cli } from '../cli/command.ts';
import { table } from '../cli/table.ts';
import {
  type EqualFindings,
  groupEqualFindings,
  sentenceOfNames,
} from '../core/findings/equal-findings.ts';
import { createReport, type ReportedFinding, summarize } from './reports/report.ts';
import type { CheckReport } from './run-checks.ts';

const DOCUMENT = 'docs/doctor.md';
/** Names of equal findings that the text lists; `--json` has all. */
const NAMES_SHOWN_MAX = 3;

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
  const list = table(cli, {
    columns: ['LEVEL', 'CHECK', { heading: 'FINDING', wraps: true }],
    rows: groupEqualFindings(findings).flatMap(rowsOf),
    none: '',
  });
  return `${list}\n\n${summary}\n${DOCUMENT} says more about each check.`;
}

/** Equal findings are those of several domains, or of several checks, for example of all that need the database. */
function rowsOf(equal: EqualFindings<ReportedFinding>): string[][] {
  const { level, check, found, meaning, remedy, command } = equal.first;
  const others = new Set(
    equal.findings.map((finding) => finding.check).filter((one) => one !== check),
  );
  const also = others.size === 0 ? null : `Other checks found the same: ${[...others].join(', ')}.`;
  const about = sentenceOfNames(equal, NAMES_SHOWN_MAX);
  const below = [about, also, meaning, remedy, command === null ? null : `$ ${command}`];
  const rows = below.flatMap((text) => (text === null ? [] : [['', '', text]]));
  return [[level, check, found], ...rows];
}
