/** The output of `npm test`: a line per tool and per test file, failures in full, a summary. */
import type { FileResult, StepResult } from './run.ts';
import type { Step } from './steps.ts';

export function describeSteps(steps: readonly Step[]): string {
  return steps
    .map((step) => {
      const what = step.kind === 'tool' ? step.command.join(' ') : `${step.files.length} files`;
      return `${step.name.padEnd(10)} ${step.about} (${what})\n`;
    })
    .join('');
}

/** @param verbose with everything it printed, also when it passed */
export function reportTool(result: StepResult, verbose: boolean): void {
  const output = result.failure !== null || verbose ? result.output : '';
  process.stdout.write(`${output}${lineOf(result)}`);
}

/** @param left files that have not ended yet */
export function reportFile(file: FileResult, left: number, verbose: boolean): void {
  const { failure, counts, path } = file;
  const mark = failure === null ? '✓' : '✗';
  const time = seconds(file.endedAtMs - file.startedAtMs);
  const togo = `${left} left`.padStart(8);
  process.stdout.write(
    `${mark} ${`${counts.passed} passed`.padStart(10)} ${time} ${togo}  ${path}\n`,
  );
  if (verbose) process.stdout.write(file.output);
  else if (failure !== null) process.stdout.write(withoutPassed(file.output));
  if (failure !== null) process.stdout.write(`✗ ${path}: ${failure}\n`);
}

/** The summary; true when everything passed. Its last line is for people and for programs. */
export function conclude(results: readonly StepResult[], durationMs: number): boolean {
  const failures = results.flatMap(({ step, failure }) =>
    (failure ?? '').split('\n').flatMap((line) => (line ? [`${step.name}: ${line}\n`] : [])),
  );
  const total = (name: 'passed' | 'failed') =>
    results.reduce((sum, result) => sum + (result.counts?.[name] ?? 0), 0);
  process.stdout.write(`\n${results.map(lineOf).join('')}\n`);
  if (failures.length > 0) process.stdout.write(`Failed:\n  ${failures.join('  ')}\n`);
  process.stdout.write(`${results.length} steps in ${(durationMs / 1000).toFixed(1)} s.\n`);
  process.stdout.write(`${total('passed')} passed, ${total('failed')} failed\n`);
  return failures.length === 0;
}

function lineOf({ step, durationMs, counts, failure }: StepResult): string {
  const mark = failure === null ? '✓' : '✗';
  const passed = (counts === null ? '' : `${counts.passed} passed`).padStart(12);
  const failed = counts !== null && counts.failed > 0 ? `  ${counts.failed} failed` : '';
  return `${mark} ${step.name.padEnd(10)}${seconds(durationMs)}${passed}${failed}`.trimEnd() + '\n';
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`.padStart(8);
}

/** A failing file's own report, without the lines about what went well. */
function withoutPassed(output: string): string {
  return output.replaceAll(/^\s*✔ .*\n/gm, '');
}
