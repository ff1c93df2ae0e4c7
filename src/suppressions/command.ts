/**
 * `letterhaus suppressions`: lists, shows, adds and removes suppressed addresses through the API. file-command.ts
 * contains import and export.
 */
import type { Command } from 'commander';
import type { Suppression, SuppressionChange, SuppressionHistory } from '../../sdk/src/api.ts';
import {
  listInAll,
  type Api,
  apiCommand,
  type ApiOptions,
  listData,
  explainNotFound,
  nullIfNotFound,
} from '../cli/api.ts';
import { type Cli, type CommandResult, parseAddressArgument } from '../cli/command.ts';
import { PAGE_MAX } from '../cli/lists.ts';
import { shortTime, table } from '../cli/table.ts';
import type { Address } from '../mail/address.ts';
import { describeSuppressionFiles } from './file-command.ts';

export function describeSuppressions(suppressions: Command, cli: Cli): void {
  apiCommand(suppressions, cli, {
    name: 'list',
    about: 'list suppressed addresses',
    examples: ['suppressions list --environment live'],
    environment: 'both',
    run: list,
  });
  const commands = { show, add, remove };
  const about = {
    show: 'show whether an address is suppressed, with its history',
    add: 'add an address, so that it gets no mail',
    remove: 'remove an address, so that it gets mail again',
  };
  for (const name of ['show', 'add', 'remove'] as const) {
    apiCommand(suppressions, cli, {
      name,
      about: about[name],
      examples: [`suppressions ${name} jo@example.org`],
      environment: 'live',
      run: (api, _options: ApiOptions, [address]: [Address]) => commands[name](api, address),
    }).argument('<address>', '', parseAddressArgument);
  }
  describeSuppressionFiles(suppressions, cli);
}

async function list(api: Api): Promise<CommandResult> {
  const found = await listInAll(await api.all(), ({ suppressions }) =>
    suppressions.list({ limit: PAGE_MAX }),
  );
  return {
    data: listData(found),
    text: table(api.cli, {
      columns: [{ heading: 'ADDRESS', cut: 1 }, 'ENVIRONMENT', 'REASON', 'SINCE', 'UNTIL'],
      rows: found.map((entry) => [
        entry.address,
        entry.environment,
        entry.simulated ? `${entry.reason} (simulated)` : entry.reason,
        shortTime(entry.created_at),
        shortTime(entry.expires_at),
      ]),
      none: {
        says: 'No address is suppressed. Letterhaus adds addresses that bounce permanently or complain.',
        toDo: 'To add one',
        command: 'suppressions add jo@example.org',
      },
    }),
  };
}

async function show(api: Api, address: Address): Promise<CommandResult> {
  const { suppressions } = api.client;
  const found = await nullIfNotFound(suppressions.get(address));
  const entry = found
    ? { ...found, environment: api.environment }
    : { ...(await historyOf(api, address)), object: 'suppression', address, reason: null };
  return {
    data: entry,
    text: `${describeEntry(address, found)}\n\n${historyTable(api.cli, entry.history)}`,
    ...(found === null && { exitCode: 1 as const }),
  };
}

async function historyOf(
  { client }: Api,
  address: Address,
): Promise<{ history: SuppressionHistory['data'] }> {
  const { data: history } = await client.suppressions.history(address);
  return { history };
}

function describeEntry(address: string, found: Suppression | null): string {
  if (found === null) return `${address} is not suppressed.`;
  const { reason, created_at: since, expires_at: end, source_email_id: source } = found;
  const until = end === null ? '' : `, until ${shortTime(end)}`;
  const because = source === null ? '' : `, because of email ${source}`;
  const still = found.simulated ? ' It is a simulator address, so it still gets mail.' : '';
  return `${address} has been suppressed since ${shortTime(since)} (${reason})${until}${because}.${still}`;
}

function historyTable(cli: Cli, history: readonly SuppressionChange[]): string {
  return table(cli, {
    columns: ['AT', 'WHAT', 'REASON', { heading: 'BY', cut: 1 }],
    rows: history.map(({ at, action, reason, by }) => [shortTime(at), action, reason, by]),
    none: 'It has no history in the last 400 days.',
  });
}

const CREATED = 201;

async function add(api: Api, address: Address): Promise<CommandResult> {
  const entry = await api.client.suppressions.create({ address });
  const isNew = api.lastScope().status === CREATED;
  const text = isNew
    ? `${address} gets no more mail.`
    : `${address} was suppressed already (${entry.reason}).`;
  return { data: { ...entry, environment: api.environment }, text };
}

async function remove(api: Api, address: Address): Promise<CommandResult> {
  const data = await explainNotFound(
    api.client.suppressions.delete(address),
    `${address} is not suppressed in the ${api.environment} environment.`,
  );
  return { data, text: `${address} gets mail again.` };
}
