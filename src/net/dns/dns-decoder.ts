/**
 * Decodes a DNS message (RFC 1035 §4) that arrived from a server: untrusted bytes.
 *
 * The time is linear in the size of the message. In a general decoder it is not: pointers can form chains of ten
 * thousand steps, and every record can start one. Here a name at a given offset is decoded once.
 */
import type { Answer as DnsRecord } from 'dns-packet';
import { SocketAddress } from 'node:net';

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

export type DecodedMessage = {
  isResponse: boolean;
  isAuthoritative: boolean;
  isTruncated: boolean;
  isAuthentic: boolean;
  rcode: string;
  /** Null: the message has no question section. */
  question: { name: string; type: string } | null;
  /** Records of the types that this service queries. */
  records: readonly DnsRecord[];
  hasRecords: boolean;
  authorityTypes: readonly string[];
};

export class MalformedMessage extends Error {
  override readonly name = 'Malformed';
}

/**
 * Decodes the records of the types that this service queries, and the presence of others.
 * @throws MalformedMessage
 */
export function decodeMessage(bytes: Buffer): DecodedMessage {
  if (bytes.length < HEADER_BYTES) throw new MalformedMessage();
  const [high = 0, low = 0] = bytes.subarray(2, 4);
  const reader = new MessageReader(bytes);
  const questions = readTimes(bytes.readUInt16BE(4), () => reader.question());
  const records = readTimes(bytes.readUInt16BE(6), () => reader.record());
  const authorities = readTimes(bytes.readUInt16BE(8), () => reader.type());
  return {
    isResponse: (high & 0x80) !== 0,
    isAuthoritative: (high & 0x04) !== 0,
    isTruncated: (high & 0x02) !== 0,
    isAuthentic: (low & 0x20) !== 0,
    rcode: RCODES[low & 0x0f] ?? `RCODE ${low & 0x0f}`,
    question: questions[0] ?? null,
    records: records.filter((record) => record !== null),
    hasRecords: records.length > 0,
    authorityTypes: authorities,
  };
}

/** Reads as many items as the header of the message says. `read` throws when there are fewer. */
function readTimes<Item>(times: number, read: () => Item): Item[] {
  const items: Item[] = [];
  for (let index = 0; index < times; index += 1) items.push(read());
  return items;
}

type RecordHeader = { name: string; type: string; isInternet: boolean; ttl: number; end: number };

/** A name without a trailing dot; `end`: the offset after its encoding. */
type DecodedName = { name: string; end: number };

class MessageReader {
  readonly #bytes: Buffer;
  /** Names by offset, also names within other names, so that each is decoded once. */
  readonly #names = new Map<number, DecodedName>();
  #at = HEADER_BYTES;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  question(): { name: string; type: string } {
    const name = this.#name();
    const type = typeName(this.#uint16());
    this.#uint16();
    return { name, type };
  }

  /** Returns null for another type or class. */
  record(): DnsRecord | null {
    const header = this.#recordHeader();
    const record = header.isInternet ? this.#recordOf(header) : null;
    if (record !== null && this.#at !== header.end) throw new MalformedMessage();
    this.#at = header.end;
    return record;
  }

  type(): string {
    const { type, end } = this.#recordHeader();
    this.#at = end;
    return type;
  }

  #recordHeader(): RecordHeader {
    const name = this.#name();
    const type = typeName(this.#uint16());
    const isInternet = this.#uint16() === CLASS_IN;
    const ttl = this.#uint16() * 0x10000 + this.#uint16();
    const length = this.#uint16();
    const end = this.#at + length;
    if (end > this.#bytes.length) throw new MalformedMessage();
    return { name, type, isInternet, ttl, end };
  }

  #recordOf({ name, type, ttl, end }: RecordHeader): DnsRecord | null {
    switch (type) {
      case 'A':
        return { type, name, ttl, data: this.#take(4).join('.') };
      case 'AAAA':
        return { type, name, ttl, data: formatIpv6(this.#take(16)) };
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

  #nameAt(start: number, stepsLeft: number): DecodedName {
    const known = this.#names.get(start);
    if (known !== undefined) return known;
    if (stepsLeft === 0) throw new MalformedMessage();
    const found = this.#readName(start, stepsLeft);
    if (found.name.length > NAME_CHARS_MAX) throw new MalformedMessage();
    this.#names.set(start, found);
    return found;
  }

  #readName(start: number, stepsLeft: number): DecodedName {
    const length = this.#bytes[start];
    if (length === undefined) throw new MalformedMessage();
    if (length === 0) return { name: '', end: start + 1 };
    if (length >= POINTER) {
      const low = this.#bytes[start + 1] ?? 0;
      const target = (length - POINTER) * 256 + low;
      // A pointer may only refer to a prior position (RFC 1035 §4.1.4).
      if (target >= start) throw new MalformedMessage();
      return { name: this.#nameAt(target, stepsLeft - 1).name, end: start + 2 };
    }
    const labelEnd = start + 1 + length;
    if (length > LABEL_OCTETS_MAX || labelEnd > this.#bytes.length) throw new MalformedMessage();
    const label = escapeLabel(this.#bytes.toString('utf8', start + 1, labelEnd));
    const { name: parent, end } = this.#nameAt(labelEnd, stepsLeft - 1);
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
    if (length < 0 || end > this.#bytes.length) throw new MalformedMessage();
    const bytes = this.#bytes.subarray(this.#at, end);
    this.#at = end;
    return bytes;
  }
}

function typeName(number: number): string {
  return TYPES[number] ?? `TYPE${number}`;
}

/** Escapes a dot within a label, because it does not separate labels. */
function escapeLabel(text: string): string {
  return text.replaceAll('.', '\\.');
}

function formatIpv6(bytes: Buffer): string {
  const groups = [0, 2, 4, 6, 8, 10, 12, 14].map((at) => bytes.readUInt16BE(at).toString(16));
  return new SocketAddress({ family: 'ipv6', address: groups.join(':') }).address;
}
