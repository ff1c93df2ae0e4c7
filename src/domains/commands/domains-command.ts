/** `letterhaus domains`: add, verify, list and remove sending domains. */
import { readFile, stat } from 'node:fs/promises';
import { Argument, type Command, Option } from 'commander';
import type { Domain, DomainRecord } from '../../../sdk/src/api.ts';
import type { Letterhaus } from '../../../sdk/src/client.ts';
import type { Body } from '../../../sdk/src/transport.ts';
import { failsAt, WAITING_SHOWN_MAX } from '../domain-limits.ts';
import { DKIM_PEM_MAX_LENGTH } from '../../mail/dkim-import.ts';
import {
  listInAll,
  type Api,
  apiCommand,
  type ApiOptions,
  listData,
  nullIfNotFound,
} from '../../cli/api.ts';
import {
  type Cli,
  type Failure,
  isFailure,
  type CommandResult,
  usageFailure,
} from '../../cli/command.ts';
import { PAGE_MAX } from '../../cli/lists.ts';
import { shortTime, table } from '../../cli/table.ts';
import { describeReturnPathHost } from './return-path-host-command.ts';

const TLS = ['opportunistic', 'enforced'] as const;
const TRACKED = ['off', 'opens', 'clicks', 'both'] as const;

export function describeDomains(domains: Command, cli: Cli): void {
  apiCommand(domains, cli, {
    name: 'add',
    about: 'add a sending domain',
    examples: [
      'domains add acme.com',
      'domains add acme.com --tls enforced',
      'domains add acme.com --dkim-key s1.pem --dkim-selector s1',
    ],
    environment: 'live',
    run: add,
  })
    .argument('<name>', 'such as acme.com')
    .addOption(new Option('--tls <how>', 'TLS mode of its emails').choices(TLS))
    .option(
      '--dkim-key <file>',
      'sign with the RSA key in this PEM file; its record is already published',
    )
    .option('--dkim-selector <selector>', 'part of the name of the DKIM record before ._domainkey');
  addDomainCommand(domains, cli, {
    name: 'verify',
    about: 'look up the DNS records of a domain now',
    examples: ['domains verify acme.com'],
    run: verify,
  });
  addDomainCommand(domains, cli, {
    name: 'set-tls',
    about: 'set the TLS mode of emails from a domain',
    examples: ['domains set-tls acme.com enforced'],
    run: setTls,
  }).addArgument(new Argument('<how>', 'opportunistic or enforced').choices(TLS));
  addDomainCommand(domains, cli, {
    name: 'set-tracking',
    about: 'set whether opens and clicks are tracked',
    examples: ['domains set-tracking acme.com opens'],
    run: setTracking,
  }).addArgument(new Argument('<what>', 'off, opens, clicks or both').choices(TRACKED));
  addDomainCommand(domains, cli, {
    name: 'rotate-dkim',
    about: 'replace the DKIM keys of a domain',
    examples: ['domains rotate-dkim acme.com', 'domains rotate-dkim acme.com --cancel'],
    run: rotateDkim,
  }).option('--cancel', 'delete the new keys before they start to sign');
  apiCommand(domains, cli, {
    name: 'list',
    about: 'list domains',
    examples: ['domains list'],
    environment: 'both',
    run: list,
  });
  addDomainCommand(domains, cli, {
    name: 'remove',
    about: 'stop sending from a domain',
    examples: ['domains remove acme.com', 'domains remove acme.com --yes'],
    run: remove,
  }).option('--yes', 'do not ask for confirmation');
  describeReturnPathHost(domains, cli);
}

/** `client` has access to the project of the domain, so it finds the domain by its id. */
type FoundDomain = { domain: Domain; client: Letterhaus };

type DomainCommand<Options, Rest extends unknown[]> = {
  name: string;
  about: string;
  examples: [string, ...string[]];
  run: (api: Api, found: FoundDomain, options: Options, ...rest: Rest) => Promise<CommandResult>;
};

/** Adds a command for one domain, which its first argument names. */
function addDomainCommand<Options extends ApiOptions, Rest extends unknown[]>(
  domains: Command,
  cli: Cli,
  { run, ...described }: DomainCommand<Options, Rest>,
): Command {
  return apiCommand(domains, cli, {
    ...described,
    environment: 'live',
    run: async (api, options: Options, [nameOrId, ...rest]: [string, ...Rest]) => {
      const found = await findDomain(api, nameOrId);
      return isFailure(found) ? found : run(api, found, options, ...rest);
    },
  }).argument('<domain>', 'name or id');
}

const ID = /^[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}$/;

async function findDomain(api: Api, nameOrId: string): Promise<FoundDomain | Failure> {
  const name = nameOrId.toLowerCase();
  if (ID.test(name)) {
    const domain = await nullIfNotFound(api.byId.domains.get(name));
    return domain === null ? noDomain(`with the id ${name}`) : { domain, client: api.byId };
  }
  for await (const domain of api.client.domains.list({ limit: PAGE_MAX })) {
    if (domain.name === name) return { domain, client: api.client };
  }
  return noDomain(`${JSON.stringify(nameOrId)} in the ${api.environment} environment`);
}

function noDomain(which: string): Failure {
  const message = `There is no domain ${which}; see letterhaus domains list.`;
  return { failed: message, code: 'not_found', exitCode: 1 };
}

type AddOptions = ApiOptions & {
  tls?: (typeof TLS)[number];
  dkimKey?: string;
  dkimSelector?: string;
};

async function add(api: Api, options: AddOptions, [name]: [string]): Promise<CommandResult> {
  const dkim = await readExistingKey(options);
  if (dkim !== undefined && isFailure(dkim)) return dkim;
  const domain = await api.client.domains.create({ name, tls: options.tls, dkim });
  const advice = domain.advice.map(({ message }) => `\n\n! ${message}`).join('');
  return {
    data: domain,
    text: `Publish these records in the DNS of ${domain.name}:\n\n${recordsText(domain.records)}\n\nThen:  ${verifyLine(api, domain)}${advice}`,
  };
}

function verifyLine({ cli }: Api, { name, environment }: Domain): string {
  return `${cli.program} domains verify ${name}${environment === 'live' ? '' : ` --environment ${environment}`}`;
}

/** Reads the key file of `--dkim-key`. Returns undefined when the service is to generate a key. */
async function readExistingKey(
  options: AddOptions,
): Promise<Body<'createDomain'>['dkim'] | Failure | undefined> {
  const { dkimKey: file, dkimSelector: selector } = options;
  if (file === undefined && selector === undefined) return undefined;
  if (file === undefined || selector === undefined) {
    return usageFailure('--dkim-key and --dkim-selector belong together: give both, or neither.');
  }
  try {
    const { size } = await stat(file);
    if (size <= DKIM_PEM_MAX_LENGTH) {
      return { selector, private_key: await readFile(file, 'utf8') };
    }
    return usageFailure(`${file} has ${size} bytes; give the file with the private key alone.`);
  } catch (error) {
    return usageFailure(`${file} cannot be read: ${(error as Error).message}.`);
  }
}

async function verify(_api: Api, { domain: { id }, client }: FoundDomain): Promise<CommandResult> {
  const domain = await client.domains.verify(id);
  const { name, status } = domain;
  const unusable = domain.advice.find(({ about }) => about === 'dkim');
  if (!domain.can_sign && unusable !== undefined) {
    return { data: domain, text: `${name} cannot send: ${unusable.message}.`, exitCode: 1 };
  }
  const advice = domain.advice.map(({ message }) => `! ${message}`);
  if (status === 'verified' && domain.failing_since === null) {
    const improvements = domain.records.flatMap(({ problem, key }) =>
      problem === null || key !== undefined ? [] : [`! ${problem}`],
    );
    const next = domain.records.filter(({ key }) => key === 'next');
    const nextRecords = next.length === 0 ? [] : ['', recordsText(next)];
    return {
      data: domain,
      text: [`${name} is verified: it can send.`, ...improvements, ...advice, ...nextRecords].join(
        '\n',
      ),
    };
  }
  const text = [stateText(domain), recordsText(domain.records), ...advice].join('\n\n');
  return { data: domain, text, exitCode: 1 };
}

function stateText({ name, status, failing_since: since }: Domain): string {
  if (since === null) return `${name} is not verified yet.`;
  if (status === 'failed') {
    return `${name} has failed: required records have been missing since ${shortTime(since)}, and it cannot send.`;
  }
  const state = status === 'degraded' ? 'is degraded' : 'is still verified';
  return `${name} ${state}: required records have been missing since ${shortTime(since)}. It sends until ${failsAt(new Date(since))}: publish them again before then.`;
}

async function setTls(
  _api: Api,
  { domain: { id }, client }: FoundDomain,
  _options: ApiOptions,
  tls: (typeof TLS)[number],
): Promise<CommandResult> {
  const domain = await client.domains.update(id, { tls });
  const text = `TLS is ${tls} for emails that ${domain.name} sends from now on.`;
  return { data: domain, text };
}

async function setTracking(
  _api: Api,
  { domain: { id }, client }: FoundDomain,
  _options: ApiOptions,
  tracked: (typeof TRACKED)[number],
): Promise<CommandResult> {
  const isBoth = tracked === 'both';
  const tracking = { opens: isBoth || tracked === 'opens', clicks: isBoth || tracked === 'clicks' };
  const domain = await client.domains.update(id, { tracking });
  const subjects = {
    off: 'Nothing is',
    opens: 'Opens are',
    clicks: 'Clicks are',
    both: 'Opens and clicks are',
  };
  const subject = subjects[tracked];
  const text = `${subject} tracked in emails that ${domain.name} sends from now on.`;
  return { data: domain, text };
}

async function list(api: Api): Promise<CommandResult> {
  const found = await listInAll(await api.all(), (client) =>
    client.domains.list({ limit: PAGE_MAX }),
  );
  const warnings = found.flatMap((domain) =>
    domain.advice
      .filter(({ about }) => about === 'reputation' || (about === 'dkim' && !domain.can_sign))
      .map(({ message }) => `! ${domain.name} (${domain.environment}): ${message}`),
  );
  return {
    data: listData(found),
    text: [
      table(api.cli, {
        columns: ['ID', { heading: 'DOMAIN', cut: 1 }, 'ENVIRONMENT', 'STATUS', 'TLS', 'CHECKED'],
        rows: found.map((domain) => [
          domain.id,
          domain.name,
          domain.environment,
          domain.status,
          domain.tls,
          shortTime(domain.checked_at),
        ]),
        none: {
          says: 'There is no sending domain yet.',
          toDo: 'To add one and see the records to publish',
          command: 'domains add yourdomain.com',
        },
      }),
      ...warnings,
    ].join('\n'),
  };
}

type RotateOptions = ApiOptions & { cancel?: true };

async function rotateDkim(
  api: Api,
  { domain: { id }, client }: FoundDomain,
  options: RotateOptions,
): Promise<CommandResult> {
  if (options.cancel) {
    const domain = await client.domains.cancelDkimRotation(id);
    const text = `The rotation is canceled; ${domain.name} keeps its keys.`;
    return { data: domain, text };
  }
  const domain = await client.domains.rotateDkim(id);
  const records = recordsText(domain.records.filter(({ key }) => key === 'next'));
  return {
    data: domain,
    text: `Publish these records in the DNS of ${domain.name}, and leave the current ones:\n\n${records}\n\nThe current keys sign until a check finds the first record. Checks follow every hour, or now:  ${verifyLine(api, domain)}`,
  };
}

type RemoveOptions = ApiOptions & { yes?: true };

/** Asks only in a terminal. Scripts remove domains without a question. */
async function remove(
  { cli }: Api,
  { domain: { id, name }, client }: FoundDomain,
  options: RemoveOptions,
): Promise<CommandResult> {
  if (!options.yes && cli.confirm !== undefined) {
    const { waiting = 0 } = await client.domains.get(id, { waiting: true });
    const alternative = `To replace its DKIM key only: ${cli.program} domains rotate-dkim ${name}`;
    if (!(await cli.confirm(`${waitingText(waiting)}\n${alternative}\nRemove ${name}?`))) {
      return { failed: `${name} was not removed.`, code: 'usage_error', exitCode: 1 };
    }
  }
  const removed = await client.domains.delete(id);
  return { data: removed, text: `Removed ${name}. ${waitingText(removed.waiting)}` };
}

function waitingText(waiting: number): string {
  if (waiting === 0) return 'No recipient waits for mail from it.';
  if (waiting === 1) return '1 recipient waits for mail from it, and ends as failed.';
  const count = waiting > WAITING_SHOWN_MAX ? `More than ${WAITING_SHOWN_MAX}` : String(waiting);
  return `${count} recipients wait for mail from it, and end as failed.`;
}

function recordsText(records: readonly DomainRecord[]): string {
  return records
    .map(({ type, name, value, priority, required, status, problem }) => {
      const content = priority === undefined ? value : `${priority} ${value}`;
      const state = status === 'not_started' ? '' : `   ${status}`;
      const optional = required ? '' : '   (optional)';
      const lines = [`${type}   ${name}${optional}${state}`, `      ${content}`];
      return [...lines, ...(problem === null ? [] : [`      ${problem}`])].join('\n');
    })
    .join('\n\n');
}
