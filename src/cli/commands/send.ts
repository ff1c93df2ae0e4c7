/**
 * `posthorn send`: one email through the API of a running service, as any client sends it, so that
 * the key's rules and limits hold and the answer is the API's own.
 */
import { readFile } from 'node:fs/promises';
import { text as readAll } from 'node:stream/consumers';
import type { Command } from 'commander';
import type { RequestInit } from 'undici';
import { type Cli, isFailure, type Outcome, runnable, usageFailure } from '../command.ts';
import {
  apiOf,
  apiOptions,
  type ErrorAnswer,
  noAnswer,
  refusedBy,
  type ServiceApi,
} from '../service-api.ts';

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
    );
  runnable(apiOptions(send), cli, run);
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
  const api = apiOf(cli, options);
  if (isFailure(api)) return api;
  const email = await emailOf(options);
  if (typeof email === 'string') return usageFailure(email);
  const { idempotencyKey } = options;
  const headers = {
    'content-type': 'application/json',
    ...(idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }),
  };
  return post(api, { method: 'POST', headers, body: JSON.stringify(email) });
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

async function post(api: ServiceApi, request: RequestInit): Promise<Outcome> {
  try {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    const response = await api.request('/v1/emails', { ...request, signal });
    const answer = JSON.parse(await response.text()) as Accepted & ErrorAnswer;
    return response.ok ? accepted(answer, response.status) : refusedBy(answer);
  } catch (error) {
    return noAnswer(api.origin, error);
  }
}

type Accepted = { id?: string };

function accepted(answer: Accepted, status: number): Outcome {
  const what = status === 200 ? 'was accepted before with this idempotency key' : 'is accepted';
  return {
    data: answer,
    text: `Email ${answer.id} ${what}; see posthorn emails show ${answer.id}`,
  };
}
