/**
 * The load generator for Letterhaus, a process of its own: posts distinct emails over kept-open
 * HTTP/1.1 connections, one request under way on each, as fast as they are answered (or one by one,
 * with a pause). Raw sockets: an HTTP client would cost as much CPU as what it measures.
 *
 *     node bench/http-load.ts '<HttpLoad as JSON>'
 *
 * Prints one line of JSON, HttpLoadResult, when every request has been answered.
 */
import { randomBytes } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import { machineMs } from './parts/machine-clock.ts';
import { startOwnUse, type Use } from './parts/processes.ts';
import { htmlOf, SENDER_DOMAIN, SUBJECT } from './parts/mail-text.ts';
import { Template, TOKEN } from './parts/template.ts';

export type HttpLoad = {
  url: string;
  key: string;
  count: number;
  /** Emails in one request, of which `count` is a multiple; default: one by itself. */
  batch?: number;
  /** Numbers of the messages start here, so that no two runs send the same. */
  firstNumber: number;
  connections: number;
  htmlBytes: number;
  /** Bytes of an attachment to each email, before base64; default: none. */
  attachmentBytes?: number;
  /** Domain of the sender; default: the one with one signature. */
  sender?: string;
  /** Recipients' domains, in turn. */
  domains: readonly string[];
  /** Pause after each response; 0: none. */
  pauseMs: number;
  /** Requests are due at this rate, regardless of response times; default: as fast as they are answered. */
  perSecond?: number;
};

export type HttpLoadResult = {
  /** Times are those of parts/machine-clock.ts. */
  startedMs: number;
  endedMs: number;
  /** From a request (from when it was due, with a pace) to its 202, in order of the answers. */
  latenciesMs: number[];
  /** When each 202 came; only with a pause. */
  answeredMs: number[];
  /** CPU time and memory of this process while it was under load. */
  use: Use;
};

const load = JSON.parse(process.argv[2] ?? '{}') as HttpLoad;
const attachments = load.attachmentBytes && [
  { filename: 'terms.pdf', content: randomBytes(load.attachmentBytes).toString('base64') },
];
const templates = load.domains.map((domain) =>
  load.batch === undefined
    ? new Template(requestOf('', emailTo(domain)))
    : new Template(emailTo(domain)),
);
const latenciesMs: number[] = [];
const answeredMs: number[] = [];
let next = 0;

function emailTo(domain: string): string {
  return JSON.stringify({
    from: `The Shop <orders@${load.sender ?? SENDER_DOMAIN}>`,
    to: `zoe-${TOKEN}@${domain}`,
    subject: SUBJECT,
    html: htmlOf(load.htmlBytes),
    ...(attachments && { attachments }),
  });
}

/** The request for the emails from this number on. */
function requestFrom(number: number): Buffer | string {
  const emailOf = (one: number): Buffer => templates[one % templates.length]!.fill(one);
  if (load.batch === undefined) return emailOf(number);
  const emails = Array.from({ length: load.batch }, (_, index) =>
    emailOf(number + index).toString(),
  );
  return requestOf('/batch', `[${emails.join(',')}]`);
}

function requestOf(path: string, body: string): string {
  return [
    `POST /v1/emails${path} HTTP/1.1`,
    `Host: ${new URL(load.url).host}`,
    `Authorization: Bearer ${load.key}`,
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(body)}`,
    '',
    body,
  ].join('\r\n');
}

/** One connection's share: a request, its answer, the next. Resolves when none is left. */
function work(socket: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    let sentMs = 0;
    let received = '';
    const send = (): void => {
      if (next >= load.count) return resolve();
      const number = load.firstNumber + next;
      next += load.batch ?? 1;
      const write = (): void => void socket.write(requestFrom(number));
      sentMs = dueMs(number - load.firstNumber);
      const waitMs = sentMs - machineMs();
      if (waitMs > 0) void delay(waitMs).then(write);
      else write();
    };
    socket.on('error', reject).on('close', () => reject(new Error('the service hung up')));
    socket.on('data', (chunk: Buffer) => {
      received += chunk.toString('latin1');
      if (!isComplete(received)) return;
      const nowMs = machineMs();
      if (!received.startsWith('HTTP/1.1 202')) {
        return reject(new Error(`not accepted: ${received}`));
      }
      received = '';
      latenciesMs.push(nowMs - sentMs);
      if (load.pauseMs === 0) return send();
      answeredMs.push(nowMs);
      void delay(load.pauseMs).then(send);
    });
    send();
  });
}

function dueMs(index: number): number {
  if (load.perSecond === undefined) return machineMs();
  return startedMs + (index * 1000) / load.perSecond;
}

function isComplete(received: string): boolean {
  const head = received.indexOf('\r\n\r\n');
  if (head < 0) return false;
  const at = received.toLowerCase().indexOf('content-length: ');
  return received.length >= head + 4 + Number.parseInt(received.slice(at + 16), 10);
}

async function openSockets(): Promise<Socket[]> {
  const { hostname, port } = new URL(load.url);
  const sockets = Array.from({ length: load.connections }, () =>
    connect({ host: hostname, port: Number(port), noDelay: true }),
  );
  await Promise.all(sockets.map((socket) => once(socket, 'connect')));
  return sockets;
}

const sockets = await openSockets();
const useSince = startOwnUse();
const startedMs = machineMs();
await Promise.all(sockets.map(work));
const endedMs = machineMs();
const result: HttpLoadResult = {
  startedMs,
  endedMs,
  latenciesMs,
  answeredMs,
  use: useSince(),
};
process.stdout.write(`${JSON.stringify(result)}\n`, () => process.exit(0));
