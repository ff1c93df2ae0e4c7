/** What `npm test` shows: one line per step, the output of failing ones, a summary. */
import type { StepResult } from './run-step.ts';
import type { Step } from './steps.ts';

export function describeSteps(steps: Step[]): string {
  return steps
    .map((step) => {
      const what = step.kind === 'tool' ? step.command.join(' ') : `${step.files.length} files`;
      return `${step.name.padEnd(10)} ${step.about} (${what})\n`;
    })
    .join('');
}

/** A person sees what runs now; a log gets one line per step, when it has ended. */
export function announce(step: Step): void {
  if (process.stdout.isTTY) process.stdout.write(`… ${step.name}`);
}

export function report(result: StepResult, verbose: boolean): void {
  if (process.stdout.isTTY) process.stdout.write('\r\u001b[K');
  if (result.failure !== null && !verbose) process.stdout.write(withoutPassed(result.output));
  process.stdout.write(lineOf(result));
}

/** The summary; true when everything passed. Its last line is for people and for programs. */
export function conclude(results: StepResult[]): boolean {
  const failed = results.filter((result) => result.failure !== null);
  const total = (name: 'passed' | 'failed') =>
    results.reduce((sum, result) => sum + (result.counts?.[name] ?? 0), 0);
  const seconds = results.reduce((sum, result) => sum + result.durationMs, 0) / 1000;
  process.stdout.write(`\n${results.map(lineOf).join('')}\n`);
  if (failed.length > 0) {
    process.stdout.write(`Failed: ${failed.map((result) => result.step.name).join(', ')}.\n`);
  }
  process.stdout.write(`${results.length} steps in ${seconds.toFixed(1)} s.\n`);
  process.stdout.write(`${total('passed')} passed, ${total('failed')} failed\n`);
  return failed.length === 0;
}

function lineOf({ step, durationMs, counts, failure }: StepResult): string {
  const mark = failure === null ? '✓' : '✗';
  const time = `${(durationMs / 1000).toFixed(1)} s`.padStart(8);
  const passed = (counts === null ? '' : `${counts.passed} passed`).padStart(12);
  return `${`${mark} ${step.name.padEnd(10)}${time}${passed}  ${failure ?? ''}`.trimEnd()}\n`;
}

/** A failing suite's own report, without the hundreds of lines about what went well. */
function withoutPassed(output: string): string {
  return output.replaceAll(/^\s*✔ .*\n/gm, '');
}
