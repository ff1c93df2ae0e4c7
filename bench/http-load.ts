/**
 * The load generator for Letterhaus, which runs in its own process. It posts distinct emails over persistent HTTP/1.1
 * connections. Each connection sends its next request as soon as the response has arrived, or after a pause, or at a
 * fixed rate. It uses raw sockets, because an HTTP client would cost as much CPU as the service under test.
 *
 *     node bench/http-load.ts '<HttpLoad as JSON>'
 *
 * It prints HttpLoadResult as one line of JSON after the last response.
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
  /** Emails in one request; `count` is a multiple of it. Default: one email, sent without a batch. */
  batch?: number;
  /** Number of the first message. Each run has its own range, so that no two runs send the same message. */
  firstNumber: number;
  connections: number;
  htmlBytes: number;
  /** Bytes of the attachment of each email, before base64. Default: no attachment. */
  attachmentBytes?: number;
  /** Domain of the sender. Default: the domain with one signature. */
  sender?: string;
  /** Domains of the recipients, used in turn. */
  domains: readonly string[];
  /** Milliseconds of pause after each response; 0: no pause. */
  pauseMs: number;
  /** Requests per second, whatever the response times are. Default: the next request follows each response. */
  perSecond?: number;
};

export type HttpLoadResult = {
  /** Start and end of the load, by the clock of parts/machine-clock.ts. */
  startedMs: number;
  endedMs: number;
  /** Milliseconds from each request to its 202, in order of arrival. With `perSecond` they count from the due time. */
  latenciesMs: number[];
  /** Time of each 202; recorded only with a pause. */
  answeredMs: number[];
  /** CPU time and context switches of this process under load. */
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

/** Returns the request for the emails from this number on. */
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

/** Sends requests on one connection, each after the response to the last. Resolves when no request is left. */
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
