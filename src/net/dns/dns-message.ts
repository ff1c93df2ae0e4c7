/**
 * DNS queries and responses as bytes (RFC 1035, EDNS0 of RFC 6891). Distinguishes a message that does not belong to
 * the query from an unusable response. `readResponse` never throws, and `followCnames` limits the number of records.
 */
import { type Answer as DnsRecord, AUTHENTIC_DATA, encode, RECURSION_DESIRED } from 'dns-packet';
import { isIP } from 'node:net';
import { type DecodedMessage, decodeMessage, MalformedMessage } from './dns-decoder.ts';

export type Question = {
  name: string;
  type: 'A' | 'AAAA' | 'CNAME' | 'MX' | 'PTR' | 'TLSA' | 'TXT';
};
export type MxRecord = { preference: number; exchange: string };
/** RFC 6698 §2.1, unchecked; net/tls/dane.ts selects the usable ones. */
export type TlsaRecord = { usage: number; selector: number; matching: number; dataHex: string };

/** The result of a look-up, after all CNAMEs. */
export type DnsResult<T> =
  /** `authenticated`: validated by DNSSEC, CNAMEs included. `canonicalName`: the end of the CNAMEs, if any. */
  | { kind: 'records'; records: readonly T[]; authenticated: boolean; canonicalName?: string }
  /** The name exists without a record of this type; `authenticated` is set only when true. */
  | { kind: 'nodata'; authenticated?: true }
  | { kind: 'nxdomain' }
  | { kind: 'error'; message: string };

/** Returns the value of a record of the queried type; null drops the record. */
export type ReadRecord<T> = (record: DnsRecord) => T | null;

export type ReadResponse =
  /** Another id or question, or not a response: keep waiting. */
  | { kind: 'not_ours' }
  /** The response did not fit into the datagram: retry over TCP. */
  | { kind: 'truncated' }
  /** This server has no usable response: ask the next one. */
  | { kind: 'unusable'; message: string; rcode: string }
  | { kind: 'response'; nxdomain: boolean; authenticated: boolean; records: readonly DnsRecord[] };

type CnameChain<T> = {
  records: readonly T[];
  /** The end of the CNAMEs in this message; without CNAMEs, the name of the question. */
  name: string;
  hops: number;
  /** The smallest TTL of all records of the chain, in seconds. */
  ttlS: number;
};

/** Limit on records, which limits the cache size of a zone. The protocol allows as many as fit into 64 KiB. */
const RECORDS_MAX = 100;
/** The size that avoids fragmentation on every path (DNS flag day 2020). */
const UDP_PAYLOAD_BYTES = 1232;

/** Returns whether DNS can encode the name. dns-packet would write a long label as a compression pointer. */
export function isDnsName(name: string): boolean {
  if (name.length === 0 || name.length > 253) return false;
  return name.split('.').every((label) => /^[!-~]{1,63}$/.test(label));
}

export function encodeQuestion(question: Question, id: number, edns: boolean): Buffer {
  return encode({
    type: 'query',
    id,
    // AD in a query asks for AD in the response (RFC 6840 §5.7).
    flags: RECURSION_DESIRED | AUTHENTIC_DATA,
    questions: [{ name: question.name, type: question.type, class: 'IN' }],
    additionals: edns
      ? [
          {
            type: 'OPT',
            name: '.',
            udpPayloadSize: UDP_PAYLOAD_BYTES,
            extendedRcode: 0,
            ednsVersion: 0,
            flags: 0,
            flag_do: false,
            options: [],
          },
        ]
      : [],
  });
}

export function readResponse(bytes: Buffer, question: Question, id: number): ReadResponse {
  if (bytes.length < 12 || bytes.readUInt16BE(0) !== id) return { kind: 'not_ours' };
  const packet = tryDecode(bytes);
  if (packet === null) {
    // A truncated message may end within a record.
    if ((bytes.readUInt8(2) & 0x02) !== 0) return { kind: 'truncated' };
    return { kind: 'unusable', message: 'a malformed response', rcode: 'MALFORMED' };
  }
  if (!packet.isResponse || !isResponseTo(packet, question)) return { kind: 'not_ours' };
  if (packet.isTruncated) return { kind: 'truncated' };
  const rcode = packet.rcode;
  if (rcode !== 'NOERROR' && rcode !== 'NXDOMAIN')
    return { kind: 'unusable', message: rcode, rcode };
  if (isReferral(packet)) {
    return { kind: 'unusable', message: 'a referral instead of an answer', rcode: 'REFERRAL' };
  }
  return {
    kind: 'response',
    nxdomain: rcode === 'NXDOMAIN',
    authenticated: packet.isAuthentic,
    records: packet.records,
  };
}

/** Follows the CNAMEs in the message and returns the records at their end, MX records by preference. */
export function followCnames<T>(
  records: readonly DnsRecord[],
  question: Question,
  options: { read: ReadRecord<T>; maxHops: number },
): CnameChain<T> {
  let name = question.name;
  let hops = 0;
  let ttlS = Infinity;
  if (question.type !== 'CNAME') {
    while (hops <= options.maxHops) {
      const cname = cnameOf(records, name);
      if (cname === null) break;
      name = cname.target;
      ttlS = Math.min(ttlS, cname.ttlS);
      hops += 1;
    }
  }
  const matching = records
    .filter((record) => record.type === question.type && sameName(record.name, name))
    .toSorted((a, b) => preferenceOf(a) - preferenceOf(b))
    .slice(0, RECORDS_MAX);
  return {
    records: matching.map(options.read).filter((value) => value !== null),
    name,
    hops,
    ttlS: matching.reduce((least, record) => Math.min(least, ttlOf(record)), ttlS),
  };
}

export const readAddress: ReadRecord<string> = (record) =>
  (record.type === 'A' || record.type === 'AAAA') && isIP(record.data) !== 0 ? record.data : null;

/** Returns a host name in lower case without a trailing dot. */
export const readName: ReadRecord<string> = (record) =>
  record.type === 'CNAME' || record.type === 'PTR' ? record.data.toLowerCase() : null;

/** Returns an MX record; the null MX of RFC 7505 has the exchange `.`. */
export const readMx: ReadRecord<MxRecord> = (record) =>
  record.type === 'MX'
    ? { preference: record.data.preference ?? 0, exchange: record.data.exchange.toLowerCase() }
    : null;

/** Returns the strings of a TXT record, joined without spaces (RFC 7208 §3.3, RFC 6376 §3.6.2.2). */
export const readTxt: ReadRecord<string> = (record) => {
  if (record.type !== 'TXT') return null;
  const chunks = Array.isArray(record.data) ? record.data : [record.data];
  return Buffer.concat(chunks.map((chunk) => Buffer.from(chunk as Buffer))).toString('utf8');
};

export const readTlsa: ReadRecord<TlsaRecord> = (record) => {
  if (record.type !== 'TLSA') return null;
  const { usage, selector, matchingType, certificate } = record.data;
  return { usage, selector, matching: matchingType, dataHex: certificate.toString('hex') };
};

function sameName(a: string, b: string): boolean {
  return a.toLowerCase() === b.toLowerCase();
}

function tryDecode(bytes: Buffer): DecodedMessage | null {
  try {
    return decodeMessage(bytes);
  } catch (error) {
    if (error instanceof MalformedMessage) return null;
    throw error;
  }
}

function isResponseTo(packet: DecodedMessage, question: Question): boolean {
  const repeated = packet.question;
  // Some servers send errors such as FORMERR without the question.
  if (repeated === null) return packet.rcode !== 'NOERROR' && packet.rcode !== 'NXDOMAIN';
  return repeated.type === question.type && sameName(repeated.name, question.name);
}

/**
 * Returns whether the response is a referral from a server that does not recurse. It must not be read as "no such
 * record".
 */
function isReferral(packet: DecodedMessage): boolean {
  return (
    packet.rcode === 'NOERROR' &&
    !packet.isAuthoritative &&
    !packet.hasRecords &&
    packet.authorityTypes.includes('NS') &&
    !packet.authorityTypes.includes('SOA')
  );
}

function cnameOf(
  records: readonly DnsRecord[],
  name: string,
): { target: string; ttlS: number } | null {
  for (const record of records) {
    if (record.type === 'CNAME' && sameName(record.name, name)) {
      return { target: record.data, ttlS: record.ttl ?? 0 };
    }
  }
  return null;
}

function preferenceOf(record: DnsRecord): number {
  return record.type === 'MX' ? (record.data.preference ?? 0) : 0;
}

function ttlOf(record: DnsRecord): number {
  return 'ttl' in record ? (record.ttl ?? 0) : 0;
}
