/** Runs parts of a measurement in child processes: the sink and the load generators. */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import type { HttpLoad } from '../http-load.ts';
import type { FromSink, SinkTotals, ToSink } from './sink-messages.ts';
import type { SmtpLoad } from '../smtp-load.ts';

/** Number of messages that all load generators have sent, so that every message gets its own number. */
let sent = 0;

/**
 * Runs a load generator of bench/ to its end, with new messages.
 * @throws with its stderr when it fails
 */
export async function runLoad<Result>(
  file: string,
  load: Omit<HttpLoad, 'firstNumber'> | Omit<SmtpLoad, 'firstNumber'>,
): Promise<Result> {
  const numbered = { ...load, firstNumber: sent };
  sent += load.count;
  const child = spawn(process.execPath, [pathOf(file), JSON.stringify(numbered)], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [stdout, stderr] = [textOf(child.stdout), textOf(child.stderr)];
  const [code] = await once(child, 'exit');
  if (code !== 0) throw new Error(`${file} ended with ${code}\n${await stderr}`);
  return JSON.parse(await stdout) as Result;
}

export type SinkOptions = { tls?: boolean; delayMs?: number; webhooks?: boolean };

export class Sink implements AsyncDisposable {
  readonly port: number;
  /** Port for webhooks; null: this sink takes none. */
  readonly webhookPort: number | null;
  readonly pid: number;
  readonly #child: ChildProcess;

  static async start({ tls, delayMs = 0, webhooks }: SinkOptions = {}): Promise<Sink> {
    const flags = [...(tls ? ['--tls'] : []), ...(webhooks ? ['--webhooks'] : [])];
    const child = spawn(
      process.execPath,
      [pathOf('sink.ts'), '--delay-ms', String(delayMs), ...flags],
      { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] },
    );
    const [line] = (await once(child.stdout!, 'data')) as [Buffer];
    return new Sink(child, JSON.parse(line.toString()) as Listening);
  }

  constructor(child: ChildProcess, { port, webhookPort }: Listening) {
    // The child may end before a request reaches it. `#ask` detects that end itself.
    this.#child = child.on('error', () => {});
    this.pid = child.pid ?? 0;
    this.port = port;
    this.webhookPort = webhookPort;
  }

  async totals(): Promise<SinkTotals> {
    return this.#ask({ type: 'totals' }, 'totals');
  }

  /** @returns the time (machine-clock.ts) at which this many messages had arrived since the start */
  async reached(messages: number): Promise<number> {
    return (await this.#ask({ type: 'tell_when', messages }, 'reached')).atMs;
  }

  noteCommands(): void {
    this.#child.send({ type: 'note_commands' } satisfies ToSink);
  }

  /** @returns the arrival time of each transaction's first command since `noteCommands` */
  async commands(): Promise<number[]> {
    return (await this.#ask({ type: 'commands' }, 'commands')).atMs;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#isRunning()) return;
    this.#child.kill('SIGTERM');
    await once(this.#child, 'exit');
  }

  #isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null;
  }

  async #ask<Type extends FromSink['type']>(
    question: ToSink,
    type: Type,
  ): Promise<Extract<FromSink, { type: Type }>> {
    if (!this.#isRunning()) throw new Error('the sink has died');
    const answer = new Promise<Extract<FromSink, { type: Type }>>((resolve, reject) => {
      const onMessage = (message: FromSink): void => {
        if (message.type !== type) return;
        this.#child.off('message', onMessage).off('exit', fail);
        resolve(message as Extract<FromSink, { type: Type }>);
      };
      const fail = (): void => reject(new Error('the sink has died'));
      this.#child.on('message', onMessage).on('exit', fail);
    });
    this.#child.send(question);
    return answer;
  }
}

type Listening = { port: number; webhookPort: number | null };

function pathOf(file: string): string {
  return fileURLToPath(new URL(`../${file}`, import.meta.url));
}

async function textOf(stream: NodeJS.ReadableStream): Promise<string> {
  let text = '';
  for await (const chunk of stream) text += String(chunk);
  return text;
}
