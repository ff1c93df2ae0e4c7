/**
 * `posthorn send`: one email through the API of a running service, as any client sends it, so that
 * the key's rules and limits hold and the answer is the API's own.
 */
import { readFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { text as readAll } from 'node:stream/consumers';
import type { Command } from 'commander';
import { Agent, fetch, type RequestInit } from 'undici';
import { readConfig } from '../../config/config.ts';
import { readRunning } from '../../store/postgres/embedded/lock.ts';
import {
  type Cli,
  failure,
  type Failure,
  type Outcome,
  runnable,
  usageFailure,
} from '../command.ts';

const TIMEOUT_MS = 30_000;

export function describeSend(send: Command, cli: Cli): void {
  send
    .requiredOption('--from <address>', "sender, as 'Acme <hello@acme.com>'")
    .requiredOption('--to <address...>', 'recipients')
    .requiredOption('--subject <text>', 'subject')
    .option('--html <html>', 'content as HTML')
    .option('--html-file <file>', 'the same from a file; - is standard input')
    .option('--text <text>', 'content as plain text')
    .option('--text-file <file>', 'the same from a file; - is standard input')
    .option('--cc <address...>', 'copies')
    .option('--bcc <address...>', 'blind copies')
    .option('--reply-to <address...>', 'where replies go')
    .option('--at <time>', 'send it later: ISO 8601 with an offset, at most 30 days ahead')
    .option(
      '--idempotency-key <key>',
      'repeating the command with the same key sends no second email',
    )
    .option('--key <key>', 'API key (default: POSTHORN_API_KEY)')
    .option('--url <url>', 'of the service (default: POSTHORN_URL, or the one running here)');
  runnable(send, cli, run);
}

type SendOptions = {
  from: string;
  to: string[];
  subject: string;
  html?: string;
  htmlFile?: string;
  text?: string;
  textFile?: string;
  cc?: string[];
  bcc?: string[];
  replyTo?: string[];
  at?: string;
  idempotencyKey?: string;
  key?: string;
  url?: string;
};

async function run(cli: Cli, options: SendOptions): Promise<Outcome> {
  const key = options.key ?? cli.env['POSTHORN_API_KEY'];
  if (!key) {
    return usageFailure('An API key is needed: give --key or set POSTHORN_API_KEY.');
  }
  const asked = options.url ?? cli.env['POSTHORN_URL'];
  const here = asked === undefined ? runningHere(cli) : null;
  const url = asked ?? here?.url;
  if (url === undefined) {
    return usageFailure('No service is running here: start it, or give --url or POSTHORN_URL.');
  }
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? '')) {
    return usageFailure(
      `${JSON.stringify(url)} is not the address of a service; write it like http://127.0.0.1:3000.`,
    );
  }
  const email = await emailOf(options);
  if (typeof email === 'string') return usageFailure(email);
  const { idempotencyKey } = options;
  const headers = {
    authorization: `Bearer ${key}`,
    'content-type': 'application/json',
    ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
  };
  const request = { method: 'POST', headers, body: JSON.stringify(email) };
  return post(new URL('/v1/emails', url), { ...request, ...trusting(here?.certificate ?? null) });
}

type Here = { url: string; certificate: string | null };

/** The service on the data directory of this environment, as far as this user may know of it. */
function runningHere(cli: Cli): Here | null {
  const read = readConfig(cli.env);
  if (!read.ok) return null;
  const { dataDir, apiTlsFiles } = read.config;
  try {
    const url = readRunning(dataDir)?.url ?? null;
    return url === null ? null : { url, certificate: apiTlsFiles?.cert ?? null };
  } catch {
    return null;
  }
}

/**
 * The service on this machine is reached by an address, which its certificate does not name: the
 * certificate itself is known here, and no other is trusted.
 */
function trusting(certificate: string | null): { dispatcher?: Agent } {
  if (certificate === null) return {};
  const ca = readFileSync(certificate);
  const checkServerIdentity = () => undefined;
  return {
    dispatcher: new Agent({ connect: { ca, allowPartialTrustChain: true, checkServerIdentity } }),
  };
}

/** @returns the request's body, or a sentence when a file cannot be read */
async function emailOf(options: SendOptions): Promise<object | string> {
  try {
    return {
      from: options.from,
      to: options.to,
      cc: options.cc,
      bcc: options.bcc,
      reply_to: options.replyTo,
      scheduled_at: options.at,
      subject: options.subject,
      html: options.html ?? (await contentOf(options.htmlFile)),
      text: options.text ?? (await contentOf(options.textFile)),
    };
  } catch (error) {
    return `The content cannot be read: ${(error as Error).message}.`;
  }
}

function contentOf(file: string | undefined): Promise<string | undefined> {
  if (file === undefined) return Promise.resolve(undefined);
  return file === '-' ? readAll(process.stdin) : readFile(file, 'utf8');
}

async function post(url: URL, request: RequestInit): Promise<Outcome> {
  try {
    const response = await fetch(url, { ...request, signal: AbortSignal.timeout(TIMEOUT_MS) });
    const answer = JSON.parse(await response.text()) as Answer;
    return response.ok ? accepted(answer, response.status) : refused(answer);
  } catch (error) {
    const { message, cause } = error as Error & { cause?: Error };
    const why = cause?.message || message;
    return {
      failed: `No answer from the service at ${url.origin} (${why}); check that it runs there.`,
      code: 'service_unavailable',
      exitCode: 1,
    };
  }
}

type Answer = { id?: string; error?: { code: string; message: string } };

function accepted(answer: Answer, status: number): Outcome {
  const what = status === 200 ? 'was accepted before with this idempotency key' : 'is accepted';
  return {
    data: answer,
    text: `Email ${answer.id} ${what}; see posthorn emails show ${answer.id}`,
  };
}

function refused({ error }: Answer): Failure {
  const { code = 'internal_error', message = 'the answer has no error in it' } = error ?? {};
  return failure({ refused: code, message });
}
