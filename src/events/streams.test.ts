/** Event streams with clients that do not read, database outages, and heartbeats. */
import assert from 'node:assert/strict';
import { connect } from 'node:net';
import { after, test } from 'node:test';
import { pino } from 'pino';
import { openEventStream } from '../../test/support/event-stream.ts';
import { stubHttp } from '../../test/support/http.ts';
import { newSender, type Sender } from '../../test/support/mail-store.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { waitFor } from '../../test/support/wait.ts';
import { hashApiKey } from '../accounts/keys/api-key.ts';
import { BEGINNING } from './stream-store.ts';
import { recordEvent } from './event-store.ts';
import { createKey, findCallers } from '../accounts/keys/key-store.ts';
import { type Database, DatabaseUnavailable } from '../database/database.ts';
import { EventStreams, type StreamRequest } from './streams.ts';

const database = await testDatabase();
const { db } = database;
after(() => database[Symbol.asyncDispose]());

const keyOf = async (scope: Sender): Promise<string> => {
  const rights = { permission: 'full_access', domain: null, expiresAt: null } as const;
  return (await createKey(db, scope, { name: 'stream', ...rights })).text;
};

const FILL = `
insert into events (project_id, environment, subject_id, seq, id, type, created_at, data)
select $1, 'live', $2, number, gen_random_uuid(), 'domain.created', now(),
       json_build_object('name', repeat('x', 50000))
  from generate_series(1, 1000) number`;

/** Calls `onPage` at each page that is read. */
function watched(onPage: () => void): Database {
  const query: Database['query'] = (statement, values) => {
    if (typeof statement !== 'string' && statement.name === 'stream') onPage();
    return db.query(statement, values);
  };
  return new Proxy(db, {
    get: (target, name) => (name === 'query' ? query : Reflect.get(target, name)),
  });
}

test('the stream of a client that does not read is ended, and its events are not queried meanwhile', async () => {
  const scope = await newSender(db);
  // 50 MB in 10 pages exceed the buffers of a socket.
  await db.query(FILL, [scope.projectId, scope.domainId]);
  let pages = 0;
  await using http = await stubHttp({
    services: { db: watched(() => (pages += 1)) },
    connections: { readMs: 300, checkEveryMs: 50 },
  });
  const key = await keyOf(scope);
  let isClosed = false;
  const deaf = connect({ port: http.port, host: '127.0.0.1' });
  deaf.on('error', () => {}).once('close', () => (isClosed = true));
  deaf.pause();
  deaf.write(
    'GET /v1/events HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n' +
      `Authorization: Bearer ${key}\r\n\r\n`,
  );
  await waitFor(() => http.log.some(({ msg }) => String(msg).includes('read too slowly')), {
    what: 'the connection to be closed',
    timeoutMs: 70_000,
  });
  assert.ok(pages >= 1 && pages < 9, `${pages} of 10 pages were read`);
  deaf.destroy();
  await waitFor(() => isClosed, { what: 'the socket to close' });

  await using patient = await stubHttp({ services: { db } });
  await using reader = await openEventStream(patient.url, { key });
  await reader.waitForCount(200);
});

async function requestOf(scope: Sender): Promise<StreamRequest> {
  const keyText = await keyOf(scope);
  const hash = hashApiKey(keyText);
  const caller = (await findCallers(db, [hash])).get(hash)!;
  return {
    caller,
    callerAgain: () => Promise.resolve(caller),
    filter: { types: null, emailId: null, domain: null },
    after: BEGINNING,
  };
}

const LOG = pino({ level: 'silent' });
const QUICK = { pollEveryMs: 10, checkKeysEveryMs: 10, heartbeatMs: 50 };

async function textUntil(text: AsyncGenerator<string>, isEnd: (all: string) => boolean) {
  let all = '';
  while (!isEnd(all)) {
    const { value, done } = await text.next();
    if (done) break;
    all += value;
  }
  return all;
}

test('an idle stream has heartbeats, which move its cursor past filtered events', async () => {
  const scope = await newSender(db);
  const request = await requestOf(scope);
  const streams = new EventStreams({
    db,
    log: LOG,
    retentionH: null,
    limits: QUICK,
  });
  const filter = { ...request.filter, types: ['domain.failed'] as const };
  const opened = await streams.open({ ...request, filter });
  assert.ok(typeof opened !== 'string');
  const idsIn = (all: string) =>
    [...all.matchAll(/^: heartbeat\nid: (\S+)\n\n/gm)].map(([, id]) => id);
  const first = await textUntil(opened.text, (all) => idsIn(all).length === 1);
  assert.match(first, /^retry: \d+\n\n/);
  await recordEvent(db, { scope, type: 'domain.created', data: { name: 'a.test' } });
  const before = idsIn(first)[0];
  // A cursor also contains the time, so only its position is compared.
  const placeOf = (id = '') => Buffer.from(id, 'base64url').subarray(15, 45).toString('hex');
  await textUntil(opened.text, (all) => idsIn(all).some((id) => placeOf(id) !== placeOf(before)));
  streams.close();
  assert.match(await textUntil(opened.text, () => false), /: the service is stopping\n\n$/);
});

test('a stream survives a database outage and misses no event', async () => {
  const scope = await newSender(db);
  const request = await requestOf(scope);
  let isAway = false;
  let failures = 0;
  const away = watched(() => {
    if (!isAway) return;
    failures += 1;
    throw new DatabaseUnavailable('no database');
  });
  const streams = new EventStreams({
    db: away,
    log: LOG,
    retentionH: null,
    limits: QUICK,
  });
  const opened = await streams.open(request);
  assert.ok(typeof opened !== 'string');
  const reading = textUntil(opened.text, (all) => all.includes('b.test'));
  await recordEvent(db, { scope, type: 'domain.created', data: { name: 'a.test' } });
  isAway = true;
  await recordEvent(db, { scope, type: 'domain.created', data: { name: 'b.test' } });
  await waitFor(() => failures > 0, { what: 'a page that cannot be read' });
  isAway = false;
  const all = await reading;
  assert.equal(all.split('a.test').length, 2);
  streams.close();
  await textUntil(opened.text, () => false);
});

test('the streams of one project, with however many keys, leave capacity for others', async () => {
  const [one, other] = [await requestOf(await newSender(db)), await requestOf(await newSender(db))];
  const streams = new EventStreams({
    db,
    log: LOG,
    retentionH: null,
    limits: { ...QUICK, streamsOfProject: 2 },
  });
  const withKey = (keyId: string) => ({ ...one, caller: { ...one.caller, keyId } });
  for (const key of ['first', 'second']) await streams.open(withKey(key));
  await assert.rejects(streams.open(withKey('third')), /2 event streams of this project are open/);
  assert.ok(typeof (await streams.open(other)) !== 'string');
  streams.close();
});

test('every project may open a few streams while others use all shared ones', async () => {
  const streams = new EventStreams({
    db,
    log: LOG,
    retentionH: null,
    limits: { ...QUICK, streams: 2, streamsOfProject: 3, streamsAlways: 1 },
  });
  const [large, other] = [
    await requestOf(await newSender(db)),
    await requestOf(await newSender(db)),
  ];
  for (let open = 0; open < 3; open += 1) await streams.open(large);
  assert.ok(typeof (await streams.open(other)) !== 'string');
  await assert.rejects(streams.open(other), /4 event streams are open/);
  streams.close();
});

test('a poll waits for one page of a project that reads many pages, not for all of them', async () => {
  const [large, small] = [
    await requestOf(await newSender(db)),
    await requestOf(await newSender(db)),
  ];
  const gates: (() => void)[] = [];
  const order: string[] = [];
  const query: Database['query'] = async (statement, values) => {
    if (typeof statement !== 'string' && statement.name === 'stream') {
      order.push(String(values?.[0]) === small.caller.projectId ? 'small' : 'large');
      await new Promise<void>((resolve) => gates.push(resolve));
    }
    return db.query(statement, values);
  };
  const slow = new Proxy(db, {
    get: (target, name) => (name === 'query' ? query : Reflect.get(target, name)),
  });
  const streams = new EventStreams({ db: slow, log: LOG, retentionH: null });
  const polls = Array.from({ length: 20 }, () => streams.page(large, 100));
  polls.push(streams.page(small, 100));
  await waitFor(() => gates.length === 2, { what: 'the first pages' });
  gates.shift()!();
  await waitFor(() => order.length === 3, { what: 'the next page' });
  assert.deepEqual(order, ['large', 'large', 'small']);
  const drain = setInterval(() => gates.splice(0).forEach((open) => open()), 1);
  await Promise.all(polls);
  clearInterval(drain);
});
