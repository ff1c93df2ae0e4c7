/**
 * `letterhaus webhooks listen`: posts the events of a service to a developer's machine, signed as webhooks. It reads
 * the event stream of the API, so it needs only a key, and the target may be a private address.
 *
 * Events are posted one at a time, in order. A target that does not respond is retried until it does. After a failure
 * status, the event is posted up to three more times and then skipped. Each event is handled once while this process
 * runs; `--after` with the last cursor continues after a restart.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { InvalidArgumentError, type Command } from 'commander';
import type { EventType } from '../../core/events.ts';
import {
  formatPayload,
  formatSecret,
  SECRET_BYTES,
  signatureHeaders,
} from '../sending/signed-request.ts';
import { type Api, apiCommand, type ApiOptions } from '../../cli/api.ts';
import type { Cli, ExitCode } from '../../cli/command.ts';
import { EventSource, type SourceEvent } from '../../events/command-source.ts';
import { line, parseEvents } from '../../events/command.ts';

const TIMEOUT_MS = 15_000;
/** Milliseconds before an event is posted again after a failure status. */
const RETRY_WAITS_MS = [1_000, 5_000, 15_000];
const NO_ANSWER_WAIT_MAX_MS = 10_000;

export function describeListen(webhooks: Command, cli: Cli): void {
  apiCommand(webhooks, cli, {
    name: 'listen',
    about: 'forward the events of a service to this machine, for development',
    examples: ['webhooks listen --forward-to http://localhost:4000/hooks'],
    mode: 'test',
    takesKeyOfEnv: true,
    run: listen,
  })
    .requiredOption('--forward-to <url>', 'URL to post events to', parseTarget)
    .option('--types <types>', 'only these types, separated by commas (default: all)', parseEvents)
    .option('--secret <secret>', 'secret to sign with: whsec_… (default: a new one)', parseSecret)
    .option('--after <cursor>', 'only events after this cursor (default: new events)');
}

type Options = ApiOptions & {
  json?: true;
  forwardTo: string;
  types?: EventType[];
  secret?: string;
  after?: string;
};

type Forwarding = { cli: Cli; target: string; secret: string; json: boolean; signal: AbortSignal };

async function listen({ cli, request }: Api, options: Options): Promise<ExitCode> {
  const { forwardTo: target, json = false, types, after = 'latest' } = options;
  const secret = options.secret ?? formatSecret(randomBytes(SECRET_BYTES));
  if (json) cli.out(`${JSON.stringify({ signing_secret: secret })}\n`);
  else cli.out(`${secret}\n\nEvents are signed with this secret and posted to ${target}.\n`);
  const stop = new AbortController();
  const onSignal = (): void => stop.abort();
  for (const name of SIGNALS) process.once(name, onSignal);
  const query = new URLSearchParams(types === undefined ? {} : { types: types.join() });
  const { signal } = stop;
  const source = new EventSource(request, {
    query,
    after,
    signal,
    onLost: (sentence) => cli.err(`${sentence}\n`),
  });
  try {
    for await (const event of source.events()) {
      await forward(event, { cli, target, secret, json, signal });
      if (signal.aborted) break;
    }
  } finally {
    for (const name of SIGNALS) process.off(name, onSignal);
  }
  if (source.cursor !== 'latest') cli.err(`Continue with --after ${source.cursor}\n`);
  return 0;
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Resolves when the event was accepted or skipped, or when the command ends. */
async function forward(event: SourceEvent, forwarding: Forwarding): Promise<void> {
  const { cli, json, signal } = forwarding;
  let refusals = 0;
  for (let tries = 1; !signal.aborted; tries += 1) {
    const startMs = cli.world.monotonicMs();
    const status = await post(event, forwarding);
    if (signal.aborted) return;
    const latency_ms = Math.round(cli.world.monotonicMs() - startMs);
    const { id, type } = event;
    const said = typeof status === 'number' ? String(status) : `no answer (${status})`;
    if (json) cli.out(`${JSON.stringify({ id, type, status, latency_ms })}\n`);
    else cli.out(`${line(event)}  ->  ${said}, ${latency_ms} ms\n`);
    if (typeof status === 'number' && status >= 200 && status < 300) return;
    const waitMs =
      typeof status === 'number'
        ? RETRY_WAITS_MS[refusals++]
        : Math.min(1_000 * tries, NO_ANSWER_WAIT_MAX_MS);
    if (waitMs === undefined) return;
    await pause(waitMs, undefined, { signal }).catch(() => {});
  }
}

/** @returns the status of the response, or the reason why there was none */
async function post(
  { id, type, created_at: createdAt, data }: SourceEvent,
  { cli, target, secret, signal }: Forwarding,
): Promise<number | string> {
  const body = formatPayload({ type, createdAt, data: JSON.stringify(data) });
  const timestampS = Math.floor(cli.world.now() / 1_000);
  try {
    const response = await fetch(target, {
      method: 'POST',
      redirect: 'manual',
      signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
      headers: {
        'content-type': 'application/json',
        'user-agent': 'Letterhaus-Webhooks',
        ...signatureHeaders({ id, timestampS, body }, [secret]),
      },
      body,
    });
    await response.body?.cancel();
    return response.status;
  } catch (error) {
    const { message, cause } = error as Error & { cause?: Error };
    return cause?.message || message;
  }
}

function parseTarget(text: string): string {
  if (/^https?:$/.test(URL.parse(text)?.protocol ?? '')) return text;
  throw new InvalidArgumentError('Write it like http://localhost:4000/hooks.');
}

function parseSecret(text: string): string {
  const bytes = Buffer.from(text.replace(/^whsec_/, ''), 'base64');
  if (text.startsWith('whsec_') && bytes.length >= 24 && bytes.length <= 64) return text;
  throw new InvalidArgumentError('Write whsec_ and the base64 of 24 to 64 bytes.');
}
