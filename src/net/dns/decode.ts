/**
 * DNS messages read from their bytes (RFC 1035 §4), as far as this service asks: the records of the
 * types in dns-message.ts, and of the others only that they are there.
 *
 * Linear in the size of the message, which a general decoder is not: a name may point to one that
 * points to another, for ten thousand steps, and every record may begin such a chain. Here each place
 * of the message is read as a name once. Throws Malformed and nothing else.
 */
import { SocketAddress } from 'node:net';
import type { Answer } from 'dns-packet';

export type DecodedReply = {
  isResponse: boolean;
  isAuthoritative: boolean;
  isTruncated: boolean;
  isAuthentic: boolean;
  rcode: string;
  /** Null: the message repeats none. */
  question: { name: string; type: string } | null;
  /** Of the types that this service asks for. */
  answers: readonly Answer[];
  /** Of any type. */
  hasAnswers: boolean;
  /** Types in the authority section. */
  authorityTypes: readonly string[];
};

/** The bytes are no DNS message. */
export class Malformed extends Error {
  override readonly name = 'Malformed';
}

/** RFC 1035 §3.2.2, 3596, 6698; the others keep their number. */
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
/** Internet; another class is another name space. */
const CLASS_IN = 1;

const HEADER_BYTES = 12;
const NAME_CHARS_MAX = 254;
const LABEL_OCTETS_MAX = 63;
/** The two bits of an octet that make it and the next one a pointer (RFC 1035 §4.1.4). */
const POINTER = 0xc0;
/** Labels and pointers of one name. */
const STEPS_MAX = 200;

/** @throws Malformed */
export function decodeReply(bytes: Buffer): DecodedReply {
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

/** As often as the message says, which may be more often than it has bytes: then reading throws. */
function repeated<Item>(times: number, read: () => Item): Item[] {
  const items: Item[] = [];
  for (let index = 0; index < times; index += 1) items.push(read());
  return items;
}

type Head = { name: string; type: string; isInternet: boolean; ttl: number; end: number };

/** Without its final dot; `end`: what follows it where it stands. */
type Name = { name: string; end: number };

class Reader {
  readonly #bytes: Buffer;
  /** Names by where they begin, also those within others: no place is read as one twice. */
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

  /** Null: of a type or a class that nobody asks for. */
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
      // Only what stands in front can have been said already.
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

/** A dot within a label is none between two. */
function labelOf(text: string): string {
  return text.replaceAll('.', '\\.');
}

function ipv6(bytes: Buffer): string {
  const groups = [0, 2, 4, 6, 8, 10, 12, 14].map((at) => bytes.readUInt16BE(at).toString(16));
  return new SocketAddress({ family: 'ipv6', address: groups.join(':') }).address;
}
