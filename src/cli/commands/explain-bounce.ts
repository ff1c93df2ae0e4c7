/**
 * `posthorn explain bounce FILE...`: what messages that came back say, read as inbound reads them.
 * Needs neither the service nor its database.
 *
 * With --json one object per line and file, in their order, so that any number can be piped on.
 */
import { readFile } from 'node:fs/promises';
import type { Command } from 'commander';
import {
  readReport,
  type Report,
  type ReportedRecipient,
  type ReportKind,
} from '../../mail/reports/read-report.ts';
import { addCommand, type ExitCode } from '../command.ts';
import type { Cli } from '../context.ts';
import { facts } from '../table.ts';

const KINDS: Readonly<Record<ReportKind, string>> = {
  bounce: 'bounce: it did not arrive and is not tried any more',
  delay: 'delay: it has not arrived yet and is still tried',
  complaint: 'complaint: the recipient does not want it',
  delivered: 'delivered: it arrived',
  auto_reply: 'auto_reply: nobody wrote this; it means nothing',
  other: 'other: nothing that tells what became of an email',
};

export function describeExplainBounce(explain: Command, cli: Cli): void {
  addCommand(explain, cli, {
    name: 'bounce',
    about: 'what a bounce, complaint or other report that came back says',
    run: explainBounces,
  }).argument('<file...>', 'messages as they arrived; - is the standard input');
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
    cli.err(json ? `${JSON.stringify(failed)}\n` : `posthorn: ${message}\n`);
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
    recipients: recipients.map(({ recipient, status, code, verdict, diagnostic }) => ({
      recipient,
      status,
      code,
      category: verdict?.category ?? null,
      permanent: verdict?.permanent ?? false,
      suppress: suppresses(kind, verdict),
      diagnostic,
    })),
  };
}

/** A complaint always does: whoever complained wants no more. */
function suppresses(kind: ReportKind, verdict: ReportedRecipient['verdict']): boolean {
  return kind === 'complaint' || verdict?.suppress === true;
}

function asText(file: string, { kind, recipients }: Report): string {
  const blocks = recipients.map(({ recipient, status, code, verdict, diagnostic }) =>
    facts([
      ['recipient', recipient ?? 'not named'],
      ['said', [code, status].filter((part) => part !== null).join(' ') || 'no code'],
      ['category', verdict?.category ?? 'none'],
      ['permanent', verdict?.permanent === true ? 'yes' : 'no'],
      ['suppress', suppression(kind, verdict)],
      ['diagnostic', diagnostic ?? 'none'],
      ['advice', verdict?.advice ?? 'none'],
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

function suppression(kind: ReportKind, verdict: ReportedRecipient['verdict']): string {
  if (!suppresses(kind, verdict)) return 'no';
  return verdict?.suppressDays === undefined ? 'yes' : `yes, for ${verdict.suppressDays} days`;
}
