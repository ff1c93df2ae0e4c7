/**
 * The DNS of `start --once`: a zone in memory on loopback, UDP and TCP on one port. It answers for
 * all names: what it does not hold does not exist.
 */
import { createSocket, type Socket as UdpSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer, type AddressInfo, type Server } from 'node:net';
import { AUTHORITATIVE_ANSWER, decode, encode, type Answer, type DecodedPacket } from 'dns-packet';

const HOST = '127.0.0.1';
const TTL_S = 60;
/** What a TXT string holds at most (RFC 1035 §3.3); longer records are several strings. */
const TXT_STRINGS = /.{1,255}/gs;

export type ZoneRecord =
  | { name: string; type: 'A' | 'TXT'; value: string }
  | { name: string; type: 'MX'; priority: number; value: string };

export type Zone = AsyncDisposable & {
  /** `127.0.0.1:<port>` */
  address: string;
  add(...records: ZoneRecord[]): void;
  /** The joined strings of the TXT records of a name. */
  txt(name: string): string[];
};

export async function openZone(): Promise<Zone> {
  const records: ZoneRecord[] = [];
  const answer = (message: Buffer) => answerTo(decode(message), records);
  const tcp = serveTcp(answer).listen(0, HOST);
  await once(tcp, 'listening');
  const { port } = tcp.address() as AddressInfo;
  const udp = serveUdp(answer).bind(port, HOST);
  await once(udp, 'listening');
  return {
    address: `${HOST}:${port}`,
    add: (...more) => void records.push(...more),
    txt: (name) =>
      records.filter((record) => record.type === 'TXT' && isNamed(record, name)).map(valueOf),
    async [Symbol.asyncDispose]() {
      udp.close();
      tcp.close();
      await Promise.all([once(udp, 'close'), once(tcp, 'close')]);
    },
  };
}

function serveUdp(answer: (message: Buffer) => Buffer): UdpSocket {
  const socket = createSocket('udp4');
  return socket.on('message', (message, from) =>
    socket.send(answer(message), from.port, from.address),
  );
}

/** One question per connection: what our resolver does when an answer is too long for UDP. */
function serveTcp(answer: (message: Buffer) => Buffer): Server {
  return createServer((socket) => {
    let received = Buffer.alloc(0);
    socket.on('error', () => {});
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk]);
      if (received.length < 2 || received.length < 2 + received.readUInt16BE(0)) return;
      const reply = answer(received.subarray(2));
      socket.end(Buffer.concat([Buffer.from([reply.length >> 8, reply.length & 255]), reply]));
    });
  });
}

function answerTo(query: DecodedPacket, records: readonly ZoneRecord[]): Buffer {
  const [question] = query.questions ?? [];
  const named = records.filter((record) => isNamed(record, question?.name ?? ''));
  const found = named.filter((record) => record.type === question?.type);
  const nxdomain = named.length === 0 ? 3 : 0;
  return encode({
    type: 'response',
    id: query.id ?? 0,
    flags: AUTHORITATIVE_ANSWER | nxdomain,
    questions: query.questions ?? [],
    answers: found.map(answerOf),
  });
}

function isNamed(record: ZoneRecord, name: string): boolean {
  return record.name.toLowerCase() === name.toLowerCase();
}

function valueOf({ value }: ZoneRecord): string {
  return value;
}

function answerOf(record: ZoneRecord): Answer {
  const { name, value } = record;
  const common = { name, ttl: TTL_S, class: 'IN' as const };
  if (record.type === 'MX') {
    return { ...common, type: 'MX', data: { preference: record.priority, exchange: value } };
  }
  return record.type === 'TXT'
    ? { ...common, type: 'TXT', data: value.match(TXT_STRINGS) ?? [''] }
    : { ...common, type: 'A', data: value };
}
