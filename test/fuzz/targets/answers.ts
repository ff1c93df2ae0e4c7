/** Answers of DNS: packets of all shapes, read up to the records that the service accepts. */
import assert from 'node:assert/strict';
import { encode } from 'dns-packet';
import { usableRecords } from '../../../src/net/tls/dane.ts';
import {
  followCnames,
  type Question,
  readAddress,
  readResponse,
  readMx,
  readName,
  readTlsa,
  readTxt,
} from '../../../src/net/dns/dns-message.ts';
import { readStsRecord } from '../../../src/net/tls/mta-sts.ts';
import type { RandomSource } from '../../chaos/random.ts';
import { times } from '../generators.ts';
import type { Input, Target } from '../target.ts';

const TYPES = ['A', 'AAAA', 'CNAME', 'MX', 'PTR', 'TLSA', 'TXT'] as const;
/** Numbers of the record types above and of others: NS, SOA, OPT, RRSIG, NSEC, HTTPS, ANY and an unassigned one. */
const NUMBERS = [1, 28, 5, 15, 12, 52, 16, 2, 6, 41, 46, 47, 65, 255, 999];
const NAME = 'acme.test';
const ID = 7;
const DATAGRAM_BYTES_MAX = 65_535;

const SAMPLES = TYPES.map((type) =>
  encode({
    type: 'response',
    id: ID,
    questions: [{ name: NAME, type }],
    answers: [
      { type: 'CNAME', name: NAME, ttl: 60, data: 'www.acme.test' },
      { type: 'A', name: 'www.acme.test', ttl: 60, data: '192.0.2.1' },
      { type: 'AAAA', name: 'www.acme.test', ttl: 60, data: '2001:db8::1' },
      { type: 'MX', name: NAME, ttl: 60, data: { preference: 10, exchange: 'mx.acme.test' } },
      { type: 'TXT', name: NAME, ttl: 60, data: [Buffer.from('v=STSv1; id=1;')] },
      { type: 'PTR', name: NAME, ttl: 60, data: 'acme.test' },
      {
        type: 'TLSA',
        name: NAME,
        ttl: 60,
        data: { usage: 3, selector: 1, matchingType: 1, certificate: Buffer.alloc(32, 7) },
      },
    ],
    authorities: [{ type: 'NS', name: NAME, ttl: 60, data: 'ns.acme.test' }],
  }),
);

function generate(random: RandomSource): Input {
  const index = random.between(0, TYPES.length - 1);
  const kind = TYPES[index]!;
  const bytes = random.chance(0.5) ? damaged(random, SAMPLES[index]!) : packet(random, kind, 500);
  return { kind, bytes };
}

function damaged(random: RandomSource, sample: Buffer): Buffer {
  const bytes = Buffer.from(sample);
  for (let left = random.between(0, 6); left > 0; left -= 1) {
    bytes[random.between(2, bytes.length - 1)] = random.pick([
      0,
      1,
      0xc0,
      0xff,
      random.between(0, 255),
    ]);
  }
  return random.chance(0.2) ? bytes.subarray(0, random.between(0, bytes.length)) : bytes;
}

/** Returns a packet with a valid header and records of up to about `bytesMax` bytes. */
function packet(random: RandomSource, type: (typeof TYPES)[number], bytesMax: number): Buffer {
  const head = encode({ type: 'response', id: ID, questions: [{ name: NAME, type }], answers: [] });
  const records = [head];
  let length = head.length;
  let count = 0;
  do {
    const next = recordOf(random, length);
    records.push(next);
    length += next.length;
    count += 1;
  } while (length < bytesMax && random.chance(0.8));
  const bytes = Buffer.concat(records);
  bytes.writeUInt16BE(
    random.chance(0.9) ? count : random.between(0, 65_535),
    random.pick([6, 6, 6, 8]),
  );
  return bytes;
}

function recordOf(random: RandomSource, at: number): Buffer {
  const head = Buffer.alloc(10);
  head.writeUInt16BE(random.pick(NUMBERS), 0);
  head.writeUInt16BE(random.chance(0.95) ? 1 : random.between(0, 65_535), 2);
  head.writeUInt32BE(random.between(0, 2 ** 32 - 1), 4);
  const name = nameOf(random, at);
  const data = dataOf(random, at + name.length + head.length);
  head.writeUInt16BE(random.chance(0.95) ? data.length : random.between(0, 300), 8);
  return Buffer.concat([name, head, data]);
}

function dataOf(random: RandomSource, at: number): Buffer {
  const numbers = () => Buffer.from(times(random.between(0, 40), () => random.between(0, 255)));
  switch (random.between(0, 4)) {
    case 0:
      return Buffer.from([1, 2, 3, 4]);
    case 1:
      return Buffer.alloc(16, random.between(0, 255));
    case 2:
      return nameOf(random, at);
    case 3:
      return Buffer.concat([Buffer.from([0, 10]), nameOf(random, at + 2)]);
    default:
      return numbers();
  }
}

/** Returns labels that end with the root, a pointer to an earlier name, or a pointer that leads nowhere. */
function nameOf(random: RandomSource, at: number): Buffer {
  const labels = times(random.pick([0, 0, 1, 3, 130]), () => {
    const text = Buffer.alloc(random.pick([1, 3, 63]), random.pick(['a', '.', '\0', '\u00ff']));
    return Buffer.concat([Buffer.from([text.length]), text]);
  });
  const target =
    random.pick([12, 12, at, random.between(0, Math.min(at, 0x3fff)), 0x3fff]) & 0x3fff;
  const end = random.chance(0.5) ? [0] : [0xc0 | (target >> 8), target & 255];
  return Buffer.concat([...labels, Buffer.from(end)]);
}

/** Returns chains of pointers, names of many labels, and as many records as fit. */
function grow(random: RandomSource): (bytes: number) => Input {
  const kind = random.pick(TYPES);
  const filler = growingFiller(random);
  const number = random.pick(NUMBERS);
  const share = random.pick([0, 0.1, 0.5]);
  return (bytes) => {
    const question = { name: NAME, type: kind };
    const head = encode({ type: 'response', id: ID, questions: [question], answers: [] });
    const first = record(
      Buffer.from([0]),
      999,
      filler(head.length + 11, Math.floor(bytes * share)),
    );
    const target = Math.min(0x3fff, head.length + first.length - 2);
    const pointer = Buffer.from([0xc0 | (target >> 8), target & 255]);
    const one = record(
      pointer,
      number,
      number === 28 ? Buffer.alloc(16) : Buffer.from([1, 2, 3, 4]),
    );
    const count = Math.floor(Math.max(0, bytes - head.length - first.length) / one.length);
    const whole = Buffer.concat([head, first, ...times(count, () => one)]);
    whole.writeUInt16BE(count + 1, 6);
    return { kind, bytes: whole };
  };
}

function growingFiller(random: RandomSource): (at: number, bytes: number) => Buffer {
  const label = Buffer.from([1, 97]);
  if (random.chance(0.3)) {
    return (_at, bytes) => Buffer.concat(times(Math.floor(bytes / 2), () => label));
  }
  return (at, bytes) => {
    const chain = Buffer.alloc(Math.min(bytes, 0x3fff - at) & ~1);
    for (let offset = 0; offset < chain.length; offset += 2) {
      chain.writeUInt16BE(0xc000 | (offset === 0 ? 12 : at + offset - 2), offset);
    }
    return chain;
  };
}

function record(name: Buffer, type: number, data: Buffer): Buffer {
  const head = Buffer.alloc(10);
  head.writeUInt16BE(type, 0);
  head.writeUInt16BE(1, 2);
  head.writeUInt16BE(data.length, 8);
  return Buffer.concat([name, head, data]);
}

const READ = {
  A: readAddress,
  AAAA: readAddress,
  CNAME: readName,
  PTR: readName,
  MX: readMx,
  TXT: readTxt,
  TLSA: readTlsa,
};

function read({ kind, bytes }: Input): void {
  const question = { name: NAME, type: kind as Question['type'] };
  const reading = readResponse(bytes, question, ID);
  assert.equal(readResponse(bytes, question, ID + 1).kind, 'not_ours');
  if (reading.kind !== 'response') return;
  const follow = <Value>(readRecord: Parameters<typeof followCnames<Value>>[2]['read']) =>
    followCnames(reading.records, question, { read: readRecord, maxHops: 8 });
  const { records, hops } = follow<unknown>(READ[question.type]);
  assert.ok(records.length <= 100 && hops <= 9);
  if (question.type === 'TLSA') assert.ok(usableRecords(follow(readTlsa).records).length <= 20);
  if (question.type === 'TXT') readStsRecord(follow(readTxt).records);
}

export const answers: Target = {
  name: 'dns',
  about: 'answers of DNS servers',
  generate,
  grow,
  growsUpTo: DATAGRAM_BYTES_MAX,
  cpuMsMax: 50,
  open: () => Promise.resolve({ read }),
};
