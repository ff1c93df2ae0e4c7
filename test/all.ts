/**
 * `npm test`: every step by which this repository proves itself, one after the other, and one
 * summary. A step that fails does not stop the others; the exit code is 1 when any did.
 * Steps: runner/steps.ts. How one runs and what counts as failing: runner/run-step.ts.
 */
import { parseArgs } from 'node:util';
import { announce, conclude, describeSteps, report } from './runner/report.ts';
import { runStep, stopRunningStep, type StepResult } from './runner/run-step.ts';
import { chooseSteps, type Step } from './runner/steps.ts';

const USAGE = `Usage: npm test -- [options] [file ...]

Runs all checks and tests; with files (a path or a part of one), only the tests in these.

  --only <step,...>  only these steps; "check" means all that are not tests
  --list             the steps, without running them
  --verbose          everything the steps print, as it comes; else only that of failing ones
  --help             this text
`;

process.exitCode = await main(process.argv.slice(2));

async function main(argv: string[]): Promise<number> {
  const request = readArguments(argv);
  if (typeof request === 'string') return refuse(request);
  if (request.help) return print(USAGE);
  const steps = chooseSteps(request.only, request.files);
  if (typeof steps === 'string') return refuse(steps);
  if (request.list) return print(describeSteps(steps));
  endWithTheRunningStep();
  return conclude(await runAll(steps, request.verbose)) ? 0 : 1;
}

type Request = { help: boolean; list: boolean; verbose: boolean; only: string[]; files: string[] };

function readArguments(args: string[]): Request | string {
  try {
    const { values, positionals } = parseArgs({
      args,
      allowPositionals: true,
      options: {
        help: { type: 'boolean', short: 'h', default: false },
        list: { type: 'boolean', default: false },
        verbose: { type: 'boolean', short: 'v', default: false },
        only: { type: 'string', multiple: true, default: [] },
      },
    });
    return {
      ...values,
      only: values.only.flatMap((names) => names.split(',')),
      files: positionals,
    };
  } catch (error) {
    return (error as Error).message;
  }
}

async function runAll(steps: Step[], verbose: boolean): Promise<StepResult[]> {
  const results: StepResult[] = [];
  for (const step of steps) {
    announce(step);
    const result = await runStep(step, verbose);
    report(result, verbose);
    results.push(result);
  }
  return results;
}

/** Steps run in process groups of their own: a Ctrl-C has to be carried there. */
function endWithTheRunningStep(): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => {
      void stopRunningStep().finally(() => process.kill(process.pid, signal));
    });
  }
}

function print(text: string): number {
  process.stdout.write(text);
  return 0;
}

function refuse(sentence: string): number {
  process.stderr.write(`${sentence}\n\n${USAGE}`);
  return 2;
}
