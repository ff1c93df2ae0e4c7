/** `letterhaus log`: prints the history of an address in all projects, from the database and not from log files. */
import type { Command } from 'commander';
import type { RecipientLogEntry, RecipientLogList } from '../../../sdk/src/api.ts';
import type { Address } from '../../mail/address.ts';
import { type Api, type ApiOptions, apiRunnable } from '../../cli/api.ts';
import {
  type Cli,
  type CommandResult,
  parseAddressArgument,
  usageFailure,
} from '../../cli/command.ts';
import { countUpTo } from '../../cli/lists.ts';
import { shortTime, table } from '../../cli/table.ts';

const LIMIT_MAX = 1_000;

type Options = ApiOptions & { to?: Address; limit: number };
type Search = Options & { to: Address };

export function describeLog(log: Command, cli: Cli): void {
  apiRunnable(log, cli, {
    examples: ['log jo@example.org', 'log --to jo@example.org --limit 200 --json'],
    notes:
      'Newest first, of all projects unless --project names one. `emails show` has the whole timeline of an email. ' +
      'The exit code is 1 when nothing is known of the address.',
    environment: 'both',
    run: show,
  })
    .argument('[address]', 'what happened to this recipient', parseAddressArgument)
    .option('--to <address>', 'the same as the argument', parseAddressArgument)
    .option(
      '--limit <n>',
      `maximum number of entries, up to ${LIMIT_MAX}`,
      countUpTo(LIMIT_MAX),
      50,
    );
}

async function show(api: Api, options: Options, [address]: [Address?]): Promise<CommandResult> {
  const { to = address, limit } = options;
  if (to === undefined || (address !== undefined && address !== to)) {
    return usageFailure('Name one address: letterhaus log jo@example.org, or --to <address>.');
  }
  const found = await read(api, { ...options, to });
  const suppressed = found.flatMap((one) => one.suppressed);
  const entries = found
    .flatMap(({ data }) => data)
    .toSorted((one, other) => (one.at < other.at ? 1 : -1));
  const isUnknown = entries.length === 0 && suppressed.length === 0;
  const log = {
    object: 'list' as const,
    address: to as string,
    suppressed,
    data: entries.slice(0, limit),
    has_more: entries.length > limit || found.some(({ has_more: hasMore }) => hasMore),
  };
  return {
    data: log,
    text: isUnknown ? await unknownText(api, to) : logText(api.cli, log),
    ...(isUnknown && { exitCode: 1 as const }),
  };
}

async function unknownText(api: Api, to: string): Promise<string> {
  const client = api.isOperator ? api.clientFor({ project: '*' }) : api.client;
  const { metadata_hours: hours } = (await client.projects.limits()).retention;
  const kept =
    hours === null
      ? ''
      : ` Emails are kept for ${Math.round(hours / 24)} days; older ones are deleted.`;
  return `Nothing is known of ${to}: no email to it is stored, and no suppression list contains it.${kept}`;
}

/** Reads all projects at once, or each environment of one project. */
async function read(
  api: Api,
  { to, project, environment, limit }: Search,
): Promise<RecipientLogList[]> {
  if (api.isOperator && project === undefined) {
    const query = { scope: 'organization' as const, environment, limit };
    return [await api.clientFor({ project: '*' }).recipients.log(to, query)];
  }
  const parts = await api.all();
  return Promise.all(parts.map(({ client }) => client.recipients.log(to, { limit })));
}

function logText(cli: Cli, { address, suppressed, data }: RecipientLogList): string {
  const lists = suppressed.map((one) => {
    const until = one.expires_at === null ? '' : ` until ${shortTime(one.expires_at)}`;
    const why = `${one.reason}, since ${shortTime(one.created_at)}${until}`;
    const still = one.simulated ? '. It is a simulator address, so it still gets mail' : '';
    return `${address} is suppressed in ${one.project} (${one.environment}): ${why}${still}.\n`;
  });
  const lines = table(cli, {
    columns: [
      'TIME',
      { heading: 'PROJECT', cut: 1 },
      'ENVIRONMENT',
      'EMAIL',
      'WHAT',
      { heading: 'WHY', wraps: true },
    ],
    rows: data.map((entry) => [
      shortTime(entry.at),
      entry.project,
      entry.environment,
      entry.email_id ?? '-',
      entry.type,
      whyText(entry),
    ]),
    none: `No email to ${address} is stored.`,
  });
  return `${lists.join('')}${lists.length > 0 ? '\n' : ''}${lines}`;
}

/** Formats the reply with its server, else the advice. A suppression has its reason and its author. */
function whyText({ code, message, mx, category, advice, reason, by }: RecipientLogEntry): string {
  if (reason !== null) return `${reason}, by ${by}`;
  const reply =
    message === null ? advice : [code, message].filter((part) => part !== null).join(' ');
  const server = mx === null ? '' : ` (${mx})`;
  const kind = category === null ? '' : `${category}: `;
  return reply === null ? '' : `${kind}${reply}${server}`;
}
