/**
 * The load generator for a mail server, which runs in its own process. It injects distinct messages over several SMTP
 * connections, as fast as the server takes them. With PIPELINING, the next envelope travels with the body before it.
 * The messages have the html of http-load.ts and a text part, as Letterhaus's output has.
 *
 *     node bench/smtp-load.ts '<SmtpLoad as JSON>'
 *
 * It prints SmtpLoadResult as one line of JSON when the server has taken every message.
 */
import { connect, type Socket } from 'node:net';
import { once } from 'node:events';
import { connect as connectTls } from 'node:tls';
import { machineMs } from './parts/machine-clock.ts';
import { startOwnUse, type Use } from './parts/processes.ts';
import { htmlOf, SENDER_DOMAIN, SUBJECT } from './parts/mail-text.ts';
import { Template, TOKEN } from './parts/template.ts';

export type SmtpLoad = {
  port: number;
  count: number;
  firstNumber: number;
  connections: number;
  htmlBytes: number;
  /** Bytes of the text part. */
  textBytes: number;
  domains: readonly string[];
  /** Log-in for submission over TLS from the first byte. Default: plain SMTP without a log-in. */
  auth?: { user: string; pass: string };
};

/** Start and end of the load, by the clock of parts/machine-clock.ts, and the use of this process. */
export type SmtpLoadResult = { startedMs: number; endedMs: number; use: Use };

const load = JSON.parse(process.argv[2] ?? '{}') as SmtpLoad;
const templates = load.domains.map((domain) => ({
  envelope: new Template(envelopeTo(domain)),
  body: new Template(messageTo(domain)),
}));
let next = 0;

function envelopeTo(domain: string): string {
  return [
    `MAIL FROM:<bounce-${TOKEN}@send.${SENDER_DOMAIN}>`,
    `RCPT TO:<zoe-${TOKEN}@${domain}>`,
    'DATA',
    '',
  ].join('\r\n');
}

function messageTo(domain: string): string {
  const boundary = `part-${TOKEN}`;
  const lines = [
    `From: The Shop <orders@${SENDER_DOMAIN}>`,
    `To: zoe-${TOKEN}@${domain}`,
    `Subject: ${SUBJECT}`,
    'Date: Mon, 23 Nov 2026 10:00:00 +0000',
    `Message-ID: <${TOKEN}@${SENDER_DOMAIN}>`,
    'MIME-Version: 1.0',
    `Content-Type: multipart/alternative; boundary="${boundary}"`,
    '',
    `--${boundary}`,
    'Content-Type: text/plain; charset=utf-8',
    '',
    ...textLines(),
    `--${boundary}`,
    'Content-Type: text/html; charset=utf-8',
    'Content-Transfer-Encoding: 8bit',
    '',
    ...htmlOf(load.htmlBytes).split('\n'),
    `--${boundary}--`,
    '.',
    '',
  ];
  return lines.join('\r\n');
}

function textLines(): string[] {
  const line = `Espresso, 250 g, no. ${TOKEN}: 12.50, packed by hand.`;
  return Array.from({ length: Math.ceil(load.textBytes / (line.length + 2)) }, () => line);
}

/** Opens a session, sends EHLO, and logs in when `auth` is set. */
async function openSession(): Promise<Socket> {
  const where = { host: '127.0.0.1', port: load.port, noDelay: true };
  const isSecure = load.auth !== undefined;
  const socket = isSecure ? connectTls({ ...where, rejectUnauthorized: false }) : connect(where);
  await lineOf(socket, /^220 /m);
  socket.write('EHLO load.test\r\n');
  await lineOf(socket, /^250 /m);
  if (load.auth === undefined) return socket;
  const { user, pass } = load.auth;
  socket.write(`AUTH PLAIN ${Buffer.from(`\0${user}\0${pass}`).toString('base64')}\r\n`);
  await lineOf(socket, /^235 /m);
  return socket;
}

async function lineOf(socket: Socket, expected: RegExp): Promise<void> {
  let received = '';
  while (!expected.test(received)) {
    const [chunk] = (await once(socket, 'data')) as [Buffer];
    received += chunk.toString('latin1');
  }
}

/** Sends messages over one connection: after each 354, the body and the next envelope. */
function work(socket: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    let current = 0;
    let rest = '';
    const nextEnvelope = (): Buffer => {
      if (next >= load.count) return Buffer.from('QUIT\r\n');
      current = load.firstNumber + next;
      next += 1;
      return templateOf(current).envelope.fill(current);
    };
    const read = (line: string): void => {
      if (line.startsWith('354')) {
        socket.write(Buffer.concat([templateOf(current).body.fill(current), nextEnvelope()]));
      } else if (line.startsWith('221')) {
        resolve();
      } else if (!line.startsWith('250')) {
        reject(new Error(`not taken: ${line}`));
      }
    };
    socket.on('error', reject).on('close', () => reject(new Error('the server hung up')));
    socket.on('data', (chunk: Buffer) => {
      const lines = (rest + chunk.toString('latin1')).split('\r\n');
      rest = lines.pop() ?? '';
      for (const line of lines) read(line);
    });
    socket.write(nextEnvelope());
  });
}

function templateOf(number: number): (typeof templates)[number] {
  return templates[number % templates.length]!;
}

// The sessions open one after the other, because a client may have only few open ones without a log-in.
const sockets: Socket[] = [];
while (sockets.length < load.connections) sockets.push(await openSession());
const useSince = startOwnUse();
const startedMs = machineMs();
await Promise.all(sockets.map(work));
const endedMs = machineMs();
const result: SmtpLoadResult = { startedMs, endedMs, use: useSince() };
process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0));
