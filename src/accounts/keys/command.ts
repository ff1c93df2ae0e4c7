/** `letterhaus keys`: creates, lists, changes, rotates and revokes API keys. A key is shown only at its creation. */
import { InvalidArgumentError, Option, type Command } from 'commander';
import type { ApiKey } from '../../../sdk/src/api.ts';
import { LetterhausError } from '../../../sdk/src/errors.ts';
import { parseApiKey } from './api-key.ts';
import { type Environment, PERMISSIONS, type Permission } from '../../core/scope.ts';
import {
  listInAll,
  type Api,
  apiCommand,
  type ApiOptions,
  currentKey,
  listData,
  explainNotFound,
} from '../../cli/api.ts';
import {
  type Cli,
  EXAMPLE_ID,
  type CommandResult,
  parseDomainArgument,
  parseName,
} from '../../cli/command.ts';
import { PAGE_MAX } from '../../cli/lists.ts';
import { shortTime, table } from '../../cli/table.ts';
import { DAY_S, parsePeriodMs } from '../../lib/units.ts';

const OVERLAP_MAX_S = 30 * DAY_S;

export function describeKeys(keys: Command, cli: Cli): void {
  addLists(
    apiCommand(keys, cli, {
      name: 'create',
      about: 'create a key and show it once',
      examples: [
        'keys create --environment test',
        'keys create --environment live --permission sending_access --domain acme.com --expires 30d',
        'keys create --environment live --network 203.0.113.0/24 --sender billing@acme.com',
      ],
      environment: 'asked',
      run: create,
    }),
  )
    .option('--name <name>', 'name of the key', parseName, 'Made on the command line')
    .addOption(
      new Option('--permission <permission>', 'what the key may do')
        .choices(PERMISSIONS)
        .default('full_access'),
    )
    .option('--domain <domain>', 'restrict the key to this sending domain', parseDomainArgument)
    .option('--expires <when>', 'expiry: 12h, 30d, or a time such as 2027-01-31', (text) =>
      parseExpiry(text, cli.world.now()),
    );
  apiCommand(keys, cli, {
    name: 'list',
    about: 'list keys that are not revoked',
    examples: ['keys list'],
    environment: 'both',
    run: list,
  });
  addLists(
    apiCommand(keys, cli, {
      name: 'update',
      about: 'change the name of a key, or its networks, senders and recipients',
      examples: [
        `keys update ${EXAMPLE_ID} --network 203.0.113.0/24 --network 2001:db8::/32`,
        `keys update ${EXAMPLE_ID} --recipient acme.com --sender any`,
      ],
      environment: 'of_id',
      run: update,
    }),
  )
    .argument('<id>', 'id of the key, or the key itself')
    .option('--name <name>', 'name of the key', parseName);
  apiCommand(keys, cli, {
    name: 'rotate',
    about: 'replace a key with a new one; the old key stays valid for the overlap',
    examples: [`keys rotate ${EXAMPLE_ID} --overlap 7d`],
    environment: 'of_id',
    run: rotate,
  })
    .argument('<id>', 'id of the key, or the key itself')
    .option(
      '--overlap <time>',
      'how long the old key stays valid: 24h, 7d or 0',
      parseOverlapS,
      DAY_S,
    );
  apiCommand(keys, cli, {
    name: 'revoke',
    about: 'revoke a key permanently',
    examples: [`keys revoke ${EXAMPLE_ID}`],
    environment: 'of_id',
    run: revoke,
  }).argument('<id>', 'id of the key, or the key itself');
}

const UNKNOWN_KEY = {
  status: 404,
  code: 'not_found',
  message: 'The service does not know this key.',
  request_id: null,
  details: [],
  retry_after: null,
} as const;
const ANY = 'any';
const NO_LISTS = 'no';

/** The options for the lists of a key. Each may be given several times. */
function addLists(command: Command): Command {
  const collect = (text: string, before: readonly string[] = []): string[] => [...before, text];
  return command
    .option('--network <network>', 'network from which the key may be used; repeatable', collect)
    .option('--sender <pattern>', 'address or domain that it may send from; repeatable', collect)
    .option('--recipient <pattern>', 'address or domain that it may send to; repeatable', collect);
}

type ListOptions = { network?: string[]; sender?: string[]; recipient?: string[] };

/** Returns the given lists. `any` removes a list, so the key is not limited by it. */
function listsOf({ network, sender, recipient }: ListOptions) {
  const listOf = (entries: string[]) => (entries.includes(ANY) ? null : entries);
  return {
    ...(network && { allowed_networks: listOf(network) }),
    ...(sender && { allowed_senders: listOf(sender) }),
    ...(recipient && { allowed_recipients: listOf(recipient) }),
  };
}

type CreateOptions = ApiOptions &
  ListOptions & {
    name: string;
    permission: Permission;
    domain?: string;
    expires?: Date;
  };

async function create(api: Api, options: CreateOptions): Promise<CommandResult> {
  const { name, permission, domain, expires } = options;
  const expires_at = expires?.toISOString();
  const rights = { permission, domain, expires_at, ...listsOf(options) };
  const created = await api.client.apiKeys.create({ name, ...rights });
  const shown = `${created.key}\n\nThis ${created.environment} key is shown only once (id ${created.id}).`;
  const text = [shown, ...warningLines(created)].join('\n');
  return { data: { ...created, project_id: await findProjectId(api) }, text };
}

function warningLines({ warnings }: Pick<ApiKey, 'warnings'>): string[] {
  return warnings.map((warning) => `Warning: ${warning}`);
}

async function update(
  api: Api,
  options: ApiOptions & ListOptions & { name?: string },
  [idOrKey]: [string],
): Promise<CommandResult> {
  const { name } = options;
  const change = { ...(name !== undefined && { name }), ...listsOf(options) };
  if (Object.keys(change).length === 0) {
    const failed = 'Nothing to change: set --name, --network, --sender or --recipient.';
    return { failed, code: 'validation_error', exitCode: 2 };
  }
  const id = await findId(api, options, idOrKey);
  const changed = await explainNotFound(api.byId.apiKeys.update(id, change), noKeyMessage(id));
  const lines = [`Changed key ${id}.`, ...limitLines(changed), ...warningLines(changed)];
  return { data: changed, text: lines.join('\n') };
}

function limitLines(key: ApiKey): string[] {
  const lists = [
    ['used from', key.allowed_networks],
    ['sends from', key.allowed_senders],
    ['sends to', key.allowed_recipients],
  ] as const;
  return lists.map(([what, entries]) => `${what}: ${entries?.join(', ') ?? ANY}`);
}

async function list(api: Api, options: ApiOptions): Promise<CommandResult> {
  const keys = await listInAll(await api.all(), (client) =>
    client.apiKeys.list({ limit: PAGE_MAX }),
  );
  // A column for few keys would cut the names of all.
  const hasLists = keys.some((key) => limitedBy(key) !== NO_LISTS);
  return {
    data: listData(keys),
    text: table(api.cli, {
      columns: [
        'ID',
        'KEY',
        'ENVIRONMENT',
        'PERMISSION',
        { heading: 'DOMAIN', cut: 2 },
        ...(hasLists ? ['LIMITED'] : []),
        'EXPIRES',
        'LAST USED',
        { heading: 'NAME', cut: 1 },
      ],
      rows: keys.map((key) => keyCells(key, hasLists)),
      none: {
        says: 'There are no API keys.',
        toDo: 'To create one',
        command: `keys create --environment ${options.environment ?? 'test'}`,
      },
    }),
  };
}

type RotateOptions = ApiOptions & { overlap: number };

async function rotate(
  api: Api,
  options: RotateOptions,
  [idOrKey]: [string],
): Promise<CommandResult> {
  const id = await findId(api, options, idOrKey);
  const request = api.byId.apiKeys.rotate(id, { expires_in: options.overlap });
  const rotated = await explainNotFound(request, noKeyMessage(id));
  const until = shortTime(rotated.replaces.expires_at);
  return {
    data: { ...rotated, project_id: await findProjectId(api) },
    text: `${rotated.key}\n\nThis ${rotated.environment} key is shown only once (id ${rotated.id}). The old key expires at ${until}.`,
  };
}

async function revoke(api: Api, options: ApiOptions, [idOrKey]: [string]): Promise<CommandResult> {
  const id = await findId(api, options, idOrKey);
  const revoked = await explainNotFound(api.byId.apiKeys.revoke(id), noKeyMessage(id));
  return { data: { ...revoked, revoked: true }, text: `Revoked key ${id}.` };
}

async function findProjectId(api: Api): Promise<string> {
  return api.lastScope().projectId ?? (await api.client.apiKeys.current()).project.id;
}

function noKeyMessage(id: string): string {
  return `There is no key with the id ${JSON.stringify(id)}; see letterhaus keys list.`;
}

/** Accepts the key itself too, because a leaked key may be all that the operator has. Other text is used as an id. */
async function findId(api: Api, options: ApiOptions, idOrKey: string): Promise<string> {
  if (parseApiKey(idOrKey) === null) return idOrKey;
  const found = await currentKey(api.cli, options, idOrKey);
  if (found === null) throw new LetterhausError(UNKNOWN_KEY);
  return found.id;
}

function keyCells(key: ApiKey & { environment: Environment }, hasLists: boolean): string[] {
  const { id, hint, environment, permission, domain, name } = key;
  const times = [shortTime(key.expires_at), shortTime(key.last_used_at)];
  const limited = hasLists ? [limitedBy(key)] : [];
  return [id, hint, environment, permission, domain ?? 'any', ...limited, ...times, name];
}

/** Names the lists that the key has. `--json` shows their entries. */
function limitedBy(key: ApiKey): string {
  const lists = [
    key.allowed_networks && 'networks',
    key.allowed_senders && 'senders',
    key.allowed_recipients && 'recipients',
  ];
  return lists.filter((name) => name !== null).join(', ') || NO_LISTS;
}

function parseExpiry(text: string, nowMs: number): Date {
  const periodMs = parsePeriodMs(text, 'hd');
  const atMs = periodMs === null ? Date.parse(text) : nowMs + periodMs;
  if (atMs > nowMs) return new Date(atMs);
  throw new InvalidArgumentError('Write 12h, 30d, or a time in the future, such as 2027-01-31.');
}

function parseOverlapS(text: string): number {
  const overlapMs = text === '0' ? 0 : parsePeriodMs(text, 'hd');
  if (overlapMs !== null && overlapMs <= OVERLAP_MAX_S * 1000) return overlapMs / 1000;
  throw new InvalidArgumentError('Write 24h, 7d, at most 30d, or 0.');
}
