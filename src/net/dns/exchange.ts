/**
 * One question to one DNS server: over UDP, then over TCP if the reply is truncated. Each question uses a random id
 * and a connected socket with a random port, so a forged reply must guess both (RFC 5452). Replies that do not match
 * are ignored. Settles before its deadline and never throws.
 */
import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { connect, isIP, isIPv6 } from 'node:net';
import type { World } from '../../lib/world.ts';
import { encodeQuestion, readMessage, type Question, type Reading } from './message.ts';

export type DnsServer = { ip: string; port: number };

/** `silent`: no usable reply arrived. A packet may have been lost, so a retry may help. */
export type Exchanged =
  | Extract<Reading, { kind: 'reply' | 'unusable' }>
  | { kind: 'silent'; message: string };

type Attempt = {
  server: DnsServer;
  question: Question;
  edns: boolean;
  deadlineMs: number;
  clock: Pick<World, 'monotonicMs'>;
  /** Aborted when the resolver is closed. */
  signal: AbortSignal;
};

/** Parses `192.0.2.1`, `192.0.2.1:5353`, `2001:db8::1` or `[2001:db8::1]:5353`; null for anything else. */
export function parseServer(text: string): DnsServer | null {
  if (isIP(text) !== 0) return { ip: text, port: 53 };
  const match = /^(?:\[(?<v6>[^\]]+)\]|(?<v4>[^:]+)):(?<port>\d{1,5})$/.exec(text);
  const ip = match?.groups?.['v6'] ?? match?.groups?.['v4'] ?? '';
  const port = Number(match?.groups?.['port']);
  const bracketed = match?.groups?.['v6'] !== undefined;
  if (isIP(ip) !== (bracketed ? 6 : 4) || port < 1 || port > 65_535) return null;
  return { ip, port };
}

/** Asks one server. UDP and TCP share the deadline. */
export async function exchange(attempt: Omit<Attempt, 'edns'>): Promise<Exchanged> {
  const withEdns = await askOnce({ ...attempt, edns: true });
  // A server without EDNS0 replies FORMERR (RFC 6891 §7).
  if (withEdns.kind !== 'unusable' || withEdns.rcode !== 'FORMERR') return withEdns;
  return askOnce({ ...attempt, edns: false });
}

async function askOnce(attempt: Attempt): Promise<Exchanged> {
  const overUdp = await askUdp(attempt);
  return overUdp.kind === 'truncated' ? askTcp(attempt) : overUdp;
}

function askUdp(attempt: Attempt): Promise<Exchanged | { kind: 'truncated' }> {
  const { server, question } = attempt;
  return settleOnce(attempt, (settle) => {
    const id = randomInt(0x10000);
    const socket = createSocket(isIPv6(server.ip) ? 'udp6' : 'udp4');
    socket.on('error', (error) => settle(silent(error.message)));
    socket.on('message', (bytes) => {
      const reading = readMessage(bytes, question, id);
      if (reading.kind !== 'not_ours') settle(reading);
    });
    socket.connect(server.port, server.ip, () => {
      socket.send(encodeQuestion(question, id, attempt.edns));
    });
    return () => socket.close();
  });
}

function askTcp(attempt: Attempt): Promise<Exchanged> {
  const { server, question } = attempt;
  return settleOnce(attempt, (settle) => {
    const id = randomInt(0x10000);
    const socket = connect({ host: server.ip, port: server.port });
    let received = Buffer.alloc(0);
    socket.on('error', (error) => settle(silent(error.message)));
    socket.on('close', () => settle(silent('the TCP connection closed before the answer')));
    socket.on('connect', () => socket.write(prefixed(encodeQuestion(question, id, attempt.edns))));
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk as Buffer]);
      if (received.length < 2 || received.length < 2 + received.readUInt16BE(0)) return;
      const reading = readMessage(received.subarray(2, 2 + received.readUInt16BE(0)), question, id);
      const useless = reading.kind === 'not_ours' || reading.kind === 'truncated';
      settle(useless ? silent('a wrong answer over TCP') : reading);
    });
    return () => socket.destroy();
  });
}

/** Runs `start` until its first outcome, the deadline or the abort. `start` returns the release of its socket. */
function settleOnce<T>(
  { deadlineMs, clock, signal }: Attempt,
  start: (settle: (outcome: T | { kind: 'silent'; message: string }) => void) => () => void,
): Promise<T | { kind: 'silent'; message: string }> {
  return new Promise((resolve) => {
    let release: (() => void) | null = null;
    let settled = false;
    const settle = (outcome: T | { kind: 'silent'; message: string }) => {
      if (settled) return;
      settled = true;
      clearTimeout(timer);
      signal.removeEventListener('abort', onAbort);
      // An error can occur before `start` has returned.
      queueMicrotask(() => release?.());
      resolve(outcome);
    };
    const onAbort = () => settle(silent('the resolver was closed'));
    const timeoutMs = Math.max(0, deadlineMs - clock.monotonicMs());
    const timer = setTimeout(() => settle(silent('no answer in time')), timeoutMs);
    signal.addEventListener('abort', onAbort);
    if (signal.aborted) return onAbort();
    release = start(settle);
  });
}

function silent(message: string): { kind: 'silent'; message: string } {
  return { kind: 'silent', message };
}

/** Over TCP the length precedes each message (RFC 1035 §4.2.2). */
function prefixed(message: Buffer): Buffer {
  const length = Buffer.alloc(2);
  length.writeUInt16BE(message.length);
  return Buffer.concat([length, message]);
}
