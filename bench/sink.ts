/**
 * A receiving server with minimal cost, so that the measurement shows the cost of the sender. It speaks plain SMTP with
 * PIPELINING, accepts everything with 250, counts the messages and discards them.
 *
 *     node bench/sink.ts [--port N] [--host 127.0.0.1] [--ids FILE] [--tls] [--delay-ms N] [--webhooks]
 *
 * `--tls` offers STARTTLS. `--delay-ms` delays each reply, as a distant server does. `--webhooks` also accepts
 * webhooks, on a separate port, and counts them.
 *
 * The sink prints `{"port": N, "pid": N}` when it listens, and its totals when it ends (SIGTERM or SIGINT). `--ids`
 * writes the Message-ID of each message on a line before it acknowledges the message, to compare accepted with arrived
 * mail. A parent with an IPC channel can ask for the totals at any time (parts/sink-messages.ts).
 */
import { openSync, readFileSync, writeSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { createServer, type Server, type Socket } from 'node:net';
import { createSecureContext, TLSSocket } from 'node:tls';
import { parseArgs } from 'node:util';
import { machineMs } from './parts/machine-clock.ts';
import type { FromSink, ToSink } from './parts/sink-messages.ts';

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    host: { type: 'string', default: '127.0.0.1' },
    ids: { type: 'string' },
    tls: { type: 'boolean', default: false },
    'delay-ms': { type: 'string', default: '0' },
    webhooks: { type: 'boolean', default: false },
  },
});

const END = Buffer.from('\r\n.\r\n');
const EHLO = '250-sink.test\r\n250-PIPELINING\r\n250-SIZE 52428800\r\n250 SMTPUTF8\r\n';
const EHLO_BEFORE_TLS = EHLO.replace('250-SIZE', '250-STARTTLS\r\n250-SIZE');
const delayMs = Number(values['delay-ms']);
const certificate = values.tls
  ? readFileSync(new URL('../test/support/certs/trusted.pem', import.meta.url))
  : null;
const secureContext = certificate && createSecureContext({ key: certificate, cert: certificate });
const ids = values.ids === undefined ? null : openSync(values.ids, 'a');
const totals = { messages: 0, bytes: 0, connections: 0, webhooks: 0 };
/** Times of the first command of each transaction; null while nobody has requested them. */
let firstCommandsMs: number[] | null = null;
let goal = { messages: Infinity, reached: (): void => {} };

const server = createServer({ noDelay: true }, (socket) => {
  totals.connections++;
  socket.on('error', () => socket.destroy());
  answer(socket, '220 sink.test\r\n');
  receive(socket);
});

/** Accepts webhooks. It responds to two POSTs on one connection in order, without a body. */
const webhooks = createHttpServer((request, response) => {
  request.resume().on('end', () => {
    totals.webhooks++;
    response.writeHead(204).end();
  });
});

function answer(socket: Socket, text: string): void {
  if (delayMs === 0) socket.write(text);
  else setTimeout(() => socket.write(text), delayMs);
}

function startTls(socket: Socket, context: NonNullable<typeof secureContext>): void {
  socket.removeAllListeners('data').write('220 Go\r\n');
  const secured = new TLSSocket(socket, { isServer: true, secureContext: context });
  secured.on('error', () => socket.destroy());
  receive(secured);
}

function receive(socket: Socket): void {
  let rest: Buffer = Buffer.alloc(0);
  let inData = false;
  let isGreeting = false;
  socket.on('data', (chunk: Buffer) => {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    let answers = '';
    let at = 0;
    while (at < bytes.length) {
      const end = inData ? bytes.indexOf(END, at) : bytes.indexOf('\r\n', at);
      if (end === -1) break;
      if (inData) {
        noteMessage(bytes.subarray(at, end));
        at = end + END.length;
        inData = false;
        answers += '250 2.0.0 Ok\r\n';
      } else {
        const verb = bytes.toString('latin1', at, at + 4).toUpperCase();
        if (verb === 'STAR' && secureContext !== null) return startTls(socket, secureContext);
        if (verb === 'EHLO' || (verb === 'MAIL' && !isGreeting)) noteFirstCommand();
        isGreeting = verb === 'EHLO';
        // The line break before an immediate final dot belongs to the end mark.
        at = verb === 'DATA' ? end : end + 2;
        inData = verb === 'DATA';
        answers += inData ? '354 Go\r\n' : answerTo(verb, socket);
      }
    }
    rest = at === bytes.length ? Buffer.alloc(0) : bytes.subarray(at);
    if (answers !== '') answer(socket, answers);
    if (answers.endsWith('221 Bye\r\n')) socket.end();
  });
}

function answerTo(verb: string, socket: Socket): string {
  if (verb === 'EHLO') {
    return secureContext === null || socket instanceof TLSSocket ? EHLO : EHLO_BEFORE_TLS;
  }
  return verb === 'QUIT' ? '221 Bye\r\n' : '250 2.0.0 Ok\r\n';
}

/** Records the first command: EHLO on a new connection, MAIL FROM on a reused one. */
function noteFirstCommand(): void {
  firstCommandsMs?.push(machineMs());
}

function noteMessage(message: Buffer): void {
  totals.messages++;
  totals.bytes += message.length;
  if (totals.messages === goal.messages) goal.reached();
  if (ids === null) return;
  const head = message.toString('latin1', 0, Math.max(0, message.indexOf('\r\n\r\n')));
  const id = /^message-id:\s*(\S+)/im.exec(head)?.[1] ?? '(none)';
  writeSync(ids, `${id}\n`);
}

function send(message: FromSink): void {
  process.send?.(message);
}

process.on('message', (asked: ToSink) => {
  switch (asked.type) {
    case 'totals':
      send({ type: 'totals', ...totals });
      break;
    case 'tell_when':
      goal = {
        messages: asked.messages,
        reached: () => send({ type: 'reached', atMs: machineMs() }),
      };
      if (totals.messages >= asked.messages) goal.reached();
      break;
    case 'note_commands':
      firstCommandsMs = [];
      break;
    case 'commands':
      send({ type: 'commands', atMs: firstCommandsMs ?? [] });
      firstCommandsMs = null;
      break;
  }
});

function finish(): void {
  process.stdout.write(`${JSON.stringify(totals)}\n`, () => process.exit(0));
}

process.once('SIGTERM', finish).once('SIGINT', finish).once('disconnect', finish);
if (values.webhooks) await listen(webhooks, 0);
await listen(server, Number(values.port));
process.stdout.write(
  `${JSON.stringify({ port: portOf(server), pid: process.pid, webhookPort: portOf(webhooks) })}\n`,
);

function listen(on: Server, port: number): Promise<void> {
  return new Promise((resolve) => on.listen(port, values.host, resolve));
}

function portOf(on: Server): number | null {
  const address = on.address();
  return typeof address === 'object' && address !== null ? address.port : null;
}
