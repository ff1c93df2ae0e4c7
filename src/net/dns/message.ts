/**
 * One DNS question and the messages that may answer it (RFC 1035, EDNS0 of RFC 6891), as pure
 * functions over bytes. Promises: a message that is not the reply to our question is told apart
 * from a bad reply, nothing in a message throws, and what comes out is capped.
 * dns-decode.ts reads the bytes.
 */
import { isIP } from 'node:net';
import { AUTHENTIC_DATA, RECURSION_DESIRED, encode, type Answer } from 'dns-packet';
import { decodeReply, type DecodedReply, Malformed } from './decode.ts';

export type Question = {
  name: string;
  type: 'A' | 'AAAA' | 'CNAME' | 'MX' | 'PTR' | 'TLSA' | 'TXT';
};
export type MxRecord = { preference: number; exchange: string };
/** RFC 6698 §2.1, as it came; net/tls/dane.ts says which are usable. */
export type TlsaRecord = { usage: number; selector: number; matching: number; dataHex: string };

/** Takes one value out of a record of the type that was asked for; null drops the record. */
export type ReadRecord<T> = (record: Answer) => T | null;

export type Reading =
  /** Another id, another question, not a response: somebody else's packet. Keep listening. */
  | { kind: 'not_ours' }
  /** The reply did not fit into the datagram: ask again over TCP. */
  | { kind: 'truncated' }
  /** This server cannot answer: ask the next. */
  | { kind: 'unusable'; message: string; rcode: string }
  | { kind: 'reply'; nxdomain: boolean; authenticated: boolean; answers: readonly Answer[] };

export type Chain<T> = {
  records: readonly T[];
  /** Where the CNAMEs in this message end; the question's own name when there are none. */
  name: string;
  /** CNAMEs followed. */
  hops: number;
  /** The smallest TTL of all records on the way, seconds. */
  ttlS: number;
};

/** RFC 1035 allows as many as fit into 64 KiB: a hostile zone would fill the cache with them. */
const MAX_RECORDS = 100;
/** What passes every path without fragments (DNS flag day 2020). */
const UDP_PAYLOAD_BYTES = 1232;

/**
 * False for a name that DNS cannot express: such a name cannot exist either. dns-packet would
 * write an over-long label as a compression pointer.
 */
export function isDnsName(name: string): boolean {
  if (name.length === 0 || name.length > 253) return false;
  return name.split('.').every((label) => /^[!-~]{1,63}$/.test(label));
}

export function encodeQuestion(question: Question, id: number, edns: boolean): Buffer {
  return encode({
    type: 'query',
    id,
    // AD in a query asks for AD in the reply (RFC 6840 §5.7).
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

export function readMessage(bytes: Buffer, question: Question, id: number): Reading {
  if (bytes.length < 12 || bytes.readUInt16BE(0) !== id) return { kind: 'not_ours' };
  const packet = tryDecode(bytes);
  if (packet === null) {
    // A truncated message may end in the middle of a record.
    if ((bytes.readUInt8(2) & 0x02) !== 0) return { kind: 'truncated' };
    return { kind: 'unusable', message: 'a malformed answer', rcode: 'MALFORMED' };
  }
  if (!packet.isResponse || !repeats(packet, question)) return { kind: 'not_ours' };
  if (packet.isTruncated) return { kind: 'truncated' };
  const rcode = packet.rcode;
  if (rcode !== 'NOERROR' && rcode !== 'NXDOMAIN')
    return { kind: 'unusable', message: rcode, rcode };
  if (isReferral(packet)) {
    return { kind: 'unusable', message: 'a referral instead of an answer', rcode: 'REFERRAL' };
  }
  return {
    kind: 'reply',
    nxdomain: rcode === 'NXDOMAIN',
    authenticated: packet.isAuthentic,
    answers: packet.answers,
  };
}

/**
 * Follows the CNAMEs that the message itself holds and collects the records at their end: MX
 * records by preference, others in the order of the message.
 */
export function followChain<T>(
  answers: readonly Answer[],
  question: Question,
  options: { read: ReadRecord<T>; maxHops: number },
): Chain<T> {
  let name = question.name;
  let hops = 0;
  let ttlS = Infinity;
  if (question.type !== 'CNAME') {
    while (hops <= options.maxHops) {
      const alias = aliasOf(answers, name);
      if (alias === null) break;
      name = alias.target;
      ttlS = Math.min(ttlS, alias.ttlS);
      hops += 1;
    }
  }
  const found = answers
    .filter((record) => record.type === question.type && sameName(record.name, name))
    .toSorted((one, other) => preferenceOf(one) - preferenceOf(other))
    .slice(0, MAX_RECORDS);
  return {
    records: found.map(options.read).filter((value) => value !== null),
    name,
    hops,
    ttlS: found.reduce((least, record) => Math.min(least, ttlOf(record)), ttlS),
  };
}

export const readAddress: ReadRecord<string> = (record) =>
  (record.type === 'A' || record.type === 'AAAA') && isIP(record.data) !== 0 ? record.data : null;

/** A host name in lower case without its final dot. */
export const readName: ReadRecord<string> = (record) =>
  record.type === 'CNAME' || record.type === 'PTR' ? record.data.toLowerCase() : null;

/** The null MX of RFC 7505 has the exchange `.`. */
export const readMx: ReadRecord<MxRecord> = (record) =>
  record.type === 'MX'
    ? { preference: record.data.preference ?? 0, exchange: record.data.exchange.toLowerCase() }
    : null;

/**
 * The strings of one TXT record joined without a space (RFC 7208 §3.3, RFC 6376 §3.6.2.2). They
 * fit into one DNS message, so a record is never larger than 64 KiB.
 */
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

export function sameName(one: string, other: string): boolean {
  return one.toLowerCase() === other.toLowerCase();
}

function tryDecode(bytes: Buffer): DecodedReply | null {
  try {
    return decodeReply(bytes);
  } catch (error) {
    if (error instanceof Malformed) return null;
    throw error;
  }
}

function repeats(packet: DecodedReply, question: Question): boolean {
  const asked = packet.question;
  // Some servers send FORMERR and the like without the question.
  if (asked === null) return packet.rcode !== 'NOERROR' && packet.rcode !== 'NXDOMAIN';
  return asked.type === question.type && sameName(asked.name, question.name);
}

/** A server that does not recurse points elsewhere: that must not read as "there is no record". */
function isReferral(packet: DecodedReply): boolean {
  return (
    packet.rcode === 'NOERROR' &&
    !packet.isAuthoritative &&
    !packet.hasAnswers &&
    packet.authorityTypes.includes('NS') &&
    !packet.authorityTypes.includes('SOA')
  );
}

function aliasOf(
  answers: readonly Answer[],
  name: string,
): { target: string; ttlS: number } | null {
  for (const record of answers) {
    if (record.type === 'CNAME' && sameName(record.name, name)) {
      return { target: record.data, ttlS: record.ttl ?? 0 };
    }
  }
  return null;
}

function preferenceOf(record: Answer): number {
  return record.type === 'MX' ? (record.data.preference ?? 0) : 0;
}

function ttlOf(record: Answer): number {
  return 'ttl' in record ? (record.ttl ?? 0) : 0;
}
