/**
 * One query to one DNS server: over UDP, then over TCP if the response is truncated. Each query uses a random id
 * and a connected socket with a random port, so a forged response must guess both (RFC 5452). Responses that do not
 * match are ignored. Settles before its deadline and never throws.
 */
import { randomInt } from 'node:crypto';
import { createSocket } from 'node:dgram';
import { connect, isIP, isIPv6 } from 'node:net';
import type { World } from '../../lib/world.ts';
import { encodeQuestion, readResponse, type Question, type ReadResponse } from './dns-message.ts';

export type DnsServer = { ip: string; port: number };

/** `silent`: no usable response arrived. A packet may have been lost, so a retry may help. */
export type QueryResult =
  | Extract<ReadResponse, { kind: 'response' | 'unusable' }>
  | { kind: 'silent'; message: string };

type DnsQuery = {
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

/** Queries one server. UDP and TCP share the deadline. */
export async function queryServer(query: Omit<DnsQuery, 'edns'>): Promise<QueryResult> {
  const resultWithEdns = await queryOnce({ ...query, edns: true });
  // A server without EDNS0 responds with FORMERR (RFC 6891 §7).
  if (resultWithEdns.kind !== 'unusable' || resultWithEdns.rcode !== 'FORMERR')
    return resultWithEdns;
  return queryOnce({ ...query, edns: false });
}

/** Queries one server over TCP only, as after a truncated response. */
export function queryServerOverTcp(query: Omit<DnsQuery, 'edns'>): Promise<QueryResult> {
  return queryOverTcp({ ...query, edns: true });
}

async function queryOnce(query: DnsQuery): Promise<QueryResult> {
  const overUdp = await queryOverUdp(query);
  return overUdp.kind === 'truncated' ? queryOverTcp(query) : overUdp;
}

function queryOverUdp(query: DnsQuery): Promise<QueryResult | { kind: 'truncated' }> {
  const { server, question } = query;
  return settleOnce(query, (settle) => {
    const id = randomInt(0x10000);
    const socket = createSocket(isIPv6(server.ip) ? 'udp6' : 'udp4');
    socket.on('error', (error) => settle(silent(error.message)));
    socket.on('message', (bytes) => {
      const result = readResponse(bytes, question, id);
      if (result.kind !== 'not_ours') settle(result);
    });
    socket.connect(server.port, server.ip, () => {
      socket.send(encodeQuestion(question, id, query.edns));
    });
    return () => socket.close();
  });
}

function queryOverTcp(query: DnsQuery): Promise<QueryResult> {
  const { server, question } = query;
  return settleOnce(query, (settle) => {
    const id = randomInt(0x10000);
    const socket = connect({ host: server.ip, port: server.port });
    let received = Buffer.alloc(0);
    socket.on('error', (error) => settle(silent(error.message)));
    socket.on('close', () => settle(silent('the TCP connection closed before the response')));
    socket.on('connect', () =>
      socket.write(withLengthPrefix(encodeQuestion(question, id, query.edns))),
    );
    socket.on('data', (chunk) => {
      received = Buffer.concat([received, chunk as Buffer]);
      if (received.length < 2 || received.length < 2 + received.readUInt16BE(0)) return;
      const result = readResponse(received.subarray(2, 2 + received.readUInt16BE(0)), question, id);
      const isUnusable = result.kind === 'not_ours' || result.kind === 'truncated';
      settle(isUnusable ? silent('a wrong response over TCP') : result);
    });
    return () => socket.destroy();
  });
}

/** Runs `start` until its first outcome, the deadline or the abort. `start` returns the release of its socket. */
function settleOnce<T>(
  { deadlineMs, clock, signal }: DnsQuery,
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
    const timer = setTimeout(() => settle(silent('no response in time')), timeoutMs);
    signal.addEventListener('abort', onAbort);
    if (signal.aborted) return onAbort();
    release = start(settle);
  });
}

function silent(message: string): { kind: 'silent'; message: string } {
  return { kind: 'silent', message };
}

/** Over TCP the length precedes each message (RFC 1035 §4.2.2). */
function withLengthPrefix(message: Buffer): Buffer {
  const length = Buffer.alloc(2);
  length.writeUInt16BE(message.length);
  return Buffer.concat([length, message]);
}
