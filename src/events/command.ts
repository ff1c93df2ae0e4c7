/** `letterhaus events`: lists past events and, with --follow, new ones, through the API. */
import { InvalidArgumentError, type Command } from 'commander';
import { EVENT_TYPES, type EventType } from '../core/events.ts';
import { mostSimilar } from '../lib/similar.ts';
import { type Api, type ApiOptions, apiRunnable } from '../cli/api.ts';
import { type Cli, EXAMPLE_ID, type ExitCode, type CommandResult } from '../cli/command.ts';
import { type Empty, emptyText, printable, shortTime } from '../cli/table.ts';
import { EventSource, type SourceEvent } from './command-event-source.ts';

const PAGE_MAX = 100;

export function describeEvents(events: Command, cli: Cli): void {
  events
    .option('--follow', 'print new events as they happen')
    .option('--types <types>', 'only these types, separated by commas (default: all)', parseEvents)
    .option('--email <id>', 'only about this email')
    .option(
      '--after <cursor>',
      'only events after this cursor, which --json shows with every event',
    )
    .option('--limit <n>', 'maximum number of events, without --follow', parseLimit);
  apiRunnable(events, cli, {
    examples: [
      'events --follow --types email.bounced,email.complained',
      `events --email ${EXAMPLE_ID}`,
    ],
    notes:
      'Without --follow it prints the stored events, oldest first. --json prints one object per line.',
    environment: 'live',
    takesKeyOfEnv: true,
    run: printEvents,
  });
}

type EventsOptions = ApiOptions & {
  json?: true;
  follow?: true;
  types?: EventType[];
  email?: string;
  after?: string;
  limit?: number;
};

async function printEvents(api: Api, options: EventsOptions): Promise<CommandResult | ExitCode> {
  const print = (event: SourceEvent): void =>
    api.cli.out(`${options.json ? JSON.stringify(event) : formatEvent(event)}\n`);
  return options.follow ? follow(api, options, print) : list(api, options, print);
}

type Print = (event: SourceEvent) => void;

async function follow(api: Api, options: EventsOptions, print: Print): Promise<ExitCode> {
  const { types, email, after = 'latest' } = options;
  const query = new URLSearchParams({
    ...(types !== undefined && { types: types.join() }),
    ...(email !== undefined && { email_id: email }),
  });
  const report = (sentence: string): void => api.cli.err(`${sentence}\n`);
  const { signal } = new AbortController();
  const source = new EventSource(api.request, { query, after, signal, report });
  for await (const event of source.events()) print(event);
  return 0;
}

async function list(api: Api, options: EventsOptions, print: Print): Promise<ExitCode> {
  const { after, email, types, limit = Infinity } = options;
  const query = { email_id: email, types: types?.join() };
  let printed = 0;
  let position: { has_more: boolean; cursor: string | undefined } = {
    has_more: true,
    cursor: after,
  };
  while (position.has_more && printed < limit) {
    const pageLimit = Math.min(limit - printed, PAGE_MAX);
    const pageQuery = { ...query, after: position.cursor, limit: pageLimit };
    const page = await api.client.events.list(pageQuery);
    (page.data as SourceEvent[]).forEach(print);
    printed += page.data.length;
    position = page;
  }
  // stdout has one event per line.
  if (printed === 0 && !options.json)
    api.cli.err(`${emptyText(api.cli, emptyListText(options))}\n`);
  return 0;
}

function emptyListText({ types, email, after }: EventsOptions): Empty {
  const toDo = 'To wait for new ones';
  const command = 'events --follow';
  const isFiltered = (types ?? email ?? after) !== undefined;
  return { says: isFiltered ? 'No stored event matches.' : 'No event is stored.', toDo, command };
}

/** Formats an event as `2026-11-21 08:30:00  email.delivered  jo@example.com`, with the subject for emails. */
export function formatEvent({ created_at: time, type, data }: SourceEvent): string {
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
    const similar = mostSimilar(word, EVENT_TYPES);
    const hint =
      similar === null ? `There are ${EVENT_TYPES.join(', ')}.` : `Did you mean ${similar}?`;
    throw new InvalidArgumentError(`There is no event ${JSON.stringify(word)}. ${hint}`);
  });
}

function parseLimit(text: string): number {
  const count = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (count >= 1) return count;
  throw new InvalidArgumentError('Write a number from 1.');
}
