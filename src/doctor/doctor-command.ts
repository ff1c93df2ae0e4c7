/**
 * `letterhaus doctor`: runs the checks of checks.ts against this machine and its installation. docs/doctor.md is the
 * guide.
 */
import { type Command, InvalidArgumentError } from 'commander';
import {
  type Cli,
  type CommandResult,
  parseDomainArgument,
  PROGRESS_EVERY_MS,
  runnable,
  usageFailure,
} from '../cli/command.ts';
import { table } from '../cli/table.ts';
import { usableVariables } from '../cli/usable-variables.ts';
import { readConfig } from '../config/config.ts';
import { mostSimilar } from '../lib/similar.ts';
import { CHECKS } from './checks.ts';
import { withContext } from './command-context.ts';
import { reportJson, reportText } from './command-report.ts';
import { type Check, type CheckReport, runChecks } from './run-checks.ts';

type Options = { only?: readonly Check[]; list?: true; fresh?: true };

const NOTES = `Run it on the machine of the service, with the variables of the service. It changes no setting
and no data, sends no mail, and works with and without a running service. In the data directory it
writes one temporary file, and notes which receivers answered, so that the next run need not connect
to them. The exit code is 1 when a finding is red.`;

export function describeDoctor(doctor: Command, cli: Cli): void {
  const described = doctor
    .argument('[domain]', 'check only this sending domain', parseDomainArgument)
    .option('--only <checks>', 'run only these checks, separated by commas', parseChecks)
    .option('--fresh', 'connect to large receivers again, although a run did so within 10 minutes')
    .option('--list', 'list the checks, and run none');
  runnable(described, cli, {
    examples: ['doctor', 'doctor acme.com', 'doctor --only outgoing_port_25,reverse_dns'],
    notes: NOTES,
    run,
  });
}

function parseChecks(text: string): readonly Check[] {
  const ids = text.split(',').map((id) => id.trim());
  return ids.map((id) => {
    const check = CHECKS.find((one) => one.id === id);
    if (check !== undefined) return check;
    const similar = mostSimilar(
      id,
      CHECKS.map((one) => one.id),
    );
    const hint = similar === null ? 'see letterhaus doctor --list' : `did you mean ${similar}?`;
    throw new InvalidArgumentError(`There is no check ${JSON.stringify(id)}; ${hint}`);
  });
}

async function run(
  cli: Cli,
  { only = CHECKS, list, fresh }: Options,
  [domain]: [string?],
): Promise<CommandResult> {
  if (list) return listChecks(cli, only);
  const { problems, env } = usableVariables(cli.env);
  const read = readConfig(env);
  if (!read.ok) return usageFailure(read.problems.join('\n'));
  const { config } = read;
  const parts = { config, configProblems: problems, domain: domain ?? null };
  const isFresh = fresh === true;
  const reports = await withContext({ ...cli, env }, { ...parts, isFresh }, async (context) => {
    const progress = new Progress(cli, only.length);
    try {
      return await runChecks(only, context, progress);
    } finally {
      progress.stop();
    }
  });
  const isRed = reports.some(({ level }) => level === 'red');
  return {
    data: reportJson(reports),
    text: reportText(cli, reports),
    ...(isRed && { exitCode: 1 as const }),
  };
}

function listChecks(cli: Cli, checks: readonly Check[]): CommandResult {
  const data = checks.map(({ id, title }) => ({ object: 'doctor_check', id, title }));
  const rows = checks.map(({ id, title }) => [id, title]);
  return {
    data: { object: 'list', data },
    text: table(cli, { columns: ['CHECK', 'ABOUT'], rows, none: 'There are no checks.' }),
  };
}

/** Prints the progress of the run on stderr every two seconds. */
class Progress {
  readonly #running = new Set<string>();
  readonly #timer: NodeJS.Timeout;
  #ended = 0;

  constructor({ err }: Pick<Cli, 'err'>, count: number) {
    this.#timer = setInterval(() => {
      const names = [...this.#running].join(', ');
      err(`${this.#ended} of ${count} checks have ended; running: ${names}\n`);
    }, PROGRESS_EVERY_MS);
  }

  readonly onBegin = (id: string): void => void this.#running.add(id);

  readonly onEnd = ({ id }: CheckReport): void => {
    this.#running.delete(id);
    this.#ended += 1;
  };

  stop(): void {
    clearInterval(this.#timer);
  }
}
