/** `letterhaus keys`: creates, lists, rotates and revokes API keys. A key is shown only at its creation. */
import { InvalidArgumentError, Option, type Command } from 'commander';
import type { ApiKey } from '../../../sdk/src/api.ts';
import { parseApiKey } from './api-key.ts';
import { type Environment, PERMISSIONS, type Permission } from '../../core/scope.ts';
import { parseDomain } from '../../mail/address.ts';
import {
  listInAll,
  type Api,
  apiCommand,
  type ApiOptions,
  currentKey,
  listData,
  explainNotFound,
} from '../../cli/api.ts';
import { type Cli, EXAMPLE_ID, type CommandResult, parseName } from '../../cli/command.ts';
import { shortTime, table } from '../../cli/table.ts';
import { DAY_S } from '../../lib/units.ts';

const OVERLAP_MAX_S = 30 * DAY_S;
const UNIT_MS = { h: 3_600_000, d: 86_400_000 };

export function describeKeys(keys: Command, cli: Cli): void {
  apiCommand(keys, cli, {
    name: 'create',
    about: 'create a key and show it once',
    examples: [
      'keys create --environment test',
      'keys create --environment live --permission sending_access --domain acme.com --expires 30d',
    ],
    environment: 'asked',
    run: create,
  })
    .option('--name <name>', 'name of the key', parseName, 'Made on the command line')
    .addOption(
      new Option('--permission <permission>', 'what the key may do')
        .choices(PERMISSIONS)
        .default('full_access'),
    )
    .option('--domain <domain>', 'restrict the key to this sending domain', parseKeyDomain)
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

type CreateOptions = ApiOptions & {
  name: string;
  permission: Permission;
  domain?: string;
  expires?: Date;
};

async function create(api: Api, options: CreateOptions): Promise<CommandResult> {
  const { name, permission, domain, expires } = options;
  const expires_at = expires?.toISOString();
  const created = await api.client.apiKeys.create({ name, permission, domain, expires_at });
  const text = `${created.key}\n\nThis ${created.environment} key is shown only once (id ${created.id}).`;
  return { data: { ...created, project_id: await findProjectId(api) }, text };
}

async function list(api: Api, options: ApiOptions): Promise<CommandResult> {
  const keys = await listInAll(await api.all(), (client) => client.apiKeys.list({ limit: 100 }));
  return {
    data: listData(keys),
    text: table(api.cli, {
      columns: [
        'ID',
        'KEY',
        'ENVIRONMENT',
        'PERMISSION',
        { heading: 'DOMAIN', cut: 2 },
        'EXPIRES',
        'LAST USED',
        { heading: 'NAME', cut: 1 },
      ],
      rows: keys.map(keyCells),
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
    text: `${rotated.key}\n\nThis ${rotated.environment} key is shown only now (id ${rotated.id}). The old key expires at ${until}.`,
  };
}

async function revoke(api: Api, options: ApiOptions, [idOrKey]: [string]): Promise<CommandResult> {
  const id = await findId(api, options, idOrKey);
  const revoked = await explainNotFound(api.byId.apiKeys.revoke(id), noKeyMessage(id));
  return { data: { ...revoked, revoked: true }, text: `Key ${id} is revoked.` };
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
  return (await currentKey(api.cli, options, idOrKey))?.id ?? 'of this key';
}

function keyCells(key: ApiKey & { environment: Environment }): string[] {
  const { id, hint, environment, permission, domain, name } = key;
  const times = [shortTime(key.expires_at), shortTime(key.last_used_at)];
  return [id, hint, environment, permission, domain ?? 'any', ...times, name];
}

function parseKeyDomain(text: string): string {
  const domain = parseDomain(text);
  if (domain !== null) return domain;
  throw new InvalidArgumentError('Write a domain, such as acme.com.');
}

function parseExpiry(text: string, nowMs: number): Date {
  const span = /^(\d{1,5})([hd])$/.exec(text);
  const atMs = span
    ? nowMs + Number(span[1]) * UNIT_MS[span[2] as keyof typeof UNIT_MS]
    : Date.parse(text);
  if (atMs > nowMs) return new Date(atMs);
  throw new InvalidArgumentError('Write 12h, 30d, or a time in the future, such as 2027-01-31.');
}

function parseOverlapS(text: string): number {
  const span = /^(\d{1,5})([hd])$/.exec(text);
  const overlapMs = span ? Number(span[1]) * UNIT_MS[span[2] as keyof typeof UNIT_MS] : 0;
  if ((span || text === '0') && overlapMs <= OVERLAP_MAX_S * 1000) return overlapMs / 1000;
  throw new InvalidArgumentError('Write 24h, 7d, at most 30d, or 0.');
}
