/**
 * DNS queries and replies as bytes (RFC 1035, EDNS0 of RFC 6891). Distinguishes a message that does not belong to
 * the query from an unusable reply. `readMessage` never throws and limits the number of records.
 */
import { type Answer, AUTHENTIC_DATA, encode, RECURSION_DESIRED } from 'dns-packet';
import { isIP, SocketAddress } from 'node:net';

export type Question = {
  name: string;
  type: 'A' | 'AAAA' | 'CNAME' | 'MX' | 'PTR' | 'TLSA' | 'TXT';
};
export type MxRecord = { preference: number; exchange: string };
/** RFC 6698 §2.1, unchecked; net/tls/dane.ts selects the usable ones. */
export type TlsaRecord = { usage: number; selector: number; matching: number; dataHex: string };

/** Returns the value of a record of the queried type; null drops the record. */
export type ReadRecord<T> = (record: Answer) => T | null;

export type Reading =
  /** Another id or question, or not a response: keep waiting. */
  | { kind: 'not_ours' }
  /** The reply did not fit into the datagram: retry over TCP. */
  | { kind: 'truncated' }
  /** This server cannot answer: ask the next one. */
  | { kind: 'unusable'; message: string; rcode: string }
  | { kind: 'reply'; nxdomain: boolean; authenticated: boolean; answers: readonly Answer[] };

type Chain<T> = {
  records: readonly T[];
  /** The end of the CNAMEs in this message; without CNAMEs, the name of the question. */
  name: string;
  hops: number;
  /** The smallest TTL of all records of the chain, in seconds. */
  ttlS: number;
};

/** Limit on records, which limits the cache size of a zone. The protocol allows as many as fit into 64 KiB. */
const MAX_RECORDS = 100;
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
    // A truncated message may end within a record.
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

/** Follows the CNAMEs in the message and returns the records at their end, MX records by preference. */
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

function sameName(one: string, other: string): boolean {
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
  // Some servers send errors such as FORMERR without the question.
  if (asked === null) return packet.rcode !== 'NOERROR' && packet.rcode !== 'NXDOMAIN';
  return asked.type === question.type && sameName(asked.name, question.name);
}

/**
 * Returns whether the reply is a referral from a server that does not recurse. It must not be read as "no such
 * record".
 */
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

type DecodedReply = {
  isResponse: boolean;
  isAuthoritative: boolean;
  isTruncated: boolean;
  isAuthentic: boolean;
  rcode: string;
  /** Null: the message has no question section. */
  question: { name: string; type: string } | null;
  /** Records of the types that this service queries. */
  answers: readonly Answer[];
  hasAnswers: boolean;
  authorityTypes: readonly string[];
};

class Malformed extends Error {
  override readonly name = 'Malformed';
}

/** RFC 1035 §3.2.2, 3596, 6698; other types keep their number. */
const TYPES: Readonly<Record<number, string>> = {
  1: 'A',
  2: 'NS',
  5: 'CNAME',
  6: 'SOA',
  12: 'PTR',
  15: 'MX',
  16: 'TXT',
  28: 'AAAA',
  52: 'TLSA',
};
const RCODES = ['NOERROR', 'FORMERR', 'SERVFAIL', 'NXDOMAIN', 'NOTIMP', 'REFUSED'];
/** Internet. Records of other classes are ignored. */
const CLASS_IN = 1;

const HEADER_BYTES = 12;
const NAME_CHARS_MAX = 254;
const LABEL_OCTETS_MAX = 63;
/** The two high bits of an octet that starts a pointer (RFC 1035 §4.1.4). */
const POINTER = 0xc0;
const STEPS_MAX = 200;

/**
 * Decodes the records of the types that this service queries, and the presence of others.
 *
 * The time is linear in the size of the message. In a general decoder it is not: pointers can form chains of ten
 * thousand steps, and every record can start one. Here a name at a given offset is decoded once.
 * @throws Malformed
 */
function decodeReply(bytes: Buffer): DecodedReply {
  if (bytes.length < HEADER_BYTES) throw new Malformed();
  const [high = 0, low = 0] = bytes.subarray(2, 4);
  const reader = new Reader(bytes);
  const questions = repeated(bytes.readUInt16BE(4), () => reader.question());
  const answers = repeated(bytes.readUInt16BE(6), () => reader.record());
  const authorities = repeated(bytes.readUInt16BE(8), () => reader.type());
  return {
    isResponse: (high & 0x80) !== 0,
    isAuthoritative: (high & 0x04) !== 0,
    isTruncated: (high & 0x02) !== 0,
    isAuthentic: (low & 0x20) !== 0,
    rcode: RCODES[low & 0x0f] ?? `RCODE ${low & 0x0f}`,
    question: questions[0] ?? null,
    answers: answers.filter((record) => record !== null),
    hasAnswers: answers.length > 0,
    authorityTypes: authorities,
  };
}

/** Reads as many items as the header says. `read` throws when there are fewer. */
function repeated<Item>(times: number, read: () => Item): Item[] {
  const items: Item[] = [];
  for (let index = 0; index < times; index += 1) items.push(read());
  return items;
}

type Head = { name: string; type: string; isInternet: boolean; ttl: number; end: number };

/** A name without a trailing dot; `end`: the offset after its encoding. */
type Name = { name: string; end: number };

class Reader {
  readonly #bytes: Buffer;
  /** Names by offset, also names within other names, so that each is decoded once. */
  readonly #names = new Map<number, Name>();
  #at = HEADER_BYTES;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  question(): { name: string; type: string } {
    const name = this.#name();
    const type = typeOf(this.#uint16());
    this.#uint16();
    return { name, type };
  }

  /** Returns null for another type or class. */
  record(): Answer | null {
    const head = this.#head();
    const answer = head.isInternet ? this.#answer(head) : null;
    if (answer !== null && this.#at !== head.end) throw new Malformed();
    this.#at = head.end;
    return answer;
  }

  type(): string {
    const { type, end } = this.#head();
    this.#at = end;
    return type;
  }

  #head(): Head {
    const name = this.#name();
    const type = typeOf(this.#uint16());
    const isInternet = this.#uint16() === CLASS_IN;
    const ttl = this.#uint16() * 0x10000 + this.#uint16();
    const length = this.#uint16();
    const end = this.#at + length;
    if (end > this.#bytes.length) throw new Malformed();
    return { name, type, isInternet, ttl, end };
  }

  #answer({ name, type, ttl, end }: Head): Answer | null {
    switch (type) {
      case 'A':
        return { type, name, ttl, data: this.#take(4).join('.') };
      case 'AAAA':
        return { type, name, ttl, data: ipv6(this.#take(16)) };
      case 'CNAME':
      case 'PTR':
        return { type, name, ttl, data: this.#name() };
      case 'MX':
        return { type, name, ttl, data: { preference: this.#uint16(), exchange: this.#name() } };
      case 'TXT':
        return { type, name, ttl, data: this.#strings(end) };
      case 'TLSA':
        return { type, name, ttl, data: this.#tlsa(end) };
      default:
        return null;
    }
  }

  #strings(end: number): Buffer[] {
    const strings: Buffer[] = [];
    while (this.#at < end) strings.push(this.#take(this.#uint8()));
    return strings;
  }

  #tlsa(end: number) {
    const usage = this.#uint8();
    const selector = this.#uint8();
    const matchingType = this.#uint8();
    return { usage, selector, matchingType, certificate: this.#take(end - this.#at) };
  }

  #name(): string {
    const start = this.#at;
    const { name, end } = this.#nameAt(start, STEPS_MAX);
    this.#at = end;
    return name === '' ? '.' : name;
  }

  #nameAt(start: number, stepsLeft: number): Name {
    const known = this.#names.get(start);
    if (known !== undefined) return known;
    if (stepsLeft === 0) throw new Malformed();
    const found = this.#readName(start, stepsLeft);
    if (found.name.length > NAME_CHARS_MAX) throw new Malformed();
    this.#names.set(start, found);
    return found;
  }

  #readName(start: number, stepsLeft: number): Name {
    const length = this.#bytes[start];
    if (length === undefined) throw new Malformed();
    if (length === 0) return { name: '', end: start + 1 };
    if (length >= POINTER) {
      const low = this.#bytes[start + 1] ?? 0;
      const target = (length - POINTER) * 256 + low;
      // A pointer may only refer to a prior position (RFC 1035 §4.1.4).
      if (target >= start) throw new Malformed();
      return { name: this.#nameAt(target, stepsLeft - 1).name, end: start + 2 };
    }
    const rest = start + 1 + length;
    if (length > LABEL_OCTETS_MAX || rest > this.#bytes.length) throw new Malformed();
    const label = labelOf(this.#bytes.toString('utf8', start + 1, rest));
    const { name: parent, end } = this.#nameAt(rest, stepsLeft - 1);
    return { name: parent === '' ? label : `${label}.${parent}`, end };
  }

  #uint8(): number {
    return this.#take(1)[0]!;
  }

  #uint16(): number {
    return this.#take(2).readUInt16BE(0);
  }

  #take(length: number): Buffer {
    const end = this.#at + length;
    if (length < 0 || end > this.#bytes.length) throw new Malformed();
    const taken = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return taken;
  }
}

function typeOf(number: number): string {
  return TYPES[number] ?? `TYPE${number}`;
}

/** Escapes a dot within a label, because it does not separate labels. */
function labelOf(text: string): string {
  return text.replaceAll('.', '\\.');
}

function ipv6(bytes: Buffer): string {
  const groups = [0, 2, 4, 6, 8, 10, 12, 14].map((at) => bytes.readUInt16BE(at).toString(16));
  return new SocketAddress({ family: 'ipv6', address: groups.join(':') }).address;
}
