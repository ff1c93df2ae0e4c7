/**
 * A scripted DNS server on 127.0.0.1, UDP and TCP on one random port: real packets, records that a test sets and
 * changes, and every way in which a DNS server can fail. A name outside of its zone does not exist.
 */
import {
  AUTHENTIC_DATA,
  AUTHORITATIVE_ANSWER,
  TRUNCATED_RESPONSE,
  decode,
  encode,
  type Answer,
  type Packet,
} from 'dns-packet';
import { type DnsReplies, serveDns, txtStrings } from '../../src/cli/once/internet.ts';

export type FakeRecordType = 'A' | 'AAAA' | 'CNAME' | 'MX' | 'NS' | 'PTR' | 'TLSA' | 'TXT';

/**
 * Records in the form of a zone file: `'10 mx.acme.test'` for MX (`'0 .'` is the null MX), `'3 1 1 ab12'` for TLSA,
 * names without final dot. A TXT of more than 255 bytes is split into strings; an array sets the strings. A function
 * is called at each query.
 */
export type FakeRecords = readonly (string | readonly string[])[] | (() => readonly string[]);
export type FakeZone = Record<string, Partial<Record<FakeRecordType, FakeRecords>>>;

/**
 * - `servfail`, `refused`, `formerr`: that response code; `no_edns`: FORMERR to a question with EDNS
 * - `timeout`: silence; `reset`: silence, and over TCP the connection is cut
 * - `truncated`: the whole answer only over TCP; `truncated_only`: not even there
 * - `garbage`: the right id, then noise
 * - `wrong_id`, `wrong_question`: a reply that must be ignored; `forged_first`: such a reply, then the true one
 * - `referral`: names other servers instead of answering
 * - `overcounted`: announces 5,000 answers and has fewer
 * - `crowded`: over TCP, 4,000 MX records, all with preference 10 and the queried name as exchange
 */
export type FakeFailure =
  | 'servfail'
  | 'refused'
  | 'formerr'
  | 'no_edns'
  | 'timeout'
  | 'reset'
  | 'truncated'
  | 'truncated_only'
  | 'garbage'
  | 'wrong_id'
  | 'wrong_question'
  | 'forged_first'
  | 'referral'
  | 'overcounted'
  | 'crowded';

export type FakeQuery = { name: string; type: string; transport: 'udp' | 'tcp' };

export type FakeDns = AsyncDisposable & {
  /** `127.0.0.1:<port>`, for LETTERHAUS_DNS_SERVERS. */
  readonly server: string;
  /** All questions so far, with names in lower case. */
  readonly queries: FakeQuery[];
  /** Replaces the records of a name and type; `[]` leaves the name without that type. */
  set(name: string, type: FakeRecordType, records: FakeRecords): void;
  /** Removes a name, so that it does not exist. */
  remove(name: string): void;
  /** Sets the AD flag in answers for names with this suffix, like a validating resolver. */
  sign(suffix: string): void;
  /** Makes questions for the name (`'*'`: for any) fail from now on; null: answers again. */
  setFailure(name: string, failure: FakeFailure | null): void;
};

const RCODE = { servfail: 2, refused: 5, formerr: 1, nxdomain: 3 } as const;

export async function startFakeDns(
  zone: FakeZone = {},
  options: { ttlS?: number; authenticated?: boolean } = {},
): Promise<FakeDns> {
  const names = new Map<string, Map<string, FakeRecords>>();
  const failures = new Map<string, FakeFailure>();
  const signed = new Set<string>();
  const queries: FakeQuery[] = [];
  const set = (name: string, type: string, records: FakeRecords) => {
    const key = plain(name);
    const types = names.get(key) ?? new Map<string, FakeRecords>();
    names.set(key, types.set(type, records));
  };
  for (const [name, types] of Object.entries(zone)) {
    for (const [type, records] of Object.entries(types)) set(name, type, records);
  }

  const respond = (query: Buffer, transport: 'udp' | 'tcp'): DnsReplies => {
    const asked = decode(query);
    const question = asked.questions?.[0];
    if (question === undefined) return [];
    const name = plain(question.name);
    queries.push({ name, type: question.type, transport });
    const authenticated = options.authenticated === true || isBelow(name, signed);
    const answer = answerTo({ names, name, type: question.type, ...options, authenticated });
    const reply: Packet = { type: 'response', id: asked.id, questions: [question], ...answer };
    const failure = failures.get(name) ?? failures.get('*');
    if (failure === undefined) return [encode(reply)];
    return FAILURES[failure](reply, { transport, edns: (asked.additionals ?? []).length > 0 });
  };

  const { port, close } = await serveDns(respond);
  return {
    server: `127.0.0.1:${port}`,
    queries,
    set,
    sign: (suffix) => void signed.add(plain(suffix)),
    remove: (name) => void names.delete(plain(name)),
    setFailure: (name, failure) => {
      if (failure === null) failures.delete(plain(name));
      else failures.set(plain(name), failure);
    },
    [Symbol.asyncDispose]: close,
  };
}

function isBelow(name: string, suffixes: ReadonlySet<string>): boolean {
  return [...suffixes].some((suffix) => name === suffix || name.endsWith(`.${suffix}`));
}

function answerTo(ask: {
  names: ReadonlyMap<string, ReadonlyMap<string, FakeRecords>>;
  name: string;
  type: string;
  ttlS?: number;
  authenticated?: boolean;
}): Packet {
  const flags = AUTHORITATIVE_ANSWER | (ask.authenticated === true ? AUTHENTIC_DATA : 0);
  const answers: Answer[] = [];
  let { name } = ask;
  // A longer chain is a loop, which the resolver must detect by itself.
  for (let hop = 0; hop < 20; hop++) {
    const types = ask.names.get(name);
    const direct = recordsOf(types?.get(ask.type));
    answers.push(...direct.map((record) => toAnswer(name, ask.type, record, ask.ttlS ?? 60)));
    const [alias] = recordsOf(types?.get('CNAME'));
    if (direct.length > 0 || alias === undefined) break;
    answers.push(toAnswer(name, 'CNAME', alias, ask.ttlS ?? 60));
    name = plain(String(alias));
  }
  const exists = [...ask.names.keys()].some(
    (known) => known === name || known.endsWith(`.${name}`),
  );
  return { flags: flags | (exists ? 0 : RCODE.nxdomain), answers };
}

type Failing = (reply: Packet, how: { transport: 'udp' | 'tcp'; edns: boolean }) => DnsReplies;

/** The packets that are sent instead of `reply`. */
const FAILURES: Record<FakeFailure, Failing> = {
  servfail: (reply) => withCode(reply, RCODE.servfail),
  refused: (reply) => withCode(reply, RCODE.refused),
  formerr: (reply) => withCode(reply, RCODE.formerr),
  no_edns: (reply, { edns }) => (edns ? withCode(reply, RCODE.formerr) : [encode(reply)]),
  timeout: () => [],
  reset: (_, { transport }) => (transport === 'tcp' ? 'cut' : []),
  truncated: (reply, { transport }) => (transport === 'tcp' ? [encode(reply)] : truncated(reply)),
  truncated_only: truncated,
  garbage: (reply) => [Buffer.concat([encode(reply).subarray(0, 4), Buffer.alloc(200, 0xee)])],
  wrong_id: (reply) => [encode({ ...reply, id: otherId(reply) })],
  wrong_question: (reply) => [encode({ ...reply, questions: [{ name: 'other.test', type: 'A' }] })],
  forged_first: (reply) => [encode({ ...reply, id: otherId(reply), answers: [] }), encode(reply)],
  referral: (reply) => [encode({ ...reply, flags: 0, answers: [], authorities: [elsewhere()] })],
  overcounted: (reply) => [withCount(encode(reply), 5_000)],
  crowded: (reply, { transport }) => (transport === 'tcp' ? [crowded(reply)] : truncated(reply)),
};

function withCode(reply: Packet, rcode: number): Buffer[] {
  return [encode({ ...reply, flags: rcode, answers: [] })];
}

function truncated(reply: Packet): Buffer[] {
  return [encode({ ...reply, flags: TRUNCATED_RESPONSE, answers: [] })];
}

/** Sets ANCOUNT (RFC 1035 §4.1.1). */
function withCount(message: Buffer, count: number): Buffer {
  message.writeUInt16BE(count, 6);
  return message;
}

/** Returns compressed records of 16 bytes: about as many as fit into 64 KiB. */
function crowded(reply: Packet): Buffer {
  if (reply.questions?.[0]?.type !== 'MX') return encode(reply);
  // Owner and exchange point at the question (0xc00c); MX, IN, TTL 60, 4 bytes, preference 10.
  const record = Buffer.from('c00c000f00010000003c0004000ac00c', 'hex');
  const records = Buffer.concat(Array.from({ length: 4_000 }, () => record));
  return withCount(Buffer.concat([encode({ ...reply, answers: [] }), records]), 4_000);
}

function otherId(reply: Packet): number {
  return (reply.id ?? 0) ^ 1;
}

function elsewhere(): Answer {
  return { type: 'NS', name: 'test', ttl: 60, data: 'ns.elsewhere.test' };
}

function recordsOf(records: FakeRecords | undefined): readonly (string | readonly string[])[] {
  return typeof records === 'function' ? records() : (records ?? []);
}

function toAnswer(
  name: string,
  type: string,
  record: string | readonly string[],
  ttl: number,
): Answer {
  if (type === 'MX') {
    const [preference = '', exchange = ''] = String(record).split(' ');
    return { name, type, ttl, data: { preference: Number(preference), exchange } };
  }
  if (type === 'TLSA') {
    const [usage, selector, matchingType, data = ''] = String(record).split(' ');
    const certificate = Buffer.from(data, 'hex');
    const numbers = { usage: Number(usage), selector: Number(selector) };
    return {
      name,
      type,
      ttl,
      data: { ...numbers, matchingType: Number(matchingType), certificate },
    };
  }
  if (type === 'TXT')
    return {
      name,
      type,
      ttl,
      data:
        typeof record === 'string' ? txtStrings(record) : record.map((part) => Buffer.from(part)),
    };
  return { name, type: type as 'A', ttl, data: String(record) };
}

function plain(name: string): string {
  return name.toLowerCase().replace(/\.$/, '');
}
