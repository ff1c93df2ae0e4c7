/**
 * The entry of one worker process. It receives its setup from the supervisor, runs until the stop message, and exits at
 * once when the supervisor is gone.
 */
import cluster from 'node:cluster';
import { flushCompileCache } from 'node:module';
import { setFlagsFromString } from 'node:v8';
import { armWorker } from '../machine/failpoints.ts';
import packageFile from '../../../package.json' with { type: 'json' };
import { loadTracing } from '../../lib/tracing/spans.ts';
import { errorText, logUncaught } from '../machine/log.ts';
import type { Unready } from '../../core/unready.ts';
import { dropTo, loadLazyCode } from '../machine/privileges.ts';
import { createServer } from './server.ts';
import { DatabaseUnavailable } from '../../database/database.ts';
import { type FromWorker, MetricsRequests, type ToWorker } from './worker-messages.ts';

/** Skips messages to a supervisor that was killed; `disconnect` reports its end. */
function send(message: FromWorker): void {
  if (process.connected) process.send?.(message, undefined, undefined, () => {});
}

logUncaught();
// A Ctrl-C in the terminal reaches the whole process group. Only the supervisor handles it.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
// A worker without a supervisor ends, because nothing would stop it. The next start reclaims its work.
process.on('disconnect', () => process.exit(1));
// The cluster module writes to the supervisor as well, and its write may fail first.
cluster.worker?.on('error', () => process.exit(1));

/** Reasons for refusing mail, which may arrive before the setup. */
let refusals: readonly Unready[] = [];
let warnings: readonly string[] = [];
let server: Awaited<ReturnType<typeof createServer>> | undefined;
/** May arrive before the server exists. Passed to it before this worker confirms it. */
let secretKey: string | null = null;
/** The hold may end before the server exists. */
let hasHoldEnded = false;
/** The database may be moved before the server exists. */
let isPaused = false;
const metricsRequests = new MetricsRequests();

process.on('message', (message: ToWorker) => {
  switch (message.type) {
    case 'setup':
      void start(message);
      break;
    case 'stop':
      void stop();
      break;
    case 'ping':
      send({ type: 'pong' });
      break;
    case 'readiness':
      ({ refusals, warnings } = message);
      break;
    case 'secret_keys':
      ({ secretKey } = message);
      useSecretKeys();
      break;
    case 'hold_ended':
      hasHoldEnded = true;
      server?.endHold();
      break;
    case 'paused':
      ({ isPaused } = message);
      server?.pause(isPaused);
      break;
    case 'poll_now':
      server?.pollNow();
      break;
    case 'failed_over':
      void server?.reportFailover();
      break;
    case 'broker':
      server?.receiveFromBroker(message.messages);
      break;
    case 'smtp_log_in':
      server?.noteLogIn(message.client);
      break;
    case 'ask_metrics':
      void server?.registry.getMetricsAsJSON().then((value) => {
        send({ type: 'metrics_response', id: message.id, value });
      });
      break;
    case 'metrics_response':
      metricsRequests.resolve(message);
      break;
  }
});

async function start({ setup, v8Flag }: Extract<ToWorker, { type: 'setup' }>): Promise<void> {
  try {
    if (setup.user !== null) await loadLazyCode();
    await loadTracing(packageFile.version);
    armWorker(setup.failpoint);
    server = await createServer(setup, {
      onLoaded: () => {
        // Written now, because a killed process does not write it, and at exit the user of root's worker has no
        // permission.
        flushCompileCache();
        setFlagsFromString(v8Flag);
        if (setup.user) dropTo(setup.user);
      },
      refusals: () => refusals,
      warnings: () => warnings,
      onLeased: (id) => send({ type: 'lease', id }),
      sendToBroker: (messages) => send({ type: 'broker', messages }),
      onReadiness: (reasons) => send({ type: 'unready', reasons }),
      onSmtpLogIn: (client) => send({ type: 'smtp_log_in', client }),
      metricsText: async () => ((await metricsRequests.request(send)) as string | null) ?? '',
    });
    if (hasHoldEnded) server.endHold();
    if (isPaused) server.pause(true);
    useSecretKeys();
    send({ type: 'ready', port: server.port });
  } catch (error) {
    send({ type: 'failed', message: startProblem(error) });
  }
}

function useSecretKeys(): void {
  if (server === undefined || secretKey === null) return;
  server.useSecretKeys(secretKey);
  send({ type: 'secret_keys_used' });
}

function startProblem(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error instanceof DatabaseUnavailable ? error.message : errorText(error);
}

async function stop(): Promise<void> {
  await server?.stop();
  process.exit(0);
}

send({ type: 'hello' });
