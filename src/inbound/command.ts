/** `letterhaus inbound`: lists and shows messages received by SMTP, and the status changes they caused. */
import { type Command, Option } from 'commander';
import type { InboundMessage } from '../../sdk/src/api.ts';
import { type Api, apiCommand, type ApiOptions, listData, explainNotFound } from '../cli/api.ts';
import { type Cli, EXAMPLE_ID, type CommandResult } from '../cli/command.ts';
import { countUpTo, takeRows, PAGE_MAX } from '../cli/lists.ts';
import { type Empty, facts, shortTime, table } from '../cli/table.ts';
import { INBOUND_KINDS } from './inbound-message-store.ts';

const LIMIT_MAX = 1_000;
const NONE_RECEIVED: Empty = {
  says: 'No message has been received. Port 25 is open if LETTERHAUS_INBOUND_PORT is set, and the MX record of send.<domain> must name this service.',
  toDo: 'To look up that record',
  command: 'domains verify yourdomain.com',
};
const NONE_MATCHES: Empty = {
  says: 'No received message matches.',
  toDo: 'To list all',
  command: 'inbound list',
};

export function describeInbound(inbound: Command, cli: Cli): void {
  apiCommand(inbound, cli, {
    name: 'list',
    about: 'list received messages, newest first',
    examples: ['inbound list --kind bounce --limit 100'],
    environment: 'none',
    run: list,
  })
    .addOption(new Option('--kind <kind>', 'only messages of this kind').choices(INBOUND_KINDS))
    .option('--before <id>', 'only messages received before this one')
    .option('--limit <n>', `number of messages, up to ${LIMIT_MAX}`, countUpTo(LIMIT_MAX), 30);
  apiCommand(inbound, cli, {
    name: 'show',
    about: 'show a message as received (its first 256 KB)',
    examples: [`inbound show ${EXAMPLE_ID}`],
    environment: 'none',
    run: show,
  }).argument('<id>');
}

type ListOptions = ApiOptions & { kind?: InboundMessage['kind']; before?: string; limit: number };

async function list({ cli, client }: Api, options: ListOptions): Promise<CommandResult> {
  const { kind, before: after, limit } = options;
  const query = { kind, after, limit: Math.min(limit + 1, PAGE_MAX) };
  const { rows, hasMore } = await takeRows(client.operator.inbound(query), limit);
  return {
    data: listData(rows, hasMore),
    text: table(cli, {
      columns: ['CAME', 'KIND', { heading: 'TO', cut: 1 }, 'EMAIL', 'CHANGED TO', 'ID'],
      rows: rows.map(
        ({ received_at: at, kind: messageKind, recipient, email_id: email, change, id }) => [
          shortTime(at),
          messageKind,
          shortenReturnPath(recipient),
          email ?? '-',
          change ?? '-',
          id,
        ],
      ),
      none: kind !== undefined || after !== undefined ? NONE_MATCHES : NONE_RECEIVED,
    }),
  };
}

async function show({ client }: Api, _options: object, [id]: [string]): Promise<CommandResult> {
  const message = await explainNotFound(
    client.operator.getInbound(id),
    `There is no message ${id}.`,
  );
  const { email_id: emailId, position, sender, remote_address: from } = message;
  const head = facts([
    ['id', message.id],
    ['came', shortTime(message.received_at)],
    ['from', `${sender === '' ? '<>' : sender} at ${from}`],
    ['to', message.recipient],
    ['kind', message.kind],
    ['about', emailId === null ? 'no matching email' : `email ${emailId}, recipient ${position}`],
    ['changed to', message.change ?? 'nothing'],
    ['size', `${message.size_bytes} bytes`],
  ]);
  const lines = message.content.split('\n').map(withoutControls).join('\n');
  return { data: message, text: `${head}\n\n${lines}` };
}

function shortenReturnPath(address: string): string {
  return address.replace(/^(b-.{6}).*@/, '$1…@');
}

/** Removes control characters, because a received message must not control the terminal. */
function withoutControls(line: string): string {
  return line.replace(/[\0-\x08\x0b-\x1f\x7f-\x9f]/g, '');
}
