/**
 * `npm test`: runs every check of this repository and prints one summary. A step that fails does not stop the others.
 * The exit code is 1 when any step failed. runner/steps.ts lists the steps. runner/run.ts defines how they run and what
 * counts as a failure.
 */
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import { chooseChanged } from './runner/changed.ts';
import { stopCommands } from './runner/command.ts';
import { conclude, describeSteps, reportFile, reportTool } from './runner/report.ts';
import { runSteps } from './runner/run.ts';
import { dropScratch, useScratch } from './runner/scratch.ts';
import { chooseSteps, type Step } from './runner/steps.ts';

const USAGE = `Usage: npm test -- [options] [file ...]

Runs all checks and tests. With files (paths or parts of paths), runs only the tests in them.

  --changed [ref]    run the checks, and the tests near files that changed since the ref (default:
                     since this branch left main)
  --only <step,...>  run only these steps; "check" means all that are not tests
  --jobs <n>         run n test files at the same time (default: 2 for each core, and up to 2 more
                     for each while cores are idle)
  --list             list the steps, and run none
  --verbose          print the output of all steps, not only of those that fail
  --help             show this text
`;

const JOBS_PER_CORE = 2;
/**
 * Most tests wait for sockets and other processes, so there are more while cores are idle. More at any time take
 * more CPU time in all: with 3 and 1 spare a run took 5 % more than with 2 and 2, with 4 and none 8 %.
 */
const SPARE_JOBS_PER_CORE = 2;

process.exitCode = await main(process.argv.slice(2));

async function main(argv: string[]): Promise<number> {
  const request = readArguments(argv);
  if (typeof request === 'string') return refuse(request);
  if (request.help) return print(USAGE);
  const steps = choose(request);
  if (typeof steps === 'string') return refuse(steps);
  if (request.list) return print(describeSteps(steps));
  endWithWhatRuns();
  const scratch = useScratch();
  const startedAtMs = performance.now();
  const results = await runSteps(steps, {
    jobs: request.jobs ?? JOBS_PER_CORE * availableParallelism(),
    spareJobs: request.jobs === null ? SPARE_JOBS_PER_CORE * availableParallelism() : 0,
    onTool: (result) => reportTool(result, request.verbose),
    onFile: (file, left) => reportFile(file, left, request.verbose),
  });
  dropScratch(scratch);
  return conclude(results, performance.now() - startedAtMs) ? 0 : 1;
}

type Request = {
  help: boolean;
  list: boolean;
  verbose: boolean;
  changed: boolean;
  only: string[];
  /** null: as many as are good for this machine. */
  jobs: number | null;
  files: string[];
};

function readArguments(args: string[]): Request | string {
  try {
    const { values, positionals } = parseArgs({
      args,
      allowPositionals: true,
      options: {
        help: { type: 'boolean', short: 'h', default: false },
        list: { type: 'boolean', default: false },
        verbose: { type: 'boolean', short: 'v', default: false },
        changed: { type: 'boolean', default: false },
        only: { type: 'string', multiple: true, default: [] },
        jobs: { type: 'string' },
      },
    });
    const jobs = values.jobs === undefined ? null : Number(values.jobs);
    if (jobs !== null && (!Number.isInteger(jobs) || jobs < 1)) {
      return `--jobs takes a number, not "${values.jobs}".`;
    }
    const only = values.only.flatMap((names) => names.split(','));
    return { ...values, jobs, only, files: positionals };
  } catch (error) {
    return (error as Error).message;
  }
}

function choose({ changed, only, files }: Request): Step[] | string {
  if (!changed) return chooseSteps(only, files);
  if (files.length > 1) return '--changed takes one ref.';
  const all = chooseSteps(only, []);
  if (typeof all === 'string') return all;
  const chosen = chooseChanged(all, files[0] ?? null);
  if (typeof chosen === 'string') return chosen;
  print(chosen.report);
  return chosen.steps;
}

/** Passes a Ctrl-C on to the test files, which run in process groups of their own. */
function endWithWhatRuns(): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.once(signal, () => {
      void stopCommands().finally(() => process.kill(process.pid, signal));
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
