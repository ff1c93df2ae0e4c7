/** DNS messages from the network, most of them hostile. resolver.test.ts has look-ups. */
import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { test } from 'node:test';
import { encode } from 'dns-packet';
import fc from 'fast-check';
import { createDnsCache } from './dns-cache.ts';
import { createResolver } from './resolver.ts';
import { usableRecords } from '../tls/dane.ts';
import {
  encodeQuestion,
  followCnames,
  readAddress,
  readResponse,
  readTlsa,
  readTxt,
} from './dns-message.ts';

const question = { name: 'acme.test', type: 'A' } as const;

const tlsa = { usage: 3, selector: 1, matchingType: 1, certificate: Buffer.alloc(32, 7) };

const reply = encode({
  type: 'response',
  id: 7,
  questions: [question],
  answers: [
    { type: 'CNAME', name: 'acme.test', ttl: 60, data: 'www.acme.test' },
    { type: 'A', name: 'www.acme.test', ttl: 60, data: '192.0.2.1' },
    { type: 'TXT', name: 'www.acme.test', ttl: 60, data: [Buffer.from('x'), Buffer.from('y')] },
    { type: 'TLSA', name: 'www.acme.test', ttl: 60, data: tlsa },
  ],
});

test('the smallest TTL of the CNAME chain counts', () => {
  const answers = [
    { type: 'CNAME', name: 'acme.test', ttl: 30, data: 'www.acme.test' } as const,
    { type: 'A', name: 'WWW.acme.test', ttl: 300, data: '192.0.2.1' } as const,
    { type: 'A', name: 'other.test', ttl: 1, data: '192.0.2.9' } as const,
  ];
  const chain = followCnames(answers, question, { read: readAddress, maxHops: 8 });
  assert.deepEqual(chain, { records: ['192.0.2.1'], name: 'www.acme.test', hops: 1, ttlS: 30 });
});

test('no bytes with the right id make the parser throw', () => {
  const read = (bytes: Buffer) => {
    const reading = readResponse(bytes, question, 7);
    if (reading.kind === 'response') {
      followCnames(reading.records, question, { read: readAddress, maxHops: 8 });
      followCnames(reading.records, { ...question, type: 'TXT' }, { read: readTxt, maxHops: 8 });
      const asTlsa = { ...question, type: 'TLSA' } as const;
      usableRecords(followCnames(reading.records, asTlsa, { read: readTlsa, maxHops: 8 }).records);
    }
    return true;
  };
  const noise = fc.uint8Array({ maxLength: 600 }).map((bytes) => {
    return Buffer.concat([Buffer.from([0, 7, 0x81, 0x80]), bytes]);
  });
  fc.assert(fc.property(noise, read), { numRuns: 2_000 });
  // A valid reply with a few changed bytes reaches deeper into the decoder than noise.
  const changes = fc.array(fc.tuple(fc.nat(reply.length - 1), fc.nat(255)), { maxLength: 6 });
  const cut = fc.nat(reply.length);
  const damaged = fc.tuple(changes, cut).map(([edits, length]) => {
    const bytes = Buffer.from(reply);
    for (const [at, value] of edits) if (at > 1) bytes[at] = value;
    return bytes.subarray(0, Math.max(2, length));
  });
  fc.assert(fc.property(damaged, read), { numRuns: 5_000 });
});

test('compression pointers are followed for a bounded number of steps', () => {
  const asked = encode({ type: 'response', id: 7, questions: [question], answers: [] });
  /** Builds a chain of pointers, each to the previous one, and a record whose name is the last pointer. */
  const chained = (pointers: number) => {
    const chain = Buffer.alloc(2 * pointers);
    const start = asked.length + 11;
    for (let index = 0; index < pointers; index += 1) {
      chain.writeUInt16BE(0xc000 + (index === 0 ? 12 : start + 2 * (index - 1)), 2 * index);
    }
    const last = chain.subarray(-2).readUInt16BE(0) + 2;
    const record = (name: number[], type: number, data: Buffer) =>
      Buffer.concat([Buffer.from([...name, 0, type, 0, 1, 0, 0, 0, 60, 0, data.length]), data]);
    // A NULL record can contain any bytes.
    const leaseId = record([0], 10, chain);
    leaseId.writeUInt16BE(chain.length, 9);
    const a = record([last >> 8, last & 255], 1, Buffer.from([192, 0, 2, 1]));
    const bytes = Buffer.concat([asked, leaseId, a]);
    bytes.writeUInt16BE(2, 6);
    return readResponse(bytes, question, 7);
  };
  const short = chained(10);
  assert.equal(short.kind, 'response');
  const answers = short.kind === 'response' ? short.records : [];
  const chain = followCnames(answers, question, { read: readAddress, maxHops: 8 });
  assert.deepEqual(chain.records, ['192.0.2.1']);
  assert.equal(chained(5_000).kind, 'unusable');
});

test('a resolver that is sent garbage over the network answers with an error', async () => {
  const packets = fc.sample(fc.uint8Array({ minLength: 1, maxLength: 300 }), 50);
  const server = createSocket('udp4');
  let sent = 0;
  server.on('message', (query, from) => {
    const noise = packets[sent++ % packets.length] ?? new Uint8Array();
    server.send(noise, from.port, from.address);
    server.send(Buffer.concat([query.subarray(0, 2), noise]), from.port, from.address);
  });
  await new Promise<void>((resolve) => server.bind(0, '127.0.0.1', resolve));
  const world = { monotonicMs: () => performance.now() };
  const resolver = createResolver({
    servers: [`127.0.0.1:${server.address().port}`],
    world,
    queryTimeoutMs: 50,
  });
  const names = packets.map((_, at) => `n${at}.test`);
  const answers = await Promise.all(names.map((name) => resolver.txt(name)));
  assert.ok(answers.every((answer) => answer.kind === 'error'));
  resolver.close();
  await new Promise<void>((resolve) => server.close(resolve));
});

test('ids and ports of questions differ from one to the next', async () => {
  const server = createSocket('udp4');
  const seen: { id: number; port: number }[] = [];
  server.on('message', (query, { port }) => seen.push({ id: query.readUInt16BE(0), port }));
  await new Promise<void>((resolve) => server.bind(0, '127.0.0.1', resolve));
  const resolver = createResolver({
    servers: [`127.0.0.1:${server.address().port}`],
    world: { monotonicMs: () => performance.now() },
    queryTimeoutMs: 200,
  });
  await Promise.all(Array.from({ length: 30 }, (_, at) => resolver.a(`n${at}.test`)));
  const ids = new Set(seen.map(({ id }) => id));
  const ports = new Set(seen.map(({ port }) => port));
  assert.ok(ids.size > 25 && ports.size > 25, `${ids.size} ids, ${ports.size} ports`);
  resolver.close();
  await new Promise<void>((resolve) => server.close(resolve));
});

test('a query asks for recursion and offers EDNS with a size that avoids fragmentation', () => {
  const bytes = encodeQuestion(question, 0x1234, true);
  assert.equal(bytes.readUInt16BE(0), 0x1234);
  assert.equal(bytes.readUInt16BE(2) & 0x0100, 0x0100);
  assert.equal(bytes.readUInt16BE(bytes.length - 8), 1232);
});

test('a full cache evicts the least recently used names', () => {
  const limits = { minTtlMs: 0, maxTtlMs: 1e9, negativeTtlMs: 1e9, staleMs: 0, maxBytes: 50_000 };
  const cache = createDnsCache<string>(limits, () => 0);
  const answer = { kind: 'records', records: ['x'.repeat(500)], authenticated: false } as const;
  cache.store('ours.test', answer, 3_600);
  for (let at = 0; at < 1_000; at++) {
    cache.store(`n${at}.test`, answer, 3_600);
    assert.ok(cache.getFresh('ours.test'), 'what is in use stays');
  }
  assert.ok(cache.sizeBytes <= 50_000);
  assert.equal(cache.getFresh('n0.test'), null);
  assert.ok(cache.getFresh('n999.test'));
  cache.store('n999.test', { kind: 'nxdomain' }, 0);
  assert.deepEqual(cache.getFresh('n999.test'), { kind: 'nxdomain' });
});

test('a TLSA record is read unchanged, even if empty', async () => {
  const read = (data: typeof tlsa) => {
    const answers = [{ type: 'TLSA', name: 'acme.test', ttl: 60, data } as const];
    const asked = { ...question, type: 'TLSA' } as const;
    const bytes = encode({ type: 'response', id: 7, questions: [asked], answers });
    const reading = readResponse(bytes, asked, 7);
    assert.equal(reading.kind, 'response');
    const found = reading.kind === 'response' ? reading.records : [];
    return followCnames(found, asked, { read: readTlsa, maxHops: 8 }).records;
  };
  const dataHex = '07'.repeat(32);
  assert.deepEqual(read(tlsa), [{ usage: 3, selector: 1, matching: 1, dataHex }]);
  const empty = read({ ...tlsa, usage: 255, certificate: Buffer.alloc(0) });
  assert.deepEqual(empty, [{ usage: 255, selector: 1, matching: 1, dataHex: '' }]);
});
