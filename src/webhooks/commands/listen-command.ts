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
  formatSecret,
  ownPayload,
  SECRET_BYTES,
  signedHeaders,
} from '../sending/signed-request.ts';
import { type Api, apiCommand, type ApiOptions } from '../../cli/api.ts';
import type { Cli, ExitCode } from '../../cli/command.ts';
import { failureReason } from '../../cli/connection.ts';
import { EventSource, type SourceEvent } from '../../events/command-event-source.ts';
import { formatEvent, parseEvents } from '../../events/command.ts';

const TIMEOUT_MS = 15_000;
/** Milliseconds before an event is posted again after a failure status. */
const RETRY_WAITS_MS = [1_000, 5_000, 15_000];
/** Milliseconds before an event is posted again without a response: this long after the first time, then longer. */
const SILENT_WAIT_MS = 1_000;
const SILENT_WAIT_MAX_MS = 10_000;
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

export function describeListen(webhooks: Command, cli: Cli): void {
  apiCommand(webhooks, cli, {
    name: 'listen',
    about: 'forward the events of a service to this machine, for development',
    examples: ['webhooks listen --forward-to http://localhost:4000/hooks'],
    environment: 'test',
    takesKeyOfEnv: true,
    run: listen,
  })
    .requiredOption('--forward-to <url>', 'URL to post events to', parseTarget)
    .option('--types <types>', 'only these types, separated by commas (default: all)', parseEvents)
    .option('--secret <secret>', 'secret to sign with: whsec_… (default: a new one)', parseSecret)
    .option('--after <cursor>', 'only events after this cursor (default: new events)');
}

type ListenOptions = ApiOptions & {
  json?: true;
  forwardTo: string;
  types?: EventType[];
  secret?: string;
  after?: string;
};

async function listen({ cli, request }: Api, options: ListenOptions): Promise<ExitCode> {
  const { forwardTo: target, json = false, types, after = 'latest' } = options;
  const secret = options.secret ?? formatSecret(randomBytes(SECRET_BYTES));
  if (json) cli.out(`${JSON.stringify({ signing_secret: secret })}\n`);
  else cli.out(`${secret}\n\nEvents are signed with this secret and posted to ${target}.\n`);
  using stop = new StopSignal();
  const { signal } = stop;
  const query = new URLSearchParams(types === undefined ? {} : { types: types.join() });
  const report = (sentence: string): void => cli.err(`${sentence}\n`);
  const source = new EventSource(request, { query, after, signal, report });
  const forwarder = new Forwarder({ cli, target, secret, json, signal });
  for await (const event of source.events()) {
    await forwarder.forward(event);
    if (signal.aborted) break;
  }
  if (source.cursor !== 'latest') cli.err(`Continue with --after ${source.cursor}\n`);
  return 0;
}

/** Aborts its signal when the user or the system ends the command. */
class StopSignal implements Disposable {
  readonly #controller = new AbortController();
  readonly #abort = (): void => this.#controller.abort();

  constructor() {
    for (const name of SIGNALS) process.once(name, this.#abort);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  [Symbol.dispose](): void {
    for (const name of SIGNALS) process.off(name, this.#abort);
  }
}

type ForwarderOptions = {
  cli: Cli;
  target: string;
  secret: string;
  json: boolean;
  signal: AbortSignal;
};

/** The status of the target's response, or the reason why there was none. */
type PostResult = number | string;

class Forwarder {
  readonly #options: ForwarderOptions;
  /** True while posts get no response, or failure statuses, and stderr states the reason. */
  #hasReportedFailure = false;

  constructor(options: ForwarderOptions) {
    this.#options = options;
  }

  /** Resolves when the event was accepted or skipped, or when the command ends. */
  async forward(event: SourceEvent): Promise<void> {
    const { cli, signal } = this.#options;
    let refusals = 0;
    for (let posts = 1; !signal.aborted; posts += 1) {
      const startMs = cli.world.monotonicMs();
      const result = await this.#post(event);
      if (signal.aborted) return;
      this.#print(event, result, Math.round(cli.world.monotonicMs() - startMs));
      if (isAccepted(result)) {
        this.#hasReportedFailure = false;
        return;
      }
      this.#reportFailure(result);
      const isRefusal = typeof result === 'number';
      const waitMs = isRefusal ? RETRY_WAITS_MS[refusals] : silentWaitMs(posts);
      if (waitMs === undefined) return;
      if (isRefusal) refusals += 1;
      await pause(waitMs, undefined, { signal }).catch(() => {});
    }
  }

  async #post({ id, type, created_at: createdAt, data }: SourceEvent): Promise<PostResult> {
    const { cli, target, secret, signal } = this.#options;
    const body = ownPayload({ type, createdAt, data: JSON.stringify(data) });
    const timestampS = Math.floor(cli.world.now() / 1_000);
    try {
      const response = await fetch(target, {
        method: 'POST',
        redirect: 'manual',
        signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
        headers: signedHeaders({ id, timestampS, body }, [secret]),
        body,
      });
      await response.body?.cancel();
      return response.status;
    } catch (error) {
      return failureReason(error);
    }
  }

  #print(event: SourceEvent, status: PostResult, latency_ms: number): void {
    const { cli, json } = this.#options;
    const { id, type } = event;
    if (json) return cli.out(`${JSON.stringify({ id, type, status, latency_ms })}\n`);
    const outcome = typeof status === 'number' ? String(status) : `no response (${status})`;
    cli.out(`${formatEvent(event)}  ->  ${outcome}, ${latency_ms} ms\n`);
  }

  /** Reports the first failure until an event is accepted. Every attempt is on stdout. */
  #reportFailure(result: PostResult): void {
    if (this.#hasReportedFailure) return;
    this.#hasReportedFailure = true;
    const { cli, target } = this.#options;
    cli.err(
      typeof result === 'number'
        ? `${target} responds with ${result}. Each event is posted up to ${1 + RETRY_WAITS_MS.length} times, then skipped.\n`
        : `${target} does not respond (${result}). This command tries again until it does.\n`,
    );
  }
}

function isAccepted(result: PostResult): boolean {
  return typeof result === 'number' && result >= 200 && result < 300;
}

function silentWaitMs(posts: number): number {
  return Math.min(SILENT_WAIT_MS * posts, SILENT_WAIT_MAX_MS);
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
