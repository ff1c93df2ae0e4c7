/**
 * `letterhaus go-live DOMAIN`: the steps from a running service to a delivered message (docs/going-live.md).
 *
 * Every step reads the state of the service and of DNS, and does only the missing work. So an interrupted run loses
 * nothing, and the next one continues. The exit code is 1 while a step needs the operator.
 */
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Domain } from '../../sdk/src/api.ts';
import { LetterhausError } from '../../sdk/src/errors.ts';
import { type Api, apiRunnable } from '../cli/api.ts';
import {
  type Cli,
  type CommandResult,
  type ExitCode,
  parseDomainArgument,
  usageFailure,
} from '../cli/command.ts';
import { printableLines } from '../cli/table.ts';
import { readConfig } from '../config/config.ts';
import { MINUTE_MS, parsePeriodMs } from '../lib/units.ts';
import { parseAddress, parseMailbox } from '../mail/address.ts';
import { DNS_PROVIDERS } from '../net/dns-provider/providers.ts';
import { proposeDmarc } from './command-dmarc.ts';
import { createLiveKey } from './command-key.ts';
import { checkMachine } from './command-machine.ts';
import { sendFirstMessage } from './command-message.ts';
import { publishRecords } from './command-records.ts';
import { look, waitForVerification } from './command-verify.ts';
import type { GoLive, GoLiveOptions, Step } from './command-step.ts';

const DEFAULT_WAIT_MS = 10 * MINUTE_MS;

const NOTES = `Run it on the machine of the service, as often as you like: each run continues where the last
one ended. With --dns it adds missing records at the DNS provider, whose token it reads from the
environment or from letterhaus.env. It never changes or removes a record.`;

export function describeGoLive(command: Command, cli: Cli): void {
  const described = command
    .argument('<domain>', 'the sending domain, such as acme.com', parseDomainArgument)
    .option('--project <name>', 'name or id of the project (default: the only one)')
    .option('--yes', 'add records without asking')
    .option('--zone-file <file>', 'write the records to this file, as lines of a zone file')
    .addOption(
      new Option(
        '--dns <provider>',
        'add the records there (default: LETTERHAUS_DNS_PROVIDER)',
      ).choices(DNS_PROVIDERS),
    )
    .option(
      '--wait <time>',
      'how long to wait for DNS and for delivery: 30s, 10m or 0',
      parseWaitMs,
      DEFAULT_WAIT_MS,
    )
    .option('--key-file <file>', 'write the live key to this new file (default: show it once)')
    .option('--to <address>', 'send the first message to this address', parseTo)
    .option(
      '--from <sender>',
      'sender of the first message (default: postmaster at the domain)',
      parseFrom,
    );
  apiRunnable(described, cli, {
    examples: [
      'go-live acme.com',
      'go-live acme.com --dns hetzner --yes --key-file live.key --to you@example.net',
      'go-live acme.com --zone-file acme.zone --wait 0',
    ],
    notes: NOTES,
    environment: 'none',
    followsStart: true,
    run,
  });
}

async function run(
  api: Api,
  options: GoLiveOptions,
  [name]: [string],
): Promise<CommandResult | ExitCode> {
  const { cli } = api;
  const { dns } = options;
  const env = dns === undefined ? cli.env : { ...cli.env, LETTERHAUS_DNS_PROVIDER: dns };
  const read = readConfig(env);
  if (!read.ok) return usageFailure(read.problems.join('\n'));
  const client = api.clientFor({ project: options.project, environment: 'live' });
  const goLive: GoLive = { cli, client, config: read.config, name, options };
  const steps: Step[] = [];
  for await (const step of stepsOf(goLive)) {
    steps.push(step);
    if (!options.json) cli.out(stepText(step));
  }
  const isDone = steps.every(({ state }) => state !== 'todo');
  if (options.json) cli.out(`${JSON.stringify(reportOf(name, steps, isDone))}\n`);
  else cli.out(isDone ? `\n${name} is live.\n` : `\nRun the command again when it is done.\n`);
  return isDone ? 0 : 1;
}

/** The steps in order. Steps that need a verified domain follow only then. */
async function* stepsOf(goLive: GoLive): AsyncGenerator<Step> {
  const machine = await checkMachine(goLive);
  yield machine;
  const { domain, isNew } = await findOrAddDomain(goLive);
  yield {
    step: 'domain',
    state: 'done',
    message: `${goLive.name} ${isNew ? 'was added to' : 'is in'} the service.`,
    data: { id: domain.id },
  };
  const records = await publishRecords(goLive, domain);
  yield records;
  // Waiting is of no use while a record needs the operator.
  const wait = records.state === 'todo' ? 0 : goLive.options.wait;
  const { step, isVerified } = await waitForVerification(goLive, domain, wait);
  yield step;
  if (!isVerified) return;
  yield await createLiveKey(goLive);
  if (machine.state === 'done' || goLive.options.to === undefined) {
    yield await sendFirstMessage(goLive);
  } else {
    const message = 'No message was sent, because receivers would refuse it from this machine.';
    yield { step: 'first_message', state: 'todo', message };
  }
  yield await proposeDmarc(goLive, domain);
}

async function findOrAddDomain(goLive: GoLive): Promise<{ domain: Domain; isNew: boolean }> {
  const found = await findDomain(goLive);
  if (found !== null) return { domain: found, isNew: false };
  try {
    return { domain: await goLive.client.domains.create({ name: goLive.name }), isNew: true };
  } catch (error) {
    // Another run may have added it meanwhile.
    const isConflict = error instanceof LetterhausError && error.status === 409;
    const added = isConflict ? await findDomain(goLive) : null;
    if (added === null) throw error;
    return { domain: added, isNew: false };
  }
}

/** Looks at DNS now, so that only missing records are published. */
async function findDomain(goLive: GoLive): Promise<Domain | null> {
  for await (const { id, name } of goLive.client.domains.list({ limit: 100 })) {
    if (name === goLive.name) return (await look(goLive, id)).domain;
  }
  return null;
}

const MARKS = { done: '✓', todo: '!', skipped: '-' };

function stepText({ step, state, message, lines = [] }: Step): string {
  const below = lines.map((line) => `    ${line}`);
  return `${printableLines([`${MARKS[state]} ${step}: ${message}`, ...below].join('\n'))}\n`;
}

function reportOf(name: string, steps: readonly Step[], isDone: boolean) {
  const shown = steps.map(({ step, state, message, data }) => ({ ...data, step, state, message }));
  return { object: 'go_live', domain: name, done: isDone, steps: shown };
}

function parseWaitMs(text: string): number {
  const ms = text === '0' ? 0 : parsePeriodMs(text, 'smh');
  if (ms !== null) return ms;
  throw new InvalidArgumentError('Write 30s, 10m, 1h or 0.');
}

function parseTo(text: string): string {
  const address = parseAddress(text);
  if (address !== null) return address;
  throw new InvalidArgumentError('Write one address, such as you@example.net.');
}

function parseFrom(text: string): string {
  if (parseMailbox(text) !== null) return text;
  throw new InvalidArgumentError('Write it as hello@acme.com or Acme <hello@acme.com>.');
}
