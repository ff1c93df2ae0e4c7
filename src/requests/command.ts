/** `letterhaus requests`: lists and shows the API log: requests that failed or changed something. */
import { type Command, Option } from 'commander';
import type { ApiRequest } from '../../sdk/src/api.ts';
import { LetterhausError } from '../../sdk/src/errors.ts';
import { type Api, apiCommand, type ApiOptions, listData } from '../cli/api.ts';
import { type Cli, EXAMPLE_ID, type CommandResult } from '../cli/command.ts';
import { countUpTo, takeRows, PAGE_MAX } from '../cli/lists.ts';
import { facts, shortTime, table } from '../cli/table.ts';

const LIMIT_MAX = 1_000;
const METHODS = ['GET', 'POST', 'PATCH', 'PUT', 'DELETE'] as const;

export function describeRequests(requests: Command, cli: Cli): void {
  apiCommand(requests, cli, {
    name: 'list',
    about: 'list requests that failed or changed something, newest first',
    examples: ['requests list --status failed', 'requests list --status 422 --environment live'],
    environment: 'both',
    run: list,
  })
    .option('--status <status>', '422, 4xx, or failed')
    .addOption(new Option('--method <method>', 'only with this method').choices(METHODS))
    .option(
      '--limit <n>',
      `maximum number of entries, up to ${LIMIT_MAX}`,
      countUpTo(LIMIT_MAX),
      30,
    );
  apiCommand(requests, cli, {
    name: 'show',
    about: 'show one request, by the id of its response (X-Request-Id)',
    examples: [`requests show ${EXAMPLE_ID}`],
    environment: 'both',
    run: show,
  }).argument('<id>');
}

type ListOptions = ApiOptions & {
  status?: string;
  method?: (typeof METHODS)[number];
  limit: number;
};

async function list(api: Api, { status, method, limit }: ListOptions): Promise<CommandResult> {
  const query = { status, method, limit: Math.min(limit + 1, PAGE_MAX) };
  const parts = await api.all();
  const found = await Promise.all(
    parts.map(({ client }) => takeRows(client.requests.list(query), limit)),
  );
  // Ids sort by time; this merges the environments.
  const all = found.flatMap(({ rows }) => rows).toSorted((a, b) => (a.id < b.id ? 1 : -1));
  const rows = all.slice(0, limit);
  const text = table(api.cli, {
    columns: [
      'ID',
      'TIME',
      'STATUS',
      'METHOD',
      { heading: 'PATH', cut: 2 },
      { heading: 'BY', cut: 1 },
      { heading: 'ERROR', wraps: true },
    ],
    rows: rows.map((request) => [
      request.id,
      shortTime(request.created_at),
      String(request.status),
      request.method,
      request.path,
      actorText(request),
      request.error?.message ?? '-',
    ]),
    none: 'No requests are in the log. It keeps failed requests and changes for a week.',
  });
  const hasMore = all.length > limit || found.some((one) => one.hasMore);
  return { data: listData(rows, hasMore), text };
}

async function show(api: Api, _: object, [id]: [string]): Promise<CommandResult> {
  const parts = await api.all();
  for (const [index, { client }] of parts.entries()) {
    const isLast = index === parts.length - 1;
    const request = await client.requests.get(id).catch((error: unknown) => {
      if (isLast || !isMissing(error)) throw error;
      return null;
    });
    if (request === null) continue;
    const about = facts([
      ['id', request.id],
      ['time', shortTime(request.created_at)],
      ['request', `${request.method} ${request.path}`],
      ['status', `${request.status} after ${request.duration_ms} ms`],
      ['by', actorText(request)],
      ['from', [request.network, request.user_agent].filter(Boolean).join(', ')],
      ['error', request.error && `${request.error.code}: ${request.error.message}`],
    ]);
    const body = request.body === null ? '' : `\n\n${JSON.stringify(request.body, null, 2)}`;
    return { data: request, text: about + body };
  }
  throw new Error('there is no environment');
}

function isMissing(error: unknown): boolean {
  return error instanceof LetterhausError && error.code === 'not_found';
}

function actorText({ actor: { type, id, name, hint } }: ApiRequest): string {
  const kind = type === 'api_key' ? 'key' : 'member';
  return `${kind} ${name ?? hint ?? id}`;
}
