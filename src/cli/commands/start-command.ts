/**
 * `letterhaus start`: checks the configuration, runs the supervisor, and reports when the service is ready: a screen on
 * the first start, one line on later starts, one JSON line with --json. `--once` tests the whole path instead
 * (cli/once/run-once.ts).
 */
import { type Command, InvalidArgumentError } from 'commander';
import {
  type Cli,
  printFailure,
  type ExitCode,
  type Failure,
  runnable,
  usageFailure,
} from '../command.ts';
import { countUpTo } from '../lists.ts';
import { facts } from '../table.ts';
import { type Config, readConfig } from '../../config/config.ts';
import { mostSimilar } from '../../lib/similar.ts';
import type { FirstStart } from '../../service/first-start.ts';
import { FIRST_DOMAIN } from '../../service/start/first-domain.ts';
import { runService } from '../../service/service-entry.ts';
import type { ReadyInfo } from '../../service/supervisor.ts';
import { type WorkerPart, WORKER_PARTS } from '../../service/worker/worker-messages.ts';
import { isOutputKept, keepFirstScreen } from './first-start-file.ts';

type StartOptions = { once?: true; workers?: number; only?: WorkerPart[]; json?: true };

const WORKERS_MAX = 256;

export function describeStart(command: Command, cli: Cli): void {
  command
    .option(
      '--once',
      'send one email through the whole service on this machine, print each step, and exit',
    )
    .option('--workers <n>', 'worker processes (default: one per core)', countUpTo(WORKERS_MAX))
    .option(
      '--only <parts>',
      `run only these parts, separated by commas: ${WORKER_PARTS.join(', ')}`,
      parseParts,
    );
  runnable(command, cli, {
    examples: ['start', 'start --once', 'start --workers 2 --only api,delivery'],
    notes: NOTES,
    run: start,
  });
}

const NOTES = `Nothing has to be configured; docs/configuration.md lists the environment variables.
With --json, one line is printed when the service is ready: {"url", "pid", "data_dir", "database"},
with ports for SMTP "inbound_port" and "submission_ports", with one for metrics "metrics_url".`;

async function start(cli: Cli, options: StartOptions): Promise<ExitCode | Failure> {
  if (options.once) {
    const { runOnce } = await import('../once/run-once.ts');
    return runOnce(cli, options);
  }
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
    onFailed: (failed) => printFailure(cli, failed, options.json ?? false),
  });
  return code === 0 || code === 2 ? code : 1;
}

const NO_MAIL_PORTS =
  '--only inbound: there is nothing to listen on; set LETTERHAUS_INBOUND_PORT or LETTERHAUS_SUBMISSION_PORTS.';

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
    ...(firstStart?.ownerLink == null ? {} : { sign_in_url: info.siteUrl + firstStart.ownerLink }),
  };
  return `${JSON.stringify(ready)}\n`;
}

function readyScreen(info: ReadyInfo, config: Config, cli: Cli): string {
  const screen = { info, config, program: cli.program };
  if (info.firstStart === null) return laterScreen(screen);
  const first = firstScreen(screen, info.firstStart);
  if (!isOutputKept(cli)) return first;
  return laterScreen(screen) + keepFirstScreen(info.dataDir, first, cli.program);
}

function parseParts(text: string): WorkerPart[] {
  return text.split(',').map((word) => {
    const part = WORKER_PARTS.find((name) => name === word.trim());
    if (part !== undefined) return part;
    const near = mostSimilar(word, WORKER_PARTS);
    const hint = near === null ? `There are ${WORKER_PARTS.join(', ')}.` : `Did you mean ${near}?`;
    throw new InvalidArgumentError(`There is no part ${JSON.stringify(word)}. ${hint}`);
  });
}

export type StartScreen = {
  info: ReadyInfo;
  config: Pick<Config, 'port' | 'isPortConfigured' | 'inboundPort'>;
  /** The path by which this program was called: `./bin/letterhaus`. */
  program: string;
};

/** The first start shows how to send a first email, with the key, which is shown only now. */
export function firstScreen(
  screen: StartScreen,
  { testKey, ownerLink }: Pick<FirstStart, 'testKey' | 'ownerLink'>,
): string {
  const { info, program } = screen;
  return `${movedNote(screen)}
Letterhaus is ready.

${indent(
  facts([
    ['API', `${info.url}/v1`],
    ['Described at', `${info.url}/openapi.json`],
    ['Test key', `${testKey}   (shown once)`],
    ...signInLink(info, ownerLink),
    ['Data', info.dataDir],
    ['Database', info.database],
    ...mailPorts(info),
    ...(info.metricsUrl === null ? [] : [['Metrics', info.metricsUrl] as [string, string]]),
  ]),
)}

Send a first email; with a test key the delivery is simulated and no mail leaves this machine:

${curlCommand(info.url, testKey)}

Then:

${indent(
  facts([
    ['See its status', `${program} emails list`],
    ['See your limits', `${program} limits`],
    ['Send by SMTP', 'LETTERHAUS_SUBMISSION_PORTS=2587 (docs/smtp.md)'],
    ['Send real mail', `${program} go-live yourdomain.com (docs/going-live.md)`],
    ['Run it as a service', 'docs/system-user.md'],
    ['Stop', 'Ctrl-C'],
  ]),
)}
${inboundNote(screen)}`;
}

function signInLink({ siteUrl }: ReadyInfo, ownerLink: string | null): [string, string][] {
  return ownerLink === null
    ? []
    : [['Sign in', `${siteUrl}${ownerLink}   (works once, within 30 minutes)`]];
}

export function laterScreen(screen: StartScreen): string {
  const { url, dataDir, database, pid } = screen.info;
  const ports = mailPorts(screen.info).map(([what, port]) => `, ${what} ${port}`);
  return `${movedNote(screen)}Letterhaus is ready at ${url} (pid ${pid}, data in ${dataDir}, database ${database}${ports.join('')}). Stop it with Ctrl-C.
${inboundNote(screen)}`;
}

function mailPorts({ inboundPort, submissionPorts }: ReadyInfo): [string, string][] {
  const submission = submissionPorts.length > 0 ? [submissionPorts.join(', ')] : [];
  const inbound = inboundPort === null ? [] : [String(inboundPort)];
  return [
    ...submission.map((ports): [string, string] => ['SMTP submission', ports]),
    ...inbound.map((port): [string, string] => ['SMTP inbound', port]),
  ];
}

/** Warns without an inbound port: the MX record of a sending domain names this host even then. */
function inboundNote({ config }: StartScreen): string {
  if (config.inboundPort !== null) return '';
  return `
No mail is received: bounces and complaints about live mail that arrive later are lost.
Set LETTERHAUS_INBOUND_PORT=25 to receive them (docs/bounces.md).
`;
}

/** Returns a command for sh, bash, zsh and fish. */
export function curlCommand(url: string, key: string): string {
  const email = {
    from: `Acme <hello@${FIRST_DOMAIN}>`,
    to: 'delivered@simulator.test',
    subject: 'Hello',
    html: '<p>It works.</p>',
  };
  return `curl ${url}/v1/emails \\
  -H 'Authorization: Bearer ${key}' \\
  -H 'Content-Type: application/json' \\
  -d '${JSON.stringify(email)}'`;
}

function movedNote({ info, config }: StartScreen): string {
  const { port } = new URL(info.url);
  if (config.isPortConfigured || port === String(config.port)) return '';
  return `Port ${config.port} is in use, so this service listens on port ${port}.\n`;
}

function indent(text: string): string {
  return text.replace(/^/gm, '  ');
}
