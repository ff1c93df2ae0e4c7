/**
 * `letterhaus send`: sends one email, or a file of up to 100, through the API of a running service, so that the key's
 * permissions and limits apply.
 */
import { type Command, Option } from 'commander';
import type { DryRun } from '../../../sdk/src/api.ts';
import { type Api, type ApiOptions, apiRunnable } from '../../cli/api.ts';
import { type Cli, type CommandResult, readContent, usageFailure } from '../../cli/command.ts';
import { addValue, readValues, type Values } from '../../templates/commands/variable-options.ts';
import { dryRunText } from './dry-run-text.ts';

const TIMEOUT_MS = 30_000;

const NOTES =
  'On the machine of the service no key is needed; the email is a test email unless --environment live is given.';
const EXAMPLES = [
  "send --from hello@acme.test --to delivered@simulator.test --subject Hello --text 'Hi!'",
  "send --environment live --from 'Acme <hello@acme.com>' --to jo@example.org --subject Hello --html-file mail.html",
  'send --environment live --from hello@acme.com --to jo@example.org --template receipt --variable name=Jo',
  "send --dry-run --environment live --from hello@acme.com --to jo@example.org --subject Hello --text 'Hi!'",
  'send --batch emails.jsonl --idempotency-key statements-2026-11',
] as const;

export function describeSend(send: Command, cli: Cli): void {
  send
    .option('--from <address>', "sender, as 'Acme <hello@acme.com>'")
    .option('--to <address...>', 'recipients')
    .option('--subject <text>', 'subject')
    .option('--html <html>', 'content as HTML')
    .option('--html-file <file>', 'HTML content from a file; - is standard input')
    .option('--text <text>', 'content as plain text')
    .option('--text-file <file>', 'plain text content from a file; - is standard input')
    .option('--template <id>', 'id or alias of a template, which replaces content and subject')
    .option(
      '--variable <name=value>',
      'variable of the template: a text, or JSON as name:=json; repeatable',
      addValue,
    )
    .option('--variables-file <file>', "a JSON object with the template's variables")
    .option('--cc <address...>', 'copies')
    .option('--bcc <address...>', 'blind copies')
    .option('--reply-to <address...>', 'addresses for replies')
    .addOption(
      new Option('--track <what>', "tracking; overrides the domain's setting").choices([
        'off',
        'opens',
        'clicks',
        'both',
      ]),
    )
    .option('--at <time>', 'time to send it: ISO 8601 with an offset, at most 30 days ahead')
    .option(
      '--batch <file>',
      'a file of 1-100 emails, one JSON object per line; - is standard input',
    )
    .option('--permissive', 'with --batch: send the valid emails even if others are invalid')
    .option(
      '--idempotency-key <key>',
      'repeating the command with the same key sends no second email',
    )
    .option('--dry-run', 'send nothing; print what would happen, with size, DNS and limits');
  const described = { examples: EXAMPLES, notes: NOTES, environment: 'test', run } as const;
  apiRunnable(send, cli, { ...described, takesKeyOfEnv: true });
}

type SendOptions = ApiOptions & {
  from?: string;
  to?: string[];
  subject?: string;
  html?: string;
  htmlFile?: string;
  text?: string;
  textFile?: string;
  template?: string;
  variable?: Values;
  variablesFile?: string;
  cc?: string[];
  bcc?: string[];
  replyTo?: string[];
  track?: 'off' | 'opens' | 'clicks' | 'both';
  at?: string;
  batch?: string;
  permissive?: true;
  idempotencyKey?: string;
  dryRun?: true;
};

async function run(api: Api, options: SendOptions): Promise<CommandResult> {
  const { batch, permissive, idempotencyKey, dryRun } = options;
  if (batch !== undefined && dryRun) {
    return usageFailure('A dry run takes one email; leave out --batch or --dry-run.');
  }
  const body = await (batch === undefined ? emailOf(options) : emailsIn(batch));
  if (typeof body === 'string') return usageFailure(body);
  const headers = {
    'content-type': 'application/json',
    ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
    ...(batch !== undefined && permissive && { 'x-batch-validation': 'permissive' }),
  };
  const one = dryRun ? '/v1/emails?dry_run=true' : '/v1/emails';
  const path = batch === undefined ? one : '/v1/emails/batch';
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const request = { method: 'POST', headers, body: JSON.stringify(body), signal };
  const response = await api.request(path, request);
  const sent = (await response.json()) as Accepted | DryRun;
  if ('recipients' in sent) return { data: sent, text: dryRunText(api.cli, sent) };
  return accepted(sent, response.status);
}

/** @returns the request's body; a sentence when the file cannot be read */
async function emailsIn(file: string): Promise<object | string> {
  try {
    const lines = ((await readContent(file)) ?? '').split('\n');
    return lines.filter((line) => line.trim() !== '').map((line) => JSON.parse(line) as unknown);
  } catch (error) {
    return `The batch cannot be read: ${(error as Error).message}; write one email as JSON on each line.`;
  }
}

/** @returns the request's body; a sentence when a file cannot be read or an option is missing */
async function emailOf(options: SendOptions): Promise<object | string> {
  const { from, to, subject, template: id } = options;
  if (!from || !to || (!subject && id === undefined)) {
    return 'An email needs --from, --to, and --subject or --template. Use --batch to send several.';
  }
  const variables = await readValues(options);
  if (typeof variables === 'string') return variables;
  try {
    return {
      from,
      to,
      cc: options.cc,
      bcc: options.bcc,
      reply_to: options.replyTo,
      tracking: trackingOf(options),
      scheduled_at: options.at,
      subject,
      template: id === undefined ? undefined : { id, variables },
      html: options.html ?? (await readContent(options.htmlFile)),
      text: options.text ?? (await readContent(options.textFile)),
    };
  } catch (error) {
    return `The content cannot be read: ${(error as Error).message}.`;
  }
}

function trackingOf({ track }: SendOptions): object | undefined {
  if (track === undefined) return undefined;
  const isBoth = track === 'both';
  return { opens: isBoth || track === 'opens', clicks: isBoth || track === 'clicks' };
}

type Accepted = {
  id?: string;
  data?: { id: string }[];
  errors?: { index: number; message: string }[];
};

function accepted(sent: Accepted, status: number): CommandResult {
  if (sent.data) return acceptedBatch(sent.data, sent.errors ?? [], sent);
  const what = status === 200 ? 'was accepted before with this idempotency key' : 'is accepted';
  return {
    data: sent,
    text: `Email ${sent.id} ${what}; see letterhaus emails show ${sent.id}`,
  };
}

function acceptedBatch(
  { length }: { id: string }[],
  errors: NonNullable<Accepted['errors']>,
  sent: Accepted,
): CommandResult {
  const refused = errors.map(({ index, message }) => `\nEmail ${index + 1}: ${message}`);
  const text = `${length} of ${length + errors.length} emails are accepted; see letterhaus emails list`;
  return { data: sent, text: text + refused.join('') };
}
