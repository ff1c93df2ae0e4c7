/** `letterhaus events`: lists past events and, with --follow, new ones, through the API of a service. */
import { InvalidArgumentError, type Command } from 'commander';
import { EVENT_TYPES, type EventType } from '../core/events.ts';
import { mostSimilar } from '../lib/similar.ts';
import {
  type Cli,
  type ExitCode,
  isFailure,
  type Outcome,
  runnable,
  EXAMPLE_ID,
} from '../cli/command.ts';
import { type Empty, emptyText, printable, shortTime } from '../cli/table.ts';
import { EventSource, SILENCE_MS, type SourceEvent } from './command-source.ts';
import {
  apiOf,
  type ApiOptions,
  apiOptions,
  type ErrorAnswer,
  noAnswer,
  refusedBy,
  type ServiceApi,
} from '../cli/service-api.ts';

export function describeEvents(events: Command, cli: Cli): void {
  events
    .option('--follow', 'print new events as they happen')
    .option('--types <types>', 'only these types, separated by commas (default: all)', parseEvents)
    .option('--email <id>', 'only about this email')
    .option(
      '--after <cursor>',
      'only events after this cursor, which --json shows with every event',
    )
    .option('--limit <n>', 'at most so many, without --follow', parseLimit);
  runnable(apiOptions(events), cli, {
    examples: [
      'events --follow --types email.bounced,email.complained',
      `events --email ${EXAMPLE_ID}`,
    ],
    notes:
      'Without --follow it prints the stored events, oldest first. --json prints one object per line.',
    run,
  });
}

type Options = ApiOptions & {
  json?: true;
  follow?: true;
  types?: EventType[];
  email?: string;
  after?: string;
  limit?: number;
};

async function run(cli: Cli, options: Options): Promise<Outcome | ExitCode> {
  const api = apiOf(cli, options, { silenceMs: SILENCE_MS });
  if (isFailure(api)) return api;
  const query = new URLSearchParams();
  if (options.types !== undefined) query.set('types', options.types.join());
  if (options.email !== undefined) query.set('email_id', options.email);
  const print = (event: SourceEvent): void =>
    cli.out(`${options.json ? JSON.stringify(event) : line(event)}\n`);
  if (options.follow) return follow(cli, api, { query, after: options.after ?? 'latest', print });
  return list(cli, api, { query, print, ...options });
}

type Printing = { query: URLSearchParams; print: (event: SourceEvent) => void };

async function follow(
  cli: Cli,
  api: ServiceApi,
  { query, after, print }: Printing & { after: string },
): Promise<Outcome | ExitCode> {
  const onLost = (sentence: string): void => cli.err(`${sentence}\n`);
  const { signal } = new AbortController();
  const source = new EventSource(api, { query, after, signal, onLost });
  for await (const event of source.events()) print(event);
  return source.failure ?? 0;
}

type EventPage = { data: SourceEvent[]; has_more: boolean; cursor: string };

async function list(
  cli: Cli,
  api: ServiceApi,
  { query, print, ...options }: Printing & Omit<Options, 'follow'>,
): Promise<Outcome | ExitCode> {
  const { after, limit = Infinity } = options;
  let [left, printed] = [limit, 0];
  let at: Pick<EventPage, 'has_more' | 'cursor'> = { has_more: true, cursor: after ?? '' };
  while (at.has_more && left > 0) {
    if (at.cursor !== '') query.set('after', at.cursor);
    query.set('limit', String(Math.min(left, 100)));
    const page = await pageOf(api, query);
    if (isFailure(page)) return page;
    page.data.forEach(print);
    left -= page.data.length;
    printed += page.data.length;
    at = page;
  }
  // On stderr: stdout has one event per line.
  if (printed === 0 && !options.json) cli.err(`${emptyText(cli, noneOf(options))}\n`);
  return 0;
}

function noneOf({ types, email, after }: Options): Empty {
  const toDo = 'To wait for new ones';
  const command = 'events --follow';
  const isFiltered = (types ?? email ?? after) !== undefined;
  return { says: isFiltered ? 'No stored event matches.' : 'No event is stored.', toDo, command };
}

async function pageOf(api: ServiceApi, query: URLSearchParams) {
  try {
    const response = await api.request(`/v1/events?${query.toString()}`);
    const answer = JSON.parse(await response.text()) as EventPage & ErrorAnswer;
    return response.ok ? answer : refusedBy(answer);
  } catch (error) {
    return noAnswer(api.origin, error);
  }
}

/** `2026-11-21 08:30:00  email.delivered  jo@example.com`, with the subject for emails. */
export function line({ created_at: time, type, data }: SourceEvent): string {
  const names = ['recipient', 'to', 'name', 'address', 'domain'];
  const about = names.map((name) => data[name]).find((value) => value !== undefined) ?? '';
  const { subject = '' } = data;
  const texts = [about, subject].map((value) =>
    typeof value === 'string' ? value : JSON.stringify(value),
  );
  return printable([shortTime(time), type.padEnd(22), ...texts].join('  ')).trimEnd();
}

export function parseEvents(text: string): EventType[] {
  return text.split(',').map((word) => {
    const type = EVENT_TYPES.find((known) => known === word.trim());
    if (type !== undefined) return type;
    const near = mostSimilar(word, EVENT_TYPES);
    const hint = near === null ? `There are ${EVENT_TYPES.join(', ')}.` : `Did you mean ${near}?`;
    throw new InvalidArgumentError(`There is no event ${JSON.stringify(word)}. ${hint}`);
  });
}

function parseLimit(text: string): number {
  const count = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (count >= 1) return count;
  throw new InvalidArgumentError('Write a number from 1.');
}
