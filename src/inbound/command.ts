/** `letterhaus inbound`: lists and shows messages received by SMTP, and the status changes they caused. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { findInbound, type InboundMessage, listInbound } from './message-store.ts';
import { addCommand, type Cli, type Outcome, EXAMPLE_ID } from '../cli/command.ts';
import { type Empty, facts, shortTime, table } from '../cli/table.ts';
import { withStore } from '../cli/store.ts';

const KINDS = [
  'bounce',
  'delay',
  'complaint',
  'delivered',
  'auto_reply',
  'unsubscribe',
  'other',
] as const;
const LIMIT_MAX = 1_000;
const NONE_RECEIVED: Empty = {
  says: 'No message has been received. Port 25 is open if LETTERHAUS_INBOUND_PORT is set, and the MX record of send.<domain> has to lead here.',
  toDo: 'To look that record up',
  command: 'domains verify yourdomain.com',
};
const NONE_MATCHES: Empty = {
  says: 'No received message matches.',
  toDo: 'To list all',
  command: 'inbound list',
};

export function describeInbound(inbound: Command, cli: Cli): void {
  addCommand(inbound, cli, {
    name: 'list',
    about: 'received messages, newest first',
    examples: ['inbound list --kind bounce --limit 100'],
    run: list,
  })
    .addOption(new Option('--kind <kind>', 'only messages of this kind').choices(KINDS))
    .option('--before <id>', 'only messages received before this one')
    .option('--limit <n>', `how many, up to ${LIMIT_MAX}`, parseLimit, 30);
  addCommand(inbound, cli, {
    name: 'show',
    about: 'one message, as received (its first 256 KB)',
    examples: [`inbound show ${EXAMPLE_ID}`],
    run: show,
  }).argument('<id>');
}

type ListOptions = { kind?: string; before?: string; limit: number };

function list(cli: Cli, { kind, before, limit }: ListOptions): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const found = await listInbound(db, {
      limit: limit + 1,
      kind: kind ?? null,
      before: before ?? null,
    });
    const page = found.slice(0, limit);
    const isFiltered = kind !== undefined || before !== undefined;
    return {
      data: { object: 'list', data: page.map(asJson), has_more: found.length > limit },
      text: table(cli, {
        columns: ['CAME', 'KIND', { heading: 'TO', cut: 1 }, 'EMAIL', 'CHANGED TO', 'ID'],
        rows: page.map(({ receivedAt, kind: what, recipient, emailId, change, id }) => [
          shortTime(receivedAt),
          what,
          shortened(recipient),
          emailId ?? '-',
          change ?? '-',
          id,
        ]),
        none: isFiltered ? NONE_MATCHES : NONE_RECEIVED,
      }),
    };
  });
}

function show(cli: Cli, _options: object, [id]: [string]): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const found = await findInbound(db, id);
    if (found === null) {
      return { failed: `There is no message ${id}.`, code: 'not_found', exitCode: 1 };
    }
    const { content, ...message } = found;
    const head = facts([
      ['id', message.id],
      ['came', shortTime(message.receivedAt)],
      ['from', `${message.sender === '' ? '<>' : message.sender} at ${message.remoteAddress}`],
      ['to', message.recipient],
      ['kind', message.kind],
      ['about', aboutText(message)],
      ['changed to', message.change ?? 'nothing'],
      ['size', `${message.sizeBytes} bytes`],
    ]);
    const lines = content.toString().split('\n').map(safe).join('\n');
    return {
      data: { ...asJson(message), content: content.toString() },
      text: `${head}\n\n${lines}`,
    };
  });
}

function aboutText({ emailId, position }: InboundMessage): string {
  return emailId === null ? 'no email of ours' : `email ${emailId}, recipient ${position}`;
}

function asJson(message: InboundMessage): object {
  return {
    object: 'inbound_message',
    id: message.id,
    received_at: message.receivedAt.toISOString(),
    remote_address: message.remoteAddress,
    sender: message.sender,
    recipient: message.recipient,
    kind: message.kind,
    project_id: message.projectId,
    environment: message.environment,
    email_id: message.emailId,
    position: message.position,
    change: message.change,
    size_bytes: message.sizeBytes,
  };
}

/** Shortens a signed return path. */
function shortened(address: string): string {
  return address.replace(/^(b-.{6}).*@/, '$1…@');
}

/** Control characters of a received message must not reach the terminal. */
function safe(line: string): string {
  return line.replace(/[\0-\x08\x0b-\x1f\x7f-\x9f]/g, '');
}

function parseLimit(text: string): number {
  const limit = Number(text);
  if (Number.isInteger(limit) && limit >= 1 && limit <= LIMIT_MAX) return limit;
  throw new InvalidArgumentError(`Write a number from 1 to ${LIMIT_MAX}.`);
}
