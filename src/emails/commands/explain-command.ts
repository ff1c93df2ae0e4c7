/**
 * `letterhaus explain`: classifies a mail server's reply or a bounce by the rules of delivery. Needs neither the
 * service nor its database.
 */
import { readFile } from 'node:fs/promises';
import { type Command, Option } from 'commander';
import {
  addCommand,
  type Cli,
  type ExitCode,
  type CommandResult,
  usageFailure,
} from '../../cli/command.ts';
import { facts } from '../../cli/table.ts';
import { classifyReply, meaningOf, ruleFor } from '../../mail/replies/classify.ts';
import type { Blame, Classification } from '../../mail/replies/meanings.ts';
import { REPLY_PHASES, ReplyParser, type SmtpReply } from '../../mail/replies/smtp-reply.ts';
import {
  readReport,
  type Report,
  type ReportedRecipient,
  type ReportKind,
} from '../../mail/reports/read-report.ts';

/** Without RSET and QUIT, whose replies do not affect an email. */
const PHASES = REPLY_PHASES.filter((phase) => phase !== 'rset' && phase !== 'quit');
type Phase = (typeof PHASES)[number];

const WHO: Readonly<Record<Blame, string>> = {
  recipient: 'recipient (the owner of the mailbox)',
  receiver: 'receiver (the operator of their mail server)',
  sender: 'sender (the author of the email or the owner of its domain)',
  us: 'us (the operator of this service)',
};

export function describeExplain(explain: Command, cli: Cli): void {
  addCommand(explain, cli, {
    name: 'reply',
    about: "explain a mail server's reply: whether it is retried, who is responsible, what to do",
    examples: [
      'explain reply "550 5.7.1 Message refused"',
      'explain reply "421 4.7.0 Try again later" --phase greeting',
    ],
    run: explainReply,
  })
    .argument('<reply...>', 'reply as the server sent it: "550 5.7.1 Message refused"')
    .addOption(
      new Option('--phase <phase>', 'SMTP step that the server replied to; data: the message')
        .choices(PHASES)
        .default('rcpt'),
    );
  describeExplainBounce(explain, cli);
}

async function explainReply(
  _cli: Cli,
  { phase }: { phase: Phase },
  [words]: [string[]],
): Promise<CommandResult> {
  const reply = replyOf(words.join(' '));
  if (reply === null) {
    return usageFailure(
      'this is not a reply of a mail server; begin it with its three-digit code, ' +
        'as in "550 5.1.1 No such user".',
    );
  }
  if (reply.code < 400) {
    return usageFailure(
      `${reply.code} is not a refusal; only replies from 400 to 599 can be explained.`,
    );
  }
  const phaseAndReply = { phase, reply };
  const { category, blame, permanent, suppress, advice } = classifyReply(phaseAndReply);
  return {
    data: { category, blame, permanent, suppress, advice },
    text: textOf(classifyReply(phaseAndReply), {
      meaning: meaningOf(phaseAndReply).replaceAll('_', ' '),
      like: ruleFor(phaseAndReply)?.example.replaceAll('\n', ' ') ?? null,
    }),
  };
}

/** Parses a pasted reply, with or without its line breaks, even cut off. null: not a reply. */
function replyOf(pasted: string): SmtpReply | null {
  const lines = pasted
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '');
  const last = lines.pop() ?? '';
  const ended = [...lines, last.replace(/^(\d{3})-/, '$1 ')].join('\r\n');
  const { replies, error } = new ReplyParser().push(Buffer.from(`${ended}\r\n`));
  return error === null && replies.length === 1 ? (replies[0] ?? null) : null;
}

function textOf(
  classification: Classification,
  rule: { meaning: string; like: string | null },
): string {
  return facts([
    ['category', classification.category],
    ['blame', WHO[classification.blame]],
    ['permanent', permanence(classification)],
    ['suppress', suppression(classification)],
    ['advice', classification.advice],
    ['meaning', rule.meaning],
    ['example', rule.like ?? 'no rule matches this text; the code decided'],
  ]);
}

function permanence({ permanent, retrySlowly }: Classification): string {
  if (permanent) return 'yes: the email bounces';
  return retrySlowly === true ? 'no: retried, first after half an hour' : 'no: retried';
}

function suppression({ suppress, suppressDays }: Classification): string {
  if (!suppress) return 'no';
  return suppressDays === undefined ? 'yes' : `yes, for ${suppressDays} days`;
}

const KINDS: Readonly<Record<ReportKind, string>> = {
  bounce: 'bounce: it was not delivered and is not retried',
  delay: 'delay: it is not delivered yet and is still retried',
  complaint: 'complaint: the recipient reported it as spam',
  delivered: 'delivered: it was delivered',
  auto_reply: 'auto_reply: sent automatically; no effect',
  other: 'other: not a report about an email',
};

const RESULTS: Readonly<Record<ReportKind, string>> = {
  bounce: 'bounced',
  delay: 'delayed, still retried',
  complaint: 'complained',
  delivered: 'delivered',
  auto_reply: 'none',
  other: 'none yet',
};

function describeExplainBounce(explain: Command, cli: Cli): void {
  addCommand(explain, cli, {
    name: 'bounce',
    about: 'explain a bounce, complaint or other report',
    examples: ['explain bounce returned.eml'],
    run: explainBounces,
  }).argument('<file...>', 'messages as received; - is the standard input');
}

async function explainBounces(
  cli: Cli,
  { json = false }: { json?: boolean },
  [files]: [string[]],
): Promise<ExitCode> {
  let exitCode: ExitCode = 0;
  for (const [index, file] of files.entries()) {
    const bytes = await readOrSayWhy(cli, file, json);
    if (bytes === null) {
      exitCode = 1;
      continue;
    }
    const report = readReport(bytes);
    const gap = index > 0 && !json ? '\n' : '';
    cli.out(`${gap}${json ? JSON.stringify(asData(file, report)) : asText(file, report)}\n`);
  }
  return exitCode;
}

async function readOrSayWhy(cli: Cli, file: string, json: boolean): Promise<Buffer | null> {
  try {
    return await (file === '-' ? readAll(process.stdin) : readFile(file));
  } catch (error) {
    const message = `${file} cannot be read: ${error instanceof Error ? error.message : String(error)}`;
    const failed = { error: { code: 'unreadable_file', message } };
    cli.err(json ? `${JSON.stringify(failed)}\n` : `letterhaus: ${message}\n`);
    return null;
  }
}

async function readAll(stream: AsyncIterable<Uint8Array | string>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks);
}

function asData(file: string, { kind, recipients }: Report): object {
  return {
    file,
    kind,
    recipients: recipients.map(
      ({ kind: result, recipient, status, code, classification, diagnostic }) => ({
        recipient,
        kind: result,
        status,
        code,
        category: classification?.category ?? null,
        permanent: classification?.permanent ?? false,
        suppress: suppresses(kind, classification),
        diagnostic,
      }),
    ),
  };
}

function suppresses(
  kind: ReportKind,
  classification: ReportedRecipient['classification'],
): boolean {
  return kind === 'complaint' || classification?.suppress === true;
}

function asText(file: string, { kind, recipients }: Report): string {
  const blocks = recipients.map(
    ({ kind: result, recipient, status, code, classification, diagnostic }) =>
      facts([
        ['recipient', recipient ?? 'not named'],
        ['result', RESULTS[result]],
        ['reply', [code, status].filter((part) => part !== null).join(' ') || 'no code'],
        ['category', classification?.category ?? 'none'],
        ['permanent', classification?.permanent === true ? 'yes' : 'no'],
        ['suppress', reportedSuppression(kind, classification)],
        ['diagnostic', diagnostic ?? 'none'],
        ['advice', classification?.advice ?? 'none'],
      ]),
  );
  return [
    facts([
      ['file', file],
      ['kind', KINDS[kind]],
    ]),
    ...blocks,
  ].join('\n\n');
}

function reportedSuppression(
  kind: ReportKind,
  classification: ReportedRecipient['classification'],
): string {
  if (!suppresses(kind, classification)) return 'no';
  return classification?.suppressDays === undefined
    ? 'yes'
    : `yes, for ${classification.suppressDays} days`;
}
