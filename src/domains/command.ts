/** `letterhaus domains`: add, verify, list and remove sending domains. */
import { readFile, stat } from 'node:fs/promises';
import { Argument, type Command, Option } from 'commander';
import {
  addCommand,
  type Cli,
  failure,
  type Failure,
  isFailure,
  type Outcome,
  usageFailure,
} from '../cli/command.ts';
import { shortTime, table } from '../cli/table.ts';
import { type Features, withFeatures } from '../cli/features.ts';
import {
  chooseScope,
  chooseScopes,
  modeOption,
  projectOption,
  type ScopeOptions,
  scopesOfId,
  type ScopesOptions,
  withStore,
} from '../cli/store.ts';
import type { Config } from '../config/config.ts';
import { isRefusal } from '../core/refusals.ts';
import type { Scope } from '../core/scope.ts';
import { failsAt } from './check.ts';
import { KEY_UNUSABLE, presentDomain } from './view.ts';
import type { ExistingDkim } from './domains.ts';
import type { CheckedRecord } from './dns/records.ts';
import { parseDomain } from '../mail/address.ts';
import { WAITING_SHOWN_MAX } from './dkim-key-store.ts';
import { DKIM_PEM_MAX_LENGTH } from '../mail/dkim-import.ts';
import { DOMAIN_TLS, type DomainTls, type StoredDomain } from './domain-store.ts';
import { isId } from '../database/ids.ts';
import { readInstallation, setReturnPathHost } from './mail-host-store.ts';

const PAGE = { limit: 100, before: null };
const TRACKED = ['off', 'opens', 'clicks', 'both'] as const;

export function describeDomains(domains: Command, cli: Cli): void {
  addCommand(domains, cli, {
    name: 'add',
    about: 'add a sending domain',
    examples: [
      'domains add acme.com',
      'domains add acme.com --tls enforced',
      'domains add acme.com --dkim-key s1.pem --dkim-selector s1',
    ],
    run: add,
  })
    .argument('<name>', 'as acme.com')
    .addOption(new Option('--tls <how>', 'TLS mode of its emails').choices(DOMAIN_TLS))
    .option('--dkim-key <file>', 'sign with this RSA key (PEM), whose record is published already')
    .option('--dkim-selector <selector>', 'the name of its record before ._domainkey')
    .addOption(projectOption())
    .addOption(modeOption().default('live'));
  addCommand(domains, cli, {
    name: 'verify',
    about: 'look up its DNS records now',
    examples: ['domains verify acme.com'],
    run: verify,
  })
    .argument('<domain>', 'name or id')
    .addOption(projectOption())
    .addOption(modeOption().default('live'));
  addCommand(domains, cli, {
    name: 'set-tls',
    about: 'set the TLS mode of its emails',
    examples: ['domains set-tls acme.com enforced'],
    run: setTls,
  })
    .argument('<domain>', 'name or id')
    .addArgument(new Argument('<how>', 'opportunistic or enforced').choices(DOMAIN_TLS))
    .addOption(projectOption())
    .addOption(modeOption().default('live'));
  addCommand(domains, cli, {
    name: 'set-tracking',
    about: 'set what is tracked of its emails',
    examples: ['domains set-tracking acme.com opens'],
    run: setTracking,
  })
    .argument('<domain>', 'name or id')
    .addArgument(new Argument('<what>', 'off, opens, clicks or both').choices(TRACKED))
    .addOption(projectOption())
    .addOption(modeOption().default('live'));
  describeRotation(domains, cli);
  addCommand(domains, cli, {
    name: 'list',
    about: 'all domains',
    examples: ['domains list'],
    run: list,
  })
    .addOption(projectOption())
    .addOption(modeOption());
  addCommand(domains, cli, {
    name: 'remove',
    about: 'stop sending from a domain',
    examples: ['domains remove acme.com', 'domains remove acme.com --yes'],
    run: remove,
  })
    .argument('<domain>', 'name or id')
    .option('--yes', 'do not ask for confirmation')
    .addOption(projectOption())
    .addOption(modeOption().default('live'));
  describeReturnPathHost(domains, cli);
}

type AddOptions = ScopeOptions & { tls?: DomainTls; dkimKey?: string; dkimSelector?: string };

async function add(cli: Cli, options: AddOptions, [name]: [string]): Promise<Outcome> {
  const dkim = await existingDkim(options);
  if (dkim !== undefined && isFailure(dkim)) return dkim;
  return withFeatures(cli, async ({ db, domains, config }) => {
    const scope = await chooseScope(db, options);
    if (isFailure(scope)) return scope;
    const { tls } = options;
    const domain = await domains.create(scope, name, { tls, dkim });
    if (isRefusal(domain)) return failure(domain);
    const mode = options.mode === 'live' ? '' : ` --mode ${options.mode}`;
    const next = `${cli.program} domains verify ${domain.name}${mode}`;
    const data = presentDomain(domain);
    const records = recordsText(data.records);
    const { returnPathHost } = await readInstallation(db);
    const note = returnPathHost === null ? nameNote(scope, config) : '';
    const advice = data.advice.map(({ message }) => `\n\n! ${message}`).join('');
    return {
      data,
      text: `Publish these records in the DNS of ${domain.name}:\n\n${records}\n\nThen:  ${next}${note}${advice}`,
    };
  });
}

/** Undefined: a new key is made. */
async function existingDkim(options: AddOptions): Promise<ExistingDkim | Failure | undefined> {
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

/** Two of the records name this host, and receivers refuse a name that does not resolve. */
function nameNote({ environment }: Scope, { hostname }: Config): string {
  if (environment === 'test' || hostname.includes('.')) return '';
  return `\n\nThis host calls itself ${hostname}, which other machines cannot look up: set LETTERHAUS_HOSTNAME to its full name, here and for the service; verifying shows the records with it.`;
}

function verify(cli: Cli, options: ScopeOptions, [wanted]: [string]): Promise<Outcome> {
  return withOneDomain(cli, { options, wanted }, async ({ domains }, scope, { id }) => {
    const domain = await domains.verify(scope, id);
    if (isRefusal(domain)) return failure(domain);
    const { name, status } = domain;
    const data = presentDomain(domain);
    if (domain.isKeyUnusable) {
      return { data, text: `${name} cannot send: ${KEY_UNUSABLE}.`, exitCode: 1 };
    }
    const advice = data.advice.map(({ message }) => `! ${message}`);
    if (status === 'verified' && domain.failingSince === null) {
      const better = data.records.flatMap(({ problem, key }) =>
        problem === null || key !== undefined ? [] : [`! ${problem}`],
      );
      const next = data.records.filter(({ key }) => key === 'next');
      const waits = next.length === 0 ? [] : ['', recordsText(next)];
      return {
        data,
        text: [`${name} is verified: it can send.`, ...better, ...advice, ...waits].join('\n'),
      };
    }
    const text = [stateText(domain), recordsText(data.records), ...advice].join('\n\n');
    return { data, text, exitCode: 1 };
  });
}

function stateText({ name, status, failingSince }: StoredDomain): string {
  if (failingSince === null) return `${name} is not verified yet.`;
  if (status === 'failed') {
    return `${name} has failed: required records are missing since ${shortTime(failingSince)}, and it cannot send.`;
  }
  const is = status === 'degraded' ? 'is degraded' : 'is still verified';
  return `${name} ${is}: required records are missing since ${shortTime(failingSince)}. It sends until ${failsAt(failingSince)}; publish them again before.`;
}

function setTls(
  cli: Cli,
  options: ScopeOptions,
  [wanted, tls]: [string, DomainTls],
): Promise<Outcome> {
  return withOneDomain(cli, { options, wanted }, async ({ domains }, scope, { id }) => {
    const domain = await domains.change(scope, id, { tls });
    if (isRefusal(domain)) return failure(domain);
    const text = `TLS is ${tls} for emails that ${domain.name} sends from now on.`;
    return { data: presentDomain(domain), text };
  });
}

function setTracking(
  cli: Cli,
  options: ScopeOptions,
  [wanted, what]: [string, (typeof TRACKED)[number]],
): Promise<Outcome> {
  return withOneDomain(cli, { options, wanted }, async ({ domains }, scope, { id }) => {
    const isBoth = what === 'both';
    const tracking = { opens: isBoth || what === 'opens', clicks: isBoth || what === 'clicks' };
    const domain = await domains.change(scope, id, { tracking });
    if (isRefusal(domain)) return failure(domain);
    const tracked = { off: 'Nothing is', opens: 'Opens are', clicks: 'Clicks are' };
    const subject = isBoth ? 'Opens and clicks are' : tracked[what];
    const text = `${subject} tracked in emails that ${domain.name} sends from now on.`;
    return { data: presentDomain(domain), text };
  });
}

function list(cli: Cli, options: ScopesOptions): Promise<Outcome> {
  return withFeatures(cli, async (features) => {
    const scopes = await chooseScopes(features.db, options);
    if (isFailure(scopes)) return scopes;
    const found = (await Promise.all(scopes.map((scope) => allDomains(features, scope)))).flat();
    const warnings = found.flatMap((domain) =>
      presentDomain(domain)
        .advice.filter(({ about, message }) => about === 'reputation' || message === KEY_UNUSABLE)
        .map(({ message }) => `! ${domain.name} (${domain.environment}): ${message}`),
    );
    return {
      data: { object: 'list', data: found.map(presentDomain), has_more: false },
      text: [
        table(cli, {
          columns: ['ID', { heading: 'DOMAIN', cut: 1 }, 'MODE', 'STATUS', 'TLS', 'CHECKED'],
          rows: found.map((domain) => [
            domain.id,
            domain.name,
            domain.environment,
            domain.status,
            domain.tls,
            shortTime(domain.checkedAt),
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
  });
}

function describeRotation(domains: Command, cli: Cli): void {
  addCommand(domains, cli, {
    name: 'rotate-dkim',
    about: 'replace its DKIM keys',
    examples: ['domains rotate-dkim acme.com', 'domains rotate-dkim acme.com --cancel'],
    run: rotateDkim,
  })
    .argument('<domain>', 'name or id')
    .option('--cancel', 'drop the new keys, while they do not sign yet')
    .addOption(projectOption())
    .addOption(modeOption().default('live'));
}

type RotateOptions = ScopeOptions & { cancel?: true };

function rotateDkim(cli: Cli, options: RotateOptions, [wanted]: [string]): Promise<Outcome> {
  return withOneDomain(cli, { options, wanted }, async ({ domains }, scope, { id }) => {
    if (options.cancel) {
      const domain = await domains.cancelDkimRotation(scope, id);
      if (isRefusal(domain)) return failure(domain);
      const text = `The rotation is canceled; ${domain.name} keeps its keys.`;
      return { data: presentDomain(domain), text };
    }
    const domain = await domains.rotateDkim(scope, id);
    if (isRefusal(domain)) return failure(domain);
    const { name } = domain;
    const data = presentDomain(domain);
    const records = recordsText(data.records.filter(({ key }) => key === 'next'));
    const mode = options.mode === 'live' ? '' : ` --mode ${options.mode}`;
    const next = `${cli.program} domains verify ${name}${mode}`;
    return {
      data,
      text: `Publish these records in the DNS of ${name}, and leave the present ones:\n\n${records}\n\nThe present keys sign until a check finds the first record. Checks follow every hour, or now:  ${next}`,
    };
  });
}

type RemoveOptions = ScopeOptions & { yes?: true };

/** Without a terminal nobody can be asked, and scripts remove domains. */
function remove(cli: Cli, options: RemoveOptions, [wanted]: [string]): Promise<Outcome> {
  return withOneDomain(cli, { options, wanted }, async ({ domains }, scope, { id, name }) => {
    const waiting = await domains.countWaiting(scope, id);
    const fails = waitingText(waiting);
    if (!options.yes && cli.confirm !== undefined) {
      const instead = `To replace its DKIM key only: ${cli.program} domains rotate-dkim ${name}`;
      if (!(await cli.confirm(`${fails}\n${instead}\nRemove ${name}?`))) {
        return { failed: `${name} was not removed.`, code: 'usage_error', exitCode: 1 };
      }
    }
    const domain = await domains.delete(scope, id);
    if (isRefusal(domain)) return failure(domain);
    const data = { object: 'domain', id, deleted: true, waiting };
    return { data, text: `${name} is removed. ${fails}` };
  });
}

function waitingText(waiting: number): string {
  if (waiting === 0) return 'No recipient waits for mail from it.';
  if (waiting === 1) return '1 recipient waits for mail from it, and ends as failed.';
  const count = waiting > WAITING_SHOWN_MAX ? `More than ${WAITING_SHOWN_MAX}` : String(waiting);
  return `${count} recipients wait for mail from it, and end as failed.`;
}

/** Finds a domain by its id, wherever it is, or by its name, and works on it. */
function withOneDomain(
  cli: Cli,
  { options, wanted }: { options: ScopeOptions; wanted: string },
  work: (features: Features, scope: Scope, domain: StoredDomain) => Promise<Outcome>,
): Promise<Outcome> {
  return withFeatures(cli, async (features) => {
    const name = wanted.toLowerCase();
    if (isId(name)) {
      const scopes = await scopesOfId(features.db, options, { table: 'domains', id: name });
      if (isFailure(scopes)) return scopes;
      for (const scope of scopes) {
        const found = await features.domains.get(scope, name);
        if (!isRefusal(found)) return work(features, scope, found);
      }
      return noDomain(`with the id ${name}`);
    }
    const scope = await chooseScope(features.db, options);
    if (isFailure(scope)) return scope;
    const found = (await allDomains(features, scope)).find((domain) => domain.name === name);
    if (found !== undefined) return work(features, scope, found);
    return noDomain(`${JSON.stringify(wanted)} in the ${options.mode} environment`);
  });
}

function noDomain(which: string): Failure {
  const message = `There is no domain ${which}; see letterhaus domains list.`;
  return { failed: message, code: 'not_found', exitCode: 1 };
}

async function allDomains({ domains }: Features, scope: Scope): Promise<StoredDomain[]> {
  const found: StoredDomain[] = [];
  for (;;) {
    const after = found.at(-1)?.id ?? null;
    const { rows, hasMore } = await domains.list(scope, { ...PAGE, after });
    found.push(...rows);
    if (!hasMore) return found;
  }
}

/** One block per record: what to publish where, and what is wrong with it. */
function recordsText(records: readonly CheckedRecord[]): string {
  return records
    .map(({ type, name, value, priority, required, status, problem }) => {
      const what = priority === undefined ? value : `${priority} ${value}`;
      const state = status === 'not_started' ? '' : `   ${status}`;
      const optional = required ? '' : '   (optional)';
      const lines = [`${type}   ${name}${optional}${state}`, `      ${what}`];
      return [...lines, ...(problem === null ? [] : [`      ${problem}`])].join('\n');
    })
    .join('\n\n');
}

function describeReturnPathHost(domains: Command, cli: Cli): void {
  addCommand(domains, cli, {
    name: 'return-path-host',
    about: 'show or set the host that receives bounces',
    examples: ['domains return-path-host', 'domains return-path-host mail.example.com'],
    run: changeReturnPathHost,
  }).argument('[name]', 'as mail.example.com; of one of the nodes, or leading to them all');
}

function changeReturnPathHost(cli: Cli, _: object, [wanted]: [string?]): Promise<Outcome> {
  if (wanted === undefined) return show(cli);
  const name = parseDomain(wanted);
  if (name !== null) return set(cli, name);
  const message = `${JSON.stringify(wanted)} is not fully qualified; write a whole host name, as mail.example.com.`;
  return Promise.resolve(usageFailure(message));
}

function show(cli: Cli): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const { returnPathHost: host, hosts } = await readInstallation(db);
    const names = [...new Set(hosts.map(({ name }) => name))];
    const nodes = names.length === 0 ? 'no node with a full name yet' : names.join(', ');
    const where =
      host === null
        ? 'Nothing is set: it will be the LETTERHAUS_HOSTNAME of the node that starts next.'
        : `${host} receives the bounces of all domains: their MX records name it.`;
    return {
      data: { object: 'return_path_host', name: host, node_names: names },
      text: `${where}\nA domain also verifies with the name of a node as its MX: ${nodes}.`,
    };
  });
}

function set(cli: Cli, name: string): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const { before, verified } = await setReturnPathHost(db, name);
    const { hosts } = await readInstallation(db);
    const data = { object: 'return_path_host', name, before, verified_domains: verified };
    if (before === name || verified === 0) {
      return { data, text: `${name} receives the bounces of all domains.` };
    }
    const count = verified === 1 ? '1 verified domain has' : `${verified} verified domains have`;
    const isOfNode = hosts.some((host) => host.name === before);
    const until = isOfNode
      ? `As long as a node is called ${before}, the record of today counts too; once none is, it has to be replaced within 72 hours`
      : 'It has to be replaced within 72 hours';
    const text = [
      `${name} receives the bounces of all domains from now on; ${count} to publish it:`,
      `MX   send.<domain>   10 ${name}   in place of ${before ?? 'the present one'}.`,
      `${until}, or the domain fails and stops sending. ${name} needs an address record that leads to a node with LETTERHAUS_INBOUND_PORT.`,
    ].join('\n');
    return { data, text };
  });
}
