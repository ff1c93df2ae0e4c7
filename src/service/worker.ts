/**
 * The entry of one worker process: gets its setup from the supervisor, runs until it is told to
 * stop, and ends at once when the supervisor is gone.
 */
import cluster from 'node:cluster';
import { armWorker } from './failpoints.ts';
import { errorText, logUncaught } from './log.ts';
import { dropTo, loadLazyCode } from './privileges.ts';
import { createServer } from './server.ts';
import { DatabaseUnavailable } from '../store/postgres/database.ts';
import { type FromWorker, Questions, type ToWorker } from './worker-messages.ts';

/** A supervisor that was killed is not told any more; that it is gone comes as `disconnect`. */
function tell(message: FromWorker): void {
  if (process.connected) process.send?.(message, undefined, undefined, () => {});
}

logUncaught();
// A Ctrl-C in the terminal reaches the whole group; the supervisor decides what it means.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {});
// Without a supervisor nobody would stop it: what it held is taken over by the next start.
process.on('disconnect', () => process.exit(1));
// The cluster module writes to the supervisor too, and may find out first.
cluster.worker?.on('error', () => process.exit(1));

let server: Awaited<ReturnType<typeof createServer>> | undefined;
/** Why emails are not accepted: it may come before there is a server to tell. */
let refusal: string | null = null;
/** Likewise; told on before it says that it works with them. */
let secretKey: string | null = null;
const questions = new Questions();

process.on('message', (message: ToWorker) => {
  switch (message.type) {
    case 'setup':
      void start(message.setup);
      break;
    case 'stop':
      void stop();
      break;
    case 'refuse_mail':
      refusal = message.reason;
      server?.refuseMail(refusal);
      break;
    case 'secret_keys':
      ({ secretKey } = message);
      useSecretKeys();
      break;
    case 'look':
      server?.look();
      break;
    case 'failed_over':
      void server?.failedOver();
      break;
    case 'broker':
      server?.receiveFromBroker(message.messages);
      break;
    case 'smtp_log_in':
      server?.noteLogIn(message.client);
      break;
    case 'ask_metrics':
      void server?.registry.getMetricsAsJSON().then((value) => {
        tell({ type: 'answer', id: message.id, value });
      });
      break;
    case 'answer':
      questions.answered(message);
      break;
  }
});

async function start(setup: Extract<ToWorker, { type: 'setup' }>['setup']): Promise<void> {
  try {
    if (setup.user !== null) await loadLazyCode();
    armWorker(setup.failpoint);
    server = await createServer(setup, {
      onBuilt: () => setup.user && dropTo(setup.user),
      onHolder: (id) => tell({ type: 'holder', id }),
      sendToBroker: (messages) => tell({ type: 'broker', messages }),
      onSmtpLogIn: (client) => tell({ type: 'smtp_log_in', client }),
      metricsText: async () => ((await questions.ask(tell)) as string | null) ?? '',
    });
    server.refuseMail(refusal);
    useSecretKeys();
    tell({ type: 'ready', port: server.port });
  } catch (error) {
    tell({ type: 'failed', message: whyNotStarted(error) });
  }
}

function useSecretKeys(): void {
  if (server === undefined || secretKey === null) return;
  server.useSecretKeys(secretKey);
  tell({ type: 'secret_keys_used' });
}

function whyNotStarted(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error instanceof DatabaseUnavailable ? error.message : errorText(error);
}

async function stop(): Promise<void> {
  await server?.stop();
  process.exit(0);
}

tell({ type: 'hello' });
