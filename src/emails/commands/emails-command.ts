/** `letterhaus emails`: lists emails, shows one with its timeline, diagnoses, cancels and reschedules. */
import { InvalidArgumentError, Option, type Command } from 'commander';
import type { Refusal } from '../../core/refusals.ts';
import type { Scope } from '../../core/scope.ts';
import { FINAL_STATUSES, OPEN_STATUSES } from '../../core/statuses.ts';
import { addressKey, explainAddress, parseAddress } from '../../mail/address.ts';
import { presentEmail, presentSummary } from '../view.ts';
import { readSearch, type Search, withSearch } from '../search.ts';
import { cancel, reschedule } from '../schedule.ts';
import {
  listEmails,
  type EmailFilter,
  findEmail,
  listTimeline,
  type EmailDetail,
  type EmailRef,
  type EmailSummary,
  type RecipientView,
  type TimelineEvent,
} from '../email-store.ts';
import type { Database } from '../../database/database.ts';
import {
  chooseScopes,
  modeOption,
  projectOption,
  type ProjectOptions,
  scopesOfId,
  type ScopesOptions,
  type Store,
  withStore,
} from '../../cli/store.ts';
import { withFeatures } from '../../cli/features.ts';
import { diagnosisText } from './diagnosis-text.ts';
import {
  addCommand,
  type Cli,
  failure,
  type Failure,
  isFailure,
  type Outcome,
  EXAMPLE_ID,
  usageFailure,
} from '../../cli/command.ts';
import { type Empty, facts, shortTime, table } from '../../cli/table.ts';

const STATUSES = ['sending', ...OPEN_STATUSES, ...FINAL_STATUSES] as const;
const EVENTS_SHOWN_MAX = 1000;
const LIMIT_MAX = 1000;

const EVERYTHING: EmailFilter = {
  status: null,
  to: null,
  from: null,
  subject: null,
  tag: null,
  domain: null,
  createdAfter: null,
  createdBefore: null,
  keyId: null,
};

const NONE_SENT: Empty = {
  says: 'No email was sent yet.',
  toDo: 'To send a test email',
  command: "send --from hello@acme.test --to delivered@simulator.test --subject Hello --text 'Hi!'",
};
const NONE_MATCHES: Empty = {
  says: 'No email matches.',
  toDo: 'To list all',
  command: 'emails list',
};

export function describeEmails(emails: Command, cli: Cli): void {
  addCommand(emails, cli, {
    name: 'list',
    about: 'the newest emails',
    examples: [
      'emails list',
      'emails list --status bounced --to jo@example.org --limit 50',
      "emails list --query 'receipt tag:kind:order after:2026-11-21'",
    ],
    run: list,
  })
    .addOption(projectOption())
    .addOption(modeOption())
    .addOption(new Option('--status <status>', 'only with this status').choices(STATUSES))
    .option('--to <address>', 'only to this recipient', parseRecipient)
    .option('--query <search>', 'only what matches, like "receipt to:jo@example.org"', parseQuery)
    .option('--limit <n>', 'how many', parseCount, 20);
  addCommand(emails, cli, {
    name: 'show',
    about: 'one email and its timeline',
    examples: [`emails show ${EXAMPLE_ID}`],
    run: show,
  })
    .argument('<id>')
    .addOption(projectOption());
  addCommand(emails, cli, {
    name: 'cancel',
    about: 'cancel what is not sent yet',
    examples: [`emails cancel ${EXAMPLE_ID}`],
    run: cancelOne,
  })
    .argument('<id>')
    .addOption(projectOption());
  addCommand(emails, cli, {
    name: 'why',
    about: 'why it is slow, or not there',
    examples: [`emails why ${EXAMPLE_ID}`],
    run: why,
  })
    .argument('<id>')
    .addOption(projectOption());
  const about = 'change when a waiting email is sent';
  addCommand(emails, cli, {
    name: 'reschedule',
    about,
    examples: [`emails reschedule ${EXAMPLE_ID} --at 2027-01-31T09:00:00+01:00`],
    run: rescheduleOne,
  })
    .argument('<id>')
    .requiredOption('--at <time>', 'ISO 8601 with an offset, like 2027-01-31T09:00:00+01:00')
    .addOption(projectOption());
}

type ListOptions = ScopesOptions & {
  status?: (typeof STATUSES)[number];
  /** In the form of addressKey. */
  to?: string;
  query?: Search;
  limit: number;
};

function list(cli: Cli, options: ListOptions): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const scopes = await chooseScopes(db, options);
    if (isFailure(scopes)) return scopes;
    const { limit, status = null, to = null, query = EVERYTHING } = options;
    const filter = withSearch({ ...EVERYTHING, status, to }, query);
    if ('twice' in filter) {
      return usageFailure(
        `--query has ${filter.twice}, which another option gives as well; leave one of them out.`,
      );
    }
    const look = { page: { limit, after: null, before: null }, filter };
    const pages = await Promise.all(scopes.map((scope) => listEmails(db, scope, look)));
    // Ids sort by time; this merges both environments.
    const all = pages.flatMap(({ rows }) => rows).toSorted((a, b) => (a.id < b.id ? 1 : -1));
    const emails = all.slice(0, limit);
    const hasMore = all.length > limit || pages.some((page) => page.hasMore);
    return {
      data: { object: 'list', data: emails.map(presentSummary), has_more: hasMore },
      text: table(cli, {
        columns: [
          'ID',
          'CREATED',
          'MODE',
          'STATUS',
          { heading: 'TO', cut: 2 },
          { heading: 'SUBJECT', cut: 1 },
        ],
        rows: emails.map(summaryCells),
        none:
          Object.values(filter).every((value) => value === null) && options.mode === undefined
            ? NONE_SENT
            : NONE_MATCHES,
      }),
    };
  });
}

function show(cli: Cli, options: ProjectOptions, [id]: [string]): Promise<Outcome> {
  return withStore(cli, async (store) => {
    const scopes = await scopesOfId(store.db, options, { table: 'emails', id });
    if (isFailure(scopes)) return scopes;
    for (const scope of scopes) {
      const found = await findWithTimeline(store, scope, id);
      if (found === null) continue;
      const { email, events } = found;
      return { data: presentEmail(email), text: emailText(cli, email, events) };
    }
    return noEmail(id);
  });
}

async function findWithTimeline(
  { db }: Store,
  scope: Scope,
  id: string,
): Promise<{ email: EmailDetail; events: TimelineEvent[] } | null> {
  const ref = { ...scope, id, keyId: null, domain: null };
  const email = await findEmail(db, ref);
  if (email === null) return null;
  const events = await listTimeline(db, ref, { after: 0, limit: EVENTS_SHOWN_MAX });
  return { email, events };
}

/** Exit code 0 whatever became of the email: the question was answered. */
function why(cli: Cli, options: ProjectOptions, [id]: [string]): Promise<Outcome> {
  return withFeatures(cli, async ({ db, diagnose }) => {
    const scopes = await scopesOfId(db, options, { table: 'emails', id });
    if (isFailure(scopes)) return scopes;
    for (const scope of scopes) {
      const found = await diagnose({ ...scope, id, keyId: null, domain: null });
      if (found !== null) return { data: found, text: diagnosisText(cli, found) };
    }
    return noEmail(id);
  });
}

function cancelOne(cli: Cli, options: ProjectOptions, [id]: [string]): Promise<Outcome> {
  return changeOne(cli, { options, id }, (db, ref) => cancel(db, ref));
}

function rescheduleOne(
  cli: Cli,
  options: ProjectOptions & { at: string },
  [id]: [string],
): Promise<Outcome> {
  return changeOne(cli, { options, id }, (db, ref) => reschedule(db, ref, options.at));
}

function changeOne(
  cli: Cli,
  { options, id }: { options: ProjectOptions; id: string },
  change: (db: Database, ref: EmailRef) => Promise<EmailDetail | Refusal>,
): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const scopes = await scopesOfId(db, options, { table: 'emails', id });
    if (isFailure(scopes)) return scopes;
    for (const scope of scopes) {
      const changed = await change(db, { ...scope, id, keyId: null, domain: null });
      if ('refused' in changed && changed.refused === 'not_found') continue;
      if ('refused' in changed) return failure(changed);
      return { data: presentEmail(changed), text: changedText(changed) };
    }
    return noEmail(id);
  });
}

function changedText({ id, status, scheduledAt, recipients }: EmailDetail): string {
  if (status === 'scheduled') return `Email ${id} is scheduled for ${shortTime(scheduledAt)}.`;
  const canceled = recipients.filter((recipient) => recipient.status === 'canceled').length;
  const counts = `${canceled} of ${recipients.length} recipients canceled`;
  return `Email ${id} is ${status}${canceled === 0 ? '' : ` (${counts})`}.`;
}

function noEmail(id: string): Failure {
  const message = `There is no email with the id ${JSON.stringify(id)}; see letterhaus emails list.`;
  return { failed: message, code: 'not_found', exitCode: 1 };
}

function summaryCells(email: EmailSummary): string[] {
  const { id, createdAt, environment, status, subject } = email;
  const [first = '', ...others] = [...email.to, ...email.cc, ...email.bcc];
  const to = others.length === 0 ? first : `${first} and ${others.length} more`;
  return [id, shortTime(createdAt), environment, status, to, subject];
}

function emailText(cli: Cli, email: EmailDetail, events: readonly TimelineEvent[]): string {
  const about = facts([
    ['id', email.id],
    ['mode', email.environment],
    ['status', email.status],
    ['from', presentSummary(email).from],
    ['subject', email.subject],
    ['created', shortTime(email.createdAt)],
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
    rows: events.map(({ createdAt, type, recipient }) => [
      shortTime(createdAt),
      type,
      recipient ?? '',
    ]),
    none: '',
  });
  return `${about}\n\n${recipients}\n\n${timeline}`;
}

function recipientCells(recipient: RecipientView): string[] {
  const { address, status, attempts, next_attempt_at: next, smtp } = recipient;
  const cells = [address, status, String(attempts), shortTime(next)];
  if (smtp === null) return [...cells, '', ''];
  const { code, message, mx } = smtp;
  const said = code === null ? message : `${code} ${message}`;
  return [...cells, tlsText(smtp), mx === null ? said : `${said} (${mx})`];
}

/** For example `TLSv1.3, verified`, with the TLS rule that applied, if any. */
function tlsText({
  code,
  mx,
  tls,
  tls_policy: policy,
}: NonNullable<RecipientView['smtp']>): string {
  const rule = policy === undefined || policy === null || policy === 'none' ? '' : ` (${policy})`;
  if (tls !== null) return `${tls.version}, ${tls.verified ? '' : 'not '}verified${rule}`;
  return code === null || mx === null ? `-${rule}` : `unencrypted${rule}`;
}

function parseRecipient(text: string): string {
  const address = parseAddress(text);
  if (address !== null) return addressKey(address);
  throw new InvalidArgumentError(`${explainAddress(text)}.`);
}

function parseQuery(text: string): Search {
  const search = readSearch(text);
  if (!('problems' in search)) return search;
  throw new InvalidArgumentError(`${search.problems.join('; ')}.`);
}

function parseCount(text: string): number {
  const count = /^\d{1,4}$/.test(text) ? Number(text) : 0;
  if (count >= 1 && count <= LIMIT_MAX) return count;
  throw new InvalidArgumentError(`Write a number from 1 to ${LIMIT_MAX}.`);
}
