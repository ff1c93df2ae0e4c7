/** A small internet on loopback for `start --once`: a DNS zone, an MX and a webhook endpoint. */
import { createHmac } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer as createHttpServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { text } from 'node:stream/consumers';
import { type Answer, AUTHORITATIVE_ANSWER, decode, encode, TRUNCATED_RESPONSE } from 'dns-packet';
import type { World } from '../../lib/world.ts';
import { serverReply } from '../../net/smtp/server/server-types.ts';
import { SmtpServer } from '../../net/smtp/server/smtp-server.ts';

const HOST = '127.0.0.1';

export type ZoneRecord =
  | { name: string; type: 'A' | 'TXT'; value: string }
  | { name: string; type: 'MX'; priority: number; value: string };

export type Zone = AsyncDisposable & {
  address: string;
  add(...records: ZoneRecord[]): void;
  /** Returns the joined strings of the TXT records of a name. */
  txt(name: string): string[];
};

/** Starts a name server that is authoritative for all names: a name outside its zone does not exist. */
export async function openZone(): Promise<Zone> {
  const records: ZoneRecord[] = [];
  const { port, close } = await serveDns((query) => [answerTo(query, records)]);
  return {
    address: `${HOST}:${port}`,
    add: (...more) => void records.push(...more),
    txt: (name) =>
      records
        .filter((record) => record.type === 'TXT' && isNamed(record, name))
        .map(({ value }) => value),
    [Symbol.asyncDispose]: close,
  };
}

/** The messages of a response, in order; `cut` closes a TCP connection instead. */
export type DnsReplies = readonly Buffer[] | 'cut';
type Respond = (query: Buffer, transport: 'udp' | 'tcp') => DnsReplies;

/** The EDNS buffer size that our resolver offers. A longer UDP response is truncated. */
const UDP_BYTES_MAX = 1_232;

export async function serveDns(
  respond: Respond,
): Promise<{ port: number; close: () => Promise<void> }> {
  const sockets = new Set<Socket>();
  const tcp = createServer((socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket)).on('error', () => {});
    serveTcp(socket, respond);
  }).listen(0, HOST);
  await once(tcp, 'listening');
  const { port } = tcp.address() as AddressInfo;
  const udp = createSocket('udp4');
  udp.on('message', (query, from) => {
    const replies = respond(query, 'udp');
    for (const reply of replies === 'cut' ? [] : replies) {
      udp.send(reply.length > UDP_BYTES_MAX ? truncated(reply) : reply, from.port, from.address);
    }
  });
  const isBound = await new Promise<boolean>((resolve) => {
    udp.once('error', () => resolve(false)).bind(port, HOST, () => resolve(true));
  });
  const close = async (): Promise<void> => {
    for (const socket of sockets) socket.destroy();
    if (isBound) await new Promise<void>((resolve) => udp.close(resolve));
    await new Promise<void>((resolve) => tcp.close(() => resolve()));
  };
  if (isBound) return { port, close };
  // Another program uses this UDP port, so another port is tried.
  await close();
  return serveDns(respond);
}

function serveTcp(socket: Socket, respond: Respond): void {
  let received = Buffer.alloc(0);
  socket.on('data', (chunk: Buffer) => {
    received = Buffer.concat([received, chunk]);
    while (received.length >= 2 && received.length >= 2 + received.readUInt16BE(0)) {
      const end = 2 + received.readUInt16BE(0);
      const replies = respond(received.subarray(2, end), 'tcp');
      received = received.subarray(end);
      if (replies === 'cut') return void socket.destroy();
      for (const reply of replies) {
        socket.write(Buffer.concat([Buffer.of(reply.length >> 8, reply.length & 255), reply]));
      }
    }
  });
}

function truncated(reply: Buffer): Buffer {
  const { id, questions, flags = 0 } = decode(reply);
  return encode({ type: 'response', id, questions, flags: flags | TRUNCATED_RESPONSE });
}

function answerTo(message: Buffer, records: readonly ZoneRecord[]): Buffer {
  const { id = 0, questions = [] } = decode(message);
  const [question] = questions;
  const named = records.filter((record) => isNamed(record, question?.name ?? ''));
  const found = named.filter((record) => record.type === question?.type);
  const nxdomain = named.length === 0 ? 3 : 0;
  const flags = AUTHORITATIVE_ANSWER | nxdomain;
  return encode({ type: 'response', id, flags, questions, answers: found.map(answerFor) });
}

function isNamed(record: ZoneRecord, name: string): boolean {
  return record.name.toLowerCase() === name.toLowerCase();
}

function answerFor(record: ZoneRecord): Answer {
  const { name, value } = record;
  const common = { name, ttl: 60, class: 'IN' as const };
  if (record.type === 'MX') {
    return { ...common, type: 'MX', data: { preference: record.priority, exchange: value } };
  }
  return record.type === 'TXT'
    ? { ...common, type: 'TXT', data: txtStrings(value) }
    : { ...common, type: 'A', data: value };
}

/** A TXT string holds at most 255 bytes (RFC 1035 §3.3); longer records are several strings. */
export function txtStrings(value: string): Buffer[] {
  const bytes = Buffer.from(value);
  const count = Math.max(1, Math.ceil(bytes.length / 255));
  return Array.from({ length: count }, (_, at) => bytes.subarray(at * 255, (at + 1) * 255));
}

export type ReceivedMail = {
  recipients: readonly string[];
  /** The message, bytes as latin1 characters, after dot-unstuffing. */
  content: string;
};

export type Sink = AsyncDisposable & {
  port: number;
  received: Promise<ReceivedMail>;
};

const MESSAGE_BYTES_MAX = 1_000_000;

/** Starts the SMTP server of the service, with a handler that accepts every message. */
export async function openSink(
  hostname: string,
  world: Pick<World, 'monotonicMs' | 'newId'>,
): Promise<Sink> {
  const { promise: received, resolve } = Promise.withResolvers<ReceivedMail>();
  const server = new SmtpServer({
    hostname,
    tls: { mode: 'starttls', context: () => null },
    sizeBytesMax: MESSAGE_BYTES_MAX,
    world,
    handlers: {
      onRcpt: () => null,
      onMessage(_session, { recipients }, { content }) {
        resolve({ recipients, content: content.toString('latin1') });
        return Promise.resolve(serverReply(250, '2.0.0', 'Accepted'));
      },
    },
  });
  const port = await server.listen({ host: HOST, port: 0 });
  return { port, received, [Symbol.asyncDispose]: () => server.close(0) };
}

/** `signed`: the signature is valid for the secret (Standard Webhooks). */
type ReceivedWebhook = { type: string; signed: boolean };

export type Receiver = AsyncDisposable & {
  url: string;
  /** `whsec_...`, as the API returned it. */
  secret: string;
  /** Resolves with the first event of a type. */
  eventOf(type: string): Promise<ReceivedWebhook>;
};

/** Starts a customer's endpoint, which verifies webhook signatures. */
export async function openReceiver(): Promise<Receiver> {
  const waiting = new Map<string, PromiseWithResolvers<ReceivedWebhook>>();
  const entry = (type: string) => {
    const known = waiting.get(type) ?? Promise.withResolvers<ReceivedWebhook>();
    waiting.set(type, known);
    return known;
  };
  const take = async (request: IncomingMessage): Promise<void> => {
    const body = await text(request);
    const { type } = JSON.parse(body) as { type: string };
    entry(type).resolve({ type, signed: isSigned(request, body, receiver.secret) });
  };
  const server = createHttpServer((request, response) => {
    void take(request).finally(() => response.writeHead(204).end());
  }).listen(0, HOST);
  await once(server, 'listening');
  const receiver: Receiver = {
    url: `http://${HOST}:${(server.address() as AddressInfo).port}/hooks`,
    secret: '',
    eventOf: (type) => entry(type).promise,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await once(server.close(), 'close');
    },
  };
  return receiver;
}

function isSigned({ headers }: IncomingMessage, body: string, secret: string): boolean {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  const signed = `${String(headers['webhook-id'])}.${String(headers['webhook-timestamp'])}.${body}`;
  const expected = `v1,${createHmac('sha256', key).update(signed).digest('base64')}`;
  return String(headers['webhook-signature']).split(' ').includes(expected);
}
