/** `letterhaus keys`: creates, lists, rotates and revokes API keys. A key is shown only at its creation. */
import { InvalidArgumentError, Option, type Command } from 'commander';
import { PERMISSIONS, type Permission } from '../../core/scope.ts';
import { parseDomain } from '../../mail/address.ts';
import { hashApiKey, parseApiKey } from './api-key.ts';
import type { Queryable } from '../../database/database.ts';
import {
  type ApiKey,
  createKey,
  findCallers,
  listKeys,
  revokeKey,
  rotateKey,
} from './key-store.ts';
import {
  chooseScope,
  chooseScopes,
  modeOption,
  projectOption,
  type ProjectOptions,
  type ScopeOptions,
  scopesOfId,
  type ScopesOptions,
  withStore,
} from '../../cli/store.ts';
import {
  addCommand,
  type Cli,
  type Failure,
  isFailure,
  type Outcome,
  parseName,
  EXAMPLE_ID,
} from '../../cli/command.ts';
import { shortTime, table } from '../../cli/table.ts';

const KEYS_SHOWN_MAX = 1000;
const DAY_S = 86_400;
const OVERLAP_MAX_S = 30 * DAY_S;
const UNIT_MS = { h: 3_600_000, d: 86_400_000 };

export function describeKeys(keys: Command, cli: Cli): void {
  addCommand(keys, cli, {
    name: 'create',
    about: 'create a key and show it once',
    examples: [
      'keys create --mode test',
      'keys create --mode live --permission sending_access --domain acme.com --expires 30d',
    ],
    run: create,
  })
    .addOption(projectOption())
    .addOption(modeOption().makeOptionMandatory())
    .option('--name <name>', 'what it is for', parseName, 'Made on the command line')
    .addOption(
      new Option('--permission <permission>', 'what it may do')
        .choices(PERMISSIONS)
        .default('full_access'),
    )
    .option('--domain <domain>', 'the only domain it may send from', parseKeyDomain)
    .option('--expires <when>', 'in 12h or 30d, or at a time, as 2027-01-31', (text) =>
      parseExpiry(text, cli.world.now()),
    );
  addCommand(keys, cli, {
    name: 'list',
    about: 'the keys that are not revoked',
    examples: ['keys list'],
    run: list,
  })
    .addOption(projectOption())
    .addOption(modeOption());
  addCommand(keys, cli, {
    name: 'rotate',
    about: 'make a key like another one, which ends after an overlap',
    examples: [`keys rotate ${EXAMPLE_ID} --overlap 7d`],
    run: rotate,
  })
    .argument('<id>', 'its id, or the key itself')
    .option(
      '--overlap <time>',
      'how long the old key stays valid: 24h, 7d or 0',
      parseOverlapS,
      DAY_S,
    )
    .addOption(projectOption());
  addCommand(keys, cli, {
    name: 'revoke',
    about: 'revoke a key permanently',
    examples: [`keys revoke ${EXAMPLE_ID}`],
    run: revoke,
  })
    .argument('<id>', 'its id, or the key itself')
    .addOption(projectOption());
}

type CreateOptions = ScopeOptions & {
  name: string;
  permission: Permission;
  domain?: string;
  expires?: Date;
};

function create(cli: Cli, options: CreateOptions): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const scope = await chooseScope(db, options);
    if (isFailure(scope)) return scope;
    const { key, text } = await createKey(db, scope, {
      name: options.name,
      permission: options.permission,
      domain: options.domain ?? null,
      expiresAt: options.expires ?? null,
    });
    const { id, projectId, environment } = key;
    return {
      data: { id, key: text, project_id: projectId, environment },
      text: `${text}\n\nThis ${environment} key is shown only once (id ${id}).`,
    };
  });
}

function list(cli: Cli, options: ScopesOptions): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const scopes = await chooseScopes(db, options);
    if (isFailure(scopes)) return scopes;
    const page = { limit: KEYS_SHOWN_MAX, after: null, before: null };
    const pages = await Promise.all(scopes.map((scope) => listKeys(db, scope, page)));
    const keys = pages.flatMap(({ rows }) => rows);
    return {
      data: {
        object: 'list',
        data: keys.map(keyJson),
        has_more: pages.some(({ hasMore }) => hasMore),
      },
      text: table(cli, {
        columns: [
          'ID',
          'KEY',
          'MODE',
          'PERMISSION',
          { heading: 'DOMAIN', cut: 2 },
          'EXPIRES',
          'LAST USED',
          { heading: 'NAME', cut: 1 },
        ],
        rows: keys.map(keyCells),
        none: {
          says: 'There is no key.',
          toDo: 'To create one',
          command: `keys create --mode ${options.mode ?? 'test'}`,
        },
      }),
    };
  });
}

type RotateOptions = ProjectOptions & { overlap: number };

function rotate(cli: Cli, options: RotateOptions, [wanted]: [string]): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const id = await idOf(db, wanted);
    const scopes = await scopesOfId(db, options, { table: 'api_keys', id });
    if (isFailure(scopes)) return scopes;
    for (const scope of scopes) {
      const rotated = await rotateKey(db, scope, { id, overlapS: options.overlap });
      if (rotated === null) continue;
      const { key, text, previousExpiresAt } = rotated;
      const replaces = { id, expires_at: previousExpiresAt };
      return {
        data: {
          id: key.id,
          key: text,
          project_id: key.projectId,
          environment: key.environment,
          replaces,
        },
        text: `${text}\n\nThis ${key.environment} key is shown only now (id ${key.id}). The old one ends at ${shortTime(previousExpiresAt)}.`,
      };
    }
    return noKey(id);
  });
}

function revoke(cli: Cli, options: ProjectOptions, [wanted]: [string]): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const id = await idOf(db, wanted);
    const scopes = await scopesOfId(db, options, { table: 'api_keys', id });
    if (isFailure(scopes)) return scopes;
    for (const scope of scopes) {
      if (!(await revokeKey(db, scope, id))) continue;
      return { data: { id, revoked: true }, text: `Key ${id} is revoked.` };
    }
    return noKey(id);
  });
}

function noKey(id: string): Failure {
  const message = `There is no key with the id ${JSON.stringify(id)}; see letterhaus keys list.`;
  return { failed: message, code: 'not_found', exitCode: 1 };
}

/** Of a key that leaked the text may be all that there is. What is no key's text is taken for an id. */
async function idOf(db: Queryable, wanted: string): Promise<string> {
  if (parseApiKey(wanted) === null) return wanted;
  const hash = hashApiKey(wanted);
  return (await findCallers(db, [hash])).get(hash)?.keyId ?? 'of this key';
}

function keyCells(key: ApiKey): string[] {
  const { id, hint, environment, permission, domain, name } = key;
  const times = [shortTime(key.expiresAt), shortTime(key.lastUsedAt)];
  return [id, hint, environment, permission, domain ?? 'any', ...times, name];
}

function keyJson(key: ApiKey) {
  return {
    object: 'api_key',
    id: key.id,
    name: key.name,
    environment: key.environment,
    hint: key.hint,
    permission: key.permission,
    domain: key.domain,
    created_at: key.createdAt,
    expires_at: key.expiresAt,
    last_used_at: key.lastUsedAt,
  };
}

function parseKeyDomain(text: string): string {
  const domain = parseDomain(text);
  if (domain !== null) return domain;
  throw new InvalidArgumentError('Write a domain, as acme.com.');
}

function parseExpiry(text: string, nowMs: number): Date {
  const span = /^(\d{1,5})([hd])$/.exec(text);
  const atMs = span
    ? nowMs + Number(span[1]) * UNIT_MS[span[2] as keyof typeof UNIT_MS]
    : Date.parse(text);
  if (atMs > nowMs) return new Date(atMs);
  throw new InvalidArgumentError('Write 12h, 30d, or a time to come, as 2027-01-31.');
}

function parseOverlapS(text: string): number {
  const span = /^(\d{1,5})([hd])$/.exec(text);
  const overlapMs = span ? Number(span[1]) * UNIT_MS[span[2] as keyof typeof UNIT_MS] : 0;
  if ((span || text === '0') && overlapMs <= OVERLAP_MAX_S * 1000) return overlapMs / 1000;
  throw new InvalidArgumentError('Write 24h, 7d, at most 30d, or 0.');
}
