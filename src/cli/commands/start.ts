/**
 * `posthorn start`: checks the configuration, hands over to the supervisor, and says that the
 * service is ready: one screen on the first start, one line later, one JSON line with --json.
 * `--once` proves the whole path instead (once/run-once.ts).
 */
import { InvalidArgumentError, type Command } from 'commander';
import { type Config, readConfig } from '../../config/config.ts';
import { mostSimilar } from '../../core/similar.ts';
import { type ReadyInfo, runService } from '../../service/supervisor.ts';
import { type Part, PARTS } from '../../service/worker-messages.ts';
import { complain, runnable, usageFailure, type ExitCode, type Failure } from '../command.ts';
import type { Cli } from '../context.ts';
import { runOnce } from '../once/run-once.ts';
import { firstScreen, laterScreen } from '../start-screen.ts';

type StartOptions = { once?: true; workers?: number; only?: Part[]; json?: true };

const WORKERS_MAX = 256;

export function describeStart(command: Command, cli: Cli): void {
  command
    .option('--once', 'send one email through everything on this machine, show each step, and end')
    .option('--workers <n>', 'worker processes (default: one per core)', parseWorkers)
    .option(
      '--only <parts>',
      `only these parts, separated by commas: ${PARTS.join(', ')}`,
      parseParts,
    );
  runnable(command, cli, start).addHelpText('after', HELP);
}

const HELP = `
Nothing has to be configured; docs/configuration.md lists the environment variables.
With --json, one line is printed when the service is ready: {"url", "pid", "data_dir", "database"},
with ports for SMTP "inbound_port" and "submission_ports", with one for metrics "metrics_url".`;

async function start(cli: Cli, options: StartOptions): Promise<ExitCode | Failure> {
  if (options.once) return runOnce(cli, options);
  const outcome = readConfig(cli.env);
  if (!outcome.ok) return usageFailure(outcome.problems.join('\n'));
  const { config } = outcome;
  if (options.only?.join() === 'inbound' && !hasMailPorts(config)) {
    return usageFailure(NO_MAIL_PORTS);
  }
  const code = await runService(config, {
    workers: options.workers ?? null,
    only: options.only ?? null,
    onReady: (info) => cli.out(options.json ? readyLine(info) : readyScreen(info, config, cli)),
    onFailed: (failed) => complain(cli, failed, options.json ?? false),
  });
  return code === 0 || code === 2 ? code : 1;
}

const NO_MAIL_PORTS =
  '--only inbound: there is nothing to listen on; set POSTHORN_INBOUND_PORT or POSTHORN_SUBMISSION_PORTS.';

function hasMailPorts({ inboundPort, submissionPorts }: Config): boolean {
  return inboundPort !== null || submissionPorts.length > 0;
}

function readyLine(info: ReadyInfo): string {
  const { url, pid, dataDir, database, firstStart, inboundPort, submissionPorts } = info;
  const { metricsUrl } = info;
  const ready = {
    url,
    pid,
    data_dir: dataDir,
    database,
    ...(metricsUrl === null ? {} : { metrics_url: metricsUrl }),
    ...(inboundPort === null ? {} : { inbound_port: inboundPort }),
    ...(submissionPorts.length === 0 ? {} : { submission_ports: submissionPorts }),
    ...(firstStart === null ? {} : { test_key: firstStart.testKey }),
  };
  return `${JSON.stringify(ready)}\n`;
}

function readyScreen(info: ReadyInfo, config: Config, cli: Cli): string {
  const screen = { info, config, program: cli.program };
  return info.firstStart === null
    ? laterScreen(screen)
    : firstScreen(screen, info.firstStart.testKey);
}

function parseWorkers(text: string): number {
  const workers = /^\d{1,3}$/.test(text) ? Number(text) : 0;
  if (workers >= 1 && workers <= WORKERS_MAX) return workers;
  throw new InvalidArgumentError(`Write a number from 1 to ${WORKERS_MAX}.`);
}

function parseParts(text: string): Part[] {
  return text.split(',').map((word) => {
    const part = PARTS.find((name) => name === word.trim());
    if (part !== undefined) return part;
    const near = mostSimilar(word, PARTS);
    const hint = near === null ? `There are ${PARTS.join(', ')}.` : `Did you mean ${near}?`;
    throw new InvalidArgumentError(`There is no part ${JSON.stringify(word)}. ${hint}`);
  });
}
