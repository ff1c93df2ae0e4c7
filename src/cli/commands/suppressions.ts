/** `posthorn suppressions`: the addresses that get no more mail. */
import { InvalidArgumentError, type Command } from 'commander';
import type { Scope } from '../../core/scope.ts';
import { explainAddress, parseAddress, type Address } from '../../mail/address.ts';
import type { Queryable } from '../../store/database.ts';
import {
  addSuppression,
  listSuppressions,
  presentSuppression,
  removeSuppression,
  type Suppression,
} from '../../store/suppressions.ts';
import {
  chooseScope,
  chooseScopes,
  modeOption,
  projectOption,
  type ScopeOptions,
  type ScopesOptions,
} from '../choose-project.ts';
import { addCommand, isFailure, type Outcome } from '../command.ts';
import type { Cli } from '../context.ts';
import { withStore } from '../store.ts';
import { shortTime, table } from '../table.ts';

const PAGE_SIZE = 1000;

export function describeSuppressions(suppressions: Command, cli: Cli): void {
  addCommand(suppressions, cli, { name: 'list', about: 'all suppressed addresses', run: list })
    .addOption(projectOption())
    .addOption(modeOption());
  addCommand(suppressions, cli, { name: 'add', about: 'send no more mail to it', run: add })
    .argument('<address>', '', parseSuppressed)
    .addOption(projectOption())
    .addOption(modeOption().default('live'));
  addCommand(suppressions, cli, { name: 'remove', about: 'let it have mail again', run: remove })
    .argument('<address>', '', parseSuppressed)
    .addOption(projectOption())
    .addOption(modeOption().default('live'));
}

function list(cli: Cli, options: ScopesOptions): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const scopes = await chooseScopes(db, options);
    if (isFailure(scopes)) return scopes;
    const found = (await Promise.all(scopes.map((scope) => allIn(db, scope)))).flat();
    return {
      data: { object: 'list', data: found.map(entryJson), has_more: false },
      text: table(
        ['ADDRESS', 'MODE', 'REASON', 'SINCE', 'UNTIL'],
        found.map(({ address, reason, createdAt, expiresAt, environment }) => [
          address,
          environment,
          reason,
          shortTime(createdAt),
          shortTime(expiresAt),
        ]),
        'No address is suppressed.',
      ),
    };
  });
}

function add(cli: Cli, options: ScopeOptions, [address]: [Address]): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const scope = await chooseScope(db, options);
    if (isFailure(scope)) return scope;
    const { suppression, isNew } = await addSuppression(db, scope, address);
    const text = isNew
      ? `${address} gets no more mail.`
      : `${address} was suppressed already (${suppression.reason}).`;
    return { data: entryJson({ ...suppression, environment: scope.environment }), text };
  });
}

function remove(cli: Cli, options: ScopeOptions, [address]: [Address]): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const scope = await chooseScope(db, options);
    if (isFailure(scope)) return scope;
    const removed = await removeSuppression(db, scope, address);
    if (removed !== null) {
      const data = { object: 'suppression', address: removed.address, deleted: true };
      return { data, text: `${address} can have mail again.` };
    }
    const message = `${address} is not suppressed in the ${options.mode} environment.`;
    return { failed: message, code: 'not_found', exitCode: 1 };
  });
}

type Entry = Suppression & Pick<Scope, 'environment'>;

async function allIn(db: Queryable, scope: Scope): Promise<Entry[]> {
  const found: Suppression[] = [];
  for (;;) {
    const after = found.at(-1)?.address ?? '';
    const rows = await listSuppressions(db, scope, { limit: PAGE_SIZE, after });
    found.push(...rows.slice(0, PAGE_SIZE));
    if (rows.length > PAGE_SIZE) continue;
    return found.map((entry) => ({ ...entry, environment: scope.environment }));
  }
}

function entryJson(entry: Entry) {
  return {
    object: 'suppression',
    ...presentSuppression(entry),
    environment: entry.environment,
  };
}

function parseSuppressed(text: string): Address {
  const address = parseAddress(text);
  if (address !== null) return address;
  throw new InvalidArgumentError(`${explainAddress(text)}.`);
}
