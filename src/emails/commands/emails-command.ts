/** `letterhaus emails`: lists emails, shows one with its timeline, diagnoses, cancels and reschedules. */
import { Option, type Command } from 'commander';
import type {
  Email,
  EmailStatus,
  EmailSummary,
  Recipient,
  TimelineEvent,
} from '../../../sdk/src/api.ts';
import type { Letterhaus } from '../../../sdk/src/client.ts';
import { FINAL_STATUSES, OPEN_STATUSES } from '../../core/statuses.ts';
import { countUpTo, PAGE_MAX } from '../../cli/lists.ts';
import { type Api, apiCommand, type ApiOptions, listData, explainNotFound } from '../../cli/api.ts';
import { type Cli, EXAMPLE_ID, type CommandResult, parseTime } from '../../cli/command.ts';
import { type Empty, facts, shortTime, table } from '../../cli/table.ts';
import { describeCaseFile } from './case-file-command.ts';
import { diagnosisText } from './diagnosis-text.ts';
import { describeExport } from './export-command.ts';

const STATUSES = ['sending', ...OPEN_STATUSES, ...FINAL_STATUSES] as const;
const EVENTS_SHOWN_MAX = 1000;
const LIMIT_MAX = 1000;

const NONE_SENT: Empty = {
  says: 'No emails have been sent yet.',
  toDo: 'To send a test email',
  command: "send --from hello@acme.test --to delivered@simulator.test --subject Hello --text 'Hi!'",
};
const NONE_MATCHES: Empty = {
  says: 'No email matches.',
  toDo: 'To list all',
  command: 'emails list',
};

export function describeEmails(emails: Command, cli: Cli): void {
  const time = (text: string): Date => parseTime(text, cli.world.now());
  apiCommand(emails, cli, {
    name: 'list',
    about: 'list emails, newest first',
    examples: [
      'emails list',
      'emails list --status bounced --to jo@example.org --limit 50',
      'emails list --status bounced --since yesterday --until today',
      "emails list --query 'receipt tag:kind:order after:2026-11-21'",
    ],
    environment: 'both',
    run: list,
  })
    .addOption(new Option('--status <status>', 'only with this status').choices(STATUSES))
    .option('--to <address>', 'only to this recipient')
    .option('--query <search>', 'only emails that match, like "receipt to:jo@example.org"')
    .option('--since <time>', 'created at or after this time: 6h or 7d ago, or a time', time)
    .option('--until <time>', 'created before this time (default: now)', time)
    .option('--limit <n>', 'number of emails', countUpTo(LIMIT_MAX), 20);
  describeExport(emails, cli);
  describeCaseFile(emails, cli);
  const ofOne = { show, why, cancel, reschedule };
  const about = {
    show: 'show an email with its timeline',
    cancel: 'cancel the recipients that are not sent yet',
    why: 'explain why an email is slow or missing',
    reschedule: 'change when a waiting email is sent',
  };
  for (const name of ['show', 'cancel', 'why', 'reschedule'] as const) {
    const at = name === 'reschedule' ? ' --at 2027-01-31T09:00:00+01:00' : '';
    const command = apiCommand(emails, cli, {
      name,
      about: about[name],
      examples: [`emails ${name} ${EXAMPLE_ID}${at}`],
      environment: 'of_id',
      run: (api, options: RescheduleOptions, [id]: [string]) =>
        explainNotFound(ofOne[name](api, id, options), noEmail(id)),
    }).argument('<id>');
    if (name !== 'reschedule') continue;
    command.requiredOption(
      '--at <time>',
      'ISO 8601 with an offset, like 2027-01-31T09:00:00+01:00',
    );
  }
}

type ListOptions = ApiOptions & {
  status?: EmailStatus;
  to?: string;
  query?: string;
  since?: Date;
  until?: Date;
  limit: number;
};

async function list(api: Api, options: ListOptions): Promise<CommandResult> {
  const { status, to, query: q, since, until, limit } = options;
  const filter = {
    status,
    to,
    q,
    created_after: since?.toISOString(),
    created_before: until?.toISOString(),
  };
  const parts = await api.all();
  const pages = await Promise.all(parts.map(({ client }) => newest(client, filter, limit + 1)));
  // Ids sort by time; this merges the environments.
  const all = pages.flat().toSorted((a, b) => (a.id < b.id ? 1 : -1));
  const emails = all.slice(0, limit);
  const isFiltered = [...Object.values(filter), options.environment].some(
    (one) => one !== undefined,
  );
  return {
    data: listData(emails, all.length > limit),
    text: table(api.cli, {
      columns: [
        'ID',
        'CREATED',
        'ENVIRONMENT',
        'STATUS',
        { heading: 'TO', cut: 2 },
        { heading: 'SUBJECT', cut: 1 },
      ],
      rows: emails.map(summaryCells),
      none: isFiltered ? NONE_MATCHES : NONE_SENT,
    }),
  };
}

type Filter = {
  status: EmailStatus | undefined;
  to: string | undefined;
  q: string | undefined;
  created_after: string | undefined;
  created_before: string | undefined;
};

async function newest(client: Letterhaus, filter: Filter, count: number): Promise<EmailSummary[]> {
  const found: EmailSummary[] = [];
  const query = { ...filter, limit: Math.min(count, PAGE_MAX) };
  for await (const email of client.emails.list(query)) {
    found.push(email);
    if (found.length === count) break;
  }
  return found;
}

async function show(api: Api, id: string): Promise<CommandResult> {
  const email = await api.byId.emails.get(id);
  const events: TimelineEvent[] = [];
  for await (const event of api.byId.emails.events(id, { limit: PAGE_MAX })) {
    events.push(event);
    if (events.length === EVENTS_SHOWN_MAX) break;
  }
  return { data: email, text: emailText(api.cli, email, events) };
}

/** Exits with 0 whatever the email's status: the diagnosis itself succeeded. */
async function why(api: Api, id: string): Promise<CommandResult> {
  const found = await api.byId.emails.diagnose(id);
  return { data: found, text: diagnosisText(api.cli, found) };
}

async function cancel(api: Api, id: string): Promise<CommandResult> {
  const email = await api.byId.emails.cancel(id);
  return { data: email, text: changedText(email) };
}

type RescheduleOptions = ApiOptions & { at: string };

async function reschedule(api: Api, id: string, { at }: RescheduleOptions): Promise<CommandResult> {
  const email = await api.byId.emails.reschedule(id, { scheduled_at: at });
  return { data: email, text: changedText(email) };
}

function changedText({ id, status, scheduled_at: at, recipients }: Email): string {
  if (status === 'scheduled') return `Email ${id} is scheduled for ${shortTime(at)}.`;
  const canceled = recipients.filter((recipient) => recipient.status === 'canceled').length;
  const counts = `${canceled} of ${recipients.length} recipients canceled`;
  return `Email ${id} is ${status}${canceled === 0 ? '' : ` (${counts})`}.`;
}

function noEmail(id: string): string {
  if (id.includes('@'))
    return `${JSON.stringify(id)} is no id of an email. To find emails to an address: letterhaus log --to ${id}`;
  return `There is no email with the id ${JSON.stringify(id)}; see letterhaus emails list.`;
}

function summaryCells(email: EmailSummary): string[] {
  const { id, created_at: createdAt, environment, status, subject } = email;
  const [first = '', ...others] = [...email.to, ...email.cc, ...email.bcc];
  const to = others.length === 0 ? first : `${first} and ${others.length} more`;
  return [id, shortTime(createdAt), environment, status, to, subject];
}

function emailText(cli: Cli, email: Email, events: readonly TimelineEvent[]): string {
  const about = facts([
    ['id', email.id],
    ['environment', email.environment],
    ['status', email.status],
    ['from', email.from],
    ['subject', email.subject],
    ['created', shortTime(email.created_at)],
  ]);
  const recipients = table(cli, {
    columns: [
      { heading: 'RECIPIENT', cut: 2 },
      'STATUS',
      'ATTEMPTS',
      'NEXT',
      { heading: 'TLS', cut: 1 },
      { heading: 'LAST REPLY', wraps: true },
    ],
    rows: email.recipients.map(recipientCells),
    none: '',
  });
  const timeline = table(cli, {
    columns: ['TIME', 'EVENT', { heading: 'RECIPIENT', cut: 1 }],
    rows: events.map(({ created_at: createdAt, type, recipient }) => [
      shortTime(createdAt),
      type,
      recipient ?? '',
    ]),
    none: '',
  });
  return `${about}\n\n${recipients}\n\n${timeline}`;
}

function recipientCells(recipient: Recipient): string[] {
  const { address, status, attempts, next_attempt_at: next, smtp } = recipient;
  const cells = [address, status, String(attempts), shortTime(next)];
  if (smtp === null) return [...cells, '', ''];
  const { code, message, mx } = smtp;
  const said = code === null ? message : `${code} ${message}`;
  return [...cells, tlsText(smtp), mx === null ? said : `${said} (${mx})`];
}

/** Formats TLS like `TLSv1.3, verified (dane)`, with the TLS rule that applied, if any. */
function tlsText({ code, mx, tls, tls_policy: policy }: NonNullable<Recipient['smtp']>): string {
  const rule = policy === undefined || policy === null || policy === 'none' ? '' : ` (${policy})`;
  if (tls !== null) return `${tls.version}, ${tls.verified ? '' : 'not '}verified${rule}`;
  return code === null || mx === null ? `-${rule}` : `unencrypted${rule}`;
}
