/**
 * `letterhaus start --once`: tests the whole path on this machine, then removes everything it created.
 *
 * A real service runs in a temporary data directory. A DNS zone, an MX and a webhook receiver on loopback replace the
 * internet. One email goes API → queue → MIME → DKIM → SMTP → webhook, sent with a live key; each step is printed with
 * its duration. The run ends after the last step, at the first failure, at the deadline or on Ctrl-C. In each case the
 * service is stopped and its files are deleted.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type Cli, printFailure, type ExitCode } from '../command.ts';
import { openReceiver, openSink, openZone } from './internet.ts';
import { type Internet, prove, RECIPIENT_MX, type StepRunner } from './prove.ts';
import type { Env } from '../../config/env-file.ts';
import { removeDataDir } from '../../database/embedded/layout.ts';

const DEADLINE_MS = 60_000;
const OWN_NAME = 'letterhaus.once.test';

type Step = { step: string; detail: string; ms: number; ok: boolean };

export async function runOnce(cli: Cli, options: { json?: true }): Promise<ExitCode> {
  const interruption = new AbortController();
  const interrupt = () => interruption.abort(new Error('interrupted'));
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  for (const name of signals) process.on(name, interrupt);
  const steps: Step[] = [];
  const report = (step: Step): void => {
    steps.push(step);
    if (!options.json) cli.out(stepLine(step));
  };
  const problem = await runIn(cli, interruption.signal, report);
  for (const name of signals) process.off(name, interrupt);
  const ok = problem === null;
  cli.out(options.json ? `${JSON.stringify({ ok, steps })}\n` : conclusion(ok, steps));
  const failed = { failed: problem ?? '', code: 'internal_error', exitCode: 1 } as const;
  if (!ok && options.json) printFailure(cli, failed, true);
  // With the end of the log, as it was written.
  else if (!ok) cli.err(`letterhaus: ${problem}\n`);
  return ok ? 0 : 1;
}

/**
 * Runs the steps, then stops the service and deletes its files.
 * @returns the reason of a failure, with the end of the service's log; null on success
 */
async function runIn(
  cli: Cli,
  interrupted: AbortSignal,
  report: (step: Step) => void,
): Promise<string | null> {
  const dataDir = await mkdtemp(join(tmpdir(), 'letterhaus-once-'));
  const signal = AbortSignal.any([interrupted, AbortSignal.timeout(DEADLINE_MS)]);
  let logEnd = () => '';
  try {
    await using zone = await openZone();
    await using sink = await openSink(RECIPIENT_MX, cli.world);
    await using receiver = await openReceiver();
    const internet = { zone, sink, receiver };
    const env = environment(cli.env, dataDir, internet);
    await using service = startServiceChild(env);
    logEnd = service.logEnd;
    const step = stepRunner(cli, signal, report);
    const own = { ...cli, env };
    await prove({ step, internet, cli: own, serviceUrl: service.url, signal });
    return null;
  } catch (error) {
    return [(error as Error).message, logEnd()].join('\n').trim();
  } finally {
    removeDataDir(dataDir);
  }
}

/** Passes no LETTERHAUS_ setting of this environment to the temporary service. */
function environment(env: Env, dataDir: string, { zone, sink }: Internet): Env {
  const { PATH, HOME, TMPDIR } = env;
  return {
    PATH,
    HOME,
    TMPDIR,
    LETTERHAUS_ENV_FILE: '/dev/null',
    HOST: '127.0.0.1',
    PORT: '0',
    LETTERHAUS_DATA_DIR: dataDir,
    LETTERHAUS_HOSTNAME: OWN_NAME,
    LETTERHAUS_DNS_SERVERS: zone.address,
    LETTERHAUS_MX_PORT: String(sink.port),
    LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1',
    LETTERHAUS_LOG: 'warn',
  };
}

function stepRunner(cli: Cli, signal: AbortSignal, report: (step: Step) => void): StepRunner {
  const aborted = new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
  });
  aborted.catch(() => {});
  return async (name, work) => {
    const startedMs = cli.world.monotonicMs();
    const ms = () => Math.round((cli.world.monotonicMs() - startedMs) * 10) / 10;
    try {
      signal.throwIfAborted();
      const { detail, result } = await Promise.race([work(), aborted]);
      report({ step: name, detail, ms: ms(), ok: true });
      return result;
    } catch (error) {
      report({ step: name, detail: 'failed', ms: ms(), ok: false });
      throw error;
    }
  };
}

function stepLine({ step, detail, ms }: Step): string {
  return `  ${step.padEnd(10)} ${`${ms.toFixed(1)} ms`.padStart(12)}   ${detail}\n`;
}

function conclusion(ok: boolean, steps: Step[]): string {
  if (!ok) return 'Letterhaus does not work here:\n';
  const totalMs = steps.reduce((sum, { ms }) => sum + ms, 0);
  return `Letterhaus works: ${steps.length} steps in ${(totalMs / 1000).toFixed(1)} s, nothing left behind.\n`;
}

const STOP_WITHIN_MS = 15_000;

type ServiceChild = AsyncDisposable & {
  /** Resolves with the service's address once it is ready. */
  url: Promise<string>;
  logEnd: () => string;
};

/** @param env the whole environment of the child */
function startServiceChild(env: Env): ServiceChild {
  const args = [process.argv[1] ?? '', 'start', '--json', '--workers', '1'];
  const child = spawn(process.execPath, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
  let log = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => (log = (log + text).slice(-4_000)));
  const ended = once(child, 'exit');
  const ready = once(createInterface(child.stdout), 'line') as Promise<[string]>;
  const url = Promise.race([
    ready.then(([line]) => (JSON.parse(line) as { url: string }).url),
    ended.then(() => Promise.reject(new Error('the service did not start'))),
  ]);
  url.catch(() => {}); // awaited later
  return {
    url,
    logEnd: () => log,
    async [Symbol.asyncDispose]() {
      const timer = setTimeout(() => child.kill('SIGKILL'), STOP_WITHIN_MS);
      child.kill('SIGTERM');
      if (child.exitCode === null && child.signalCode === null) await ended;
      clearTimeout(timer);
    },
  };
}
