/** The routes that read emails on a real database without a whole service. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { stubHttp } from '../../test/support/http.ts';
import {
  SETTLING,
  newEmail,
  newSender,
  type Sender,
  settlement,
} from '../../test/support/mail-store.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import type { Permission } from '../core/scope.ts';
import { AcceptStore } from '../accept/store/accept-store.ts';
import { newId } from '../database/ids.ts';
import { createKey } from '../accounts/keys/key-store.ts';
import { SettleStore } from '../settle/settle-store.ts';

const database = await testDatabase();
const { db } = database;
const contentOf = async () => Buffer.from('From: a@acme.com\r\n\r\nHello\r\n');
const http = await stubHttp({ services: { db, contentOf } });
after(async () => {
  await http[Symbol.asyncDispose]();
  await database[Symbol.asyncDispose]();
});

const leaseId = newId();
const limit = { max: 1_000, windowS: 60 };
const accepting = new AcceptStore(db.accepting, {
  limit,
  leaseId: () => leaseId,
  onWebhooksQueued: () => {},
  onUnknown: () => {},
});
const settling = new SettleStore(db.settling, { ...SETTLING, leaseId: () => leaseId });

async function accepted(sender: Sender, changes: Parameters<typeof newEmail>[1] = {}) {
  const email = newEmail(sender, changes);
  assert.equal((await accepting.accept(email)).outcome, 'accepted');
  return email;
}

type Json = Record<string, unknown>;

async function readerOf(sender: Sender, permission: Permission = 'full_access') {
  const rights = { name: 'reader', permission, domain: null, expiresAt: null };
  const { key, text } = await createKey(db, sender, rights);
  const get = (path: string) =>
    fetch(http.url + path, { headers: { authorization: `Bearer ${text}` } });
  const json = async (path: string): Promise<Json & { status: number }> => {
    const response = await get(path);
    return { ...((await response.json()) as Json), status: response.status };
  };
  return { keyId: key.id, get, json };
}

test('an email is returned with all documented fields', async () => {
  const sender = await newSender(db);
  const email = await accepted(sender);
  await settling.settle(settlement(email));
  const { json } = await readerOf(sender);
  const { recipients, created_at, sent_at, completed_at, status, etag, ...rest } = await json(
    `/v1/emails/${email.id}`,
  );
  assert.equal(status, 200);
  assert.match(String(etag), /^"[\w-]{22}"$/);
  assert.deepEqual(rest, {
    object: 'email',
    id: email.id,
    message_id: `<${email.id}@acme.com>`,
    from: 'Acme <hello@acme.com>',
    to: ['jo@example.net'],
    cc: [],
    bcc: [],
    reply_to: [],
    subject: 'Hello',
    html: '<p>Hello</p>',
    text: null,
    tracking: { opens: false, clicks: false },
    last_event: 'email.delivered',
    scheduled_at: null,
    tags: [],
    metadata: {},
    environment: 'live',
  });
  const isTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/;
  for (const time of [created_at, sent_at, completed_at]) assert.match(String(time), isTime);
  const [recipient] = recipients as Json[];
  assert.equal(recipient?.['status'], 'delivered');
});

test('a list is newest first, without content, and has has_more', async () => {
  const sender = await newSender(db);
  const older = await accepted(sender);
  const newer = await accepted(sender);
  const { json } = await readerOf(sender);
  const { data, ...rest } = await json('/v1/emails?limit=1');
  assert.deepEqual(rest, { object: 'list', has_more: true, scanned_until: null, status: 200 });
  const [first] = data as Json[];
  assert.equal(first?.['id'], newer.id);
  assert.equal(first['status'], 'sending');
  assert.ok(!('html' in first) && !('recipients' in first));
  const next = await json(`/v1/emails?limit=1&after=${newer.id}`);
  assert.equal((next['data'] as Json[])[0]?.['id'], older.id);
  assert.equal(next['has_more'], false);
});

test('filters reach the database unchanged, and no value breaks a query', async () => {
  const sender = await newSender(db);
  const email = await accepted(sender, { subject: "50% o'clock", to: ['Jo@example.net'] });
  const { json } = await readerOf(sender);
  const found: [Record<string, string>, boolean][] = [
    [{ to: 'JO@EXAMPLE.NET' }, true],
    [{ to: 'Jo <jo@example.net>' }, true],
    [{ from: 'Hello@ACME.com' }, true],
    [{ domain: 'ACME.com' }, true],
    [{ subject: "% O'CLOCK" }, true],
    [{ subject: '%%' }, false],
    [{ subject: "'; drop table emails --" }, false],
    [{ tag: 'kind' }, false],
    [{ status: 'sending' }, true],
    [{ status: 'complained' }, false],
    [{ created_after: '0000-01-01T00:00:00Z' }, true],
    [{ created_before: '0000-01-01T00:00:00Z' }, false],
    [{ created_after: '9999-12-31T23:59:59-23:59' }, false],
    [{ created_before: '9999-12-31T23:59:59-23:59' }, true],
    [{ created_after: '2020-01-01T00:00:00+02:00' }, true],
    [{ created_after: '2020-01-01T00:00:00Z', created_before: '2020-01-02T00:00:00Z' }, false],
  ];
  for (const [query, expected] of found) {
    const { status, data } = await json(`/v1/emails?${new URLSearchParams(query).toString()}`);
    const what = JSON.stringify(query);
    assert.equal(status, 200, what);
    const ids = (data as Json[]).map((one) => one['id']);
    assert.deepEqual(ids, expected ? [email.id] : [], what);
  }
  const nul = await json('/v1/emails?subject=%00');
  assert.equal(nul.status, 422);
  assert.equal((await json('/v1/emails?limit=many')).status, 422);
});

test('a sending key reads only emails that it sent', async () => {
  const sender = await newSender(db);
  const { keyId, json, get } = await readerOf(sender, 'sending_access');
  const own = await accepted({ ...sender, keyId });
  const other = await accepted(sender);
  const { data } = await json('/v1/emails');
  assert.deepEqual(
    (data as Json[]).map((one) => one['id']),
    [own.id],
  );
  for (const part of ['', '/events', '/content']) {
    assert.equal((await get(`/v1/emails/${own.id}${part}`)).status, 200, part);
    assert.equal((await get(`/v1/emails/${other.id}${part}`)).status, 404, part);
  }
});

test('an email of another project gets the same 404 as an unknown one', async () => {
  const email = await accepted(await newSender(db));
  const { json } = await readerOf(await newSender(db));
  for (const part of ['', '/events', '/content']) {
    const responses = await Promise.all(
      [email.id, newId()].map((id) => json(`/v1/emails/${id}${part}`)),
    );
    const [foreign, unknown] = responses.map(({ error, status }) => ({
      status,
      message: (error as Json)['message'],
    }));
    assert.equal(foreign?.status, 404);
    assert.deepEqual(foreign, unknown);
  }
});

test('the timeline is numbered, with the conversation of each attempt', async () => {
  const sender = await newSender(db);
  const email = await accepted(sender);
  await settling.settle(settlement(email, { attempt: { transcript: ['S: 250 ok'] } }));
  const { json } = await readerOf(sender);
  const { data, has_more } = await json(`/v1/emails/${email.id}/events`);
  const [queued, delivered] = data as Json[];
  assert.equal(has_more, false);
  assert.equal(queued?.['number'], 1);
  assert.equal(queued['type'], 'email.queued');
  assert.equal(delivered?.['recipient'], 'jo@example.net');
  assert.deepEqual(delivered['attempt'], { transcript: ['S: 250 ok'] });
  const page = await json(`/v1/emails/${email.id}/events?limit=1`);
  assert.equal(page['has_more'], true);
  const rest = await json(`/v1/emails/${email.id}/events?after=1`);
  assert.deepEqual(rest['data'], [delivered]);
});

test('the content is the bytes of the message, with headers that keep browsers from rendering it', async () => {
  const sender = await newSender(db);
  const email = await accepted(sender);
  const { get } = await readerOf(sender);
  const response = await get(`/v1/emails/${email.id}/content`);
  assert.equal(response.headers.get('content-type'), 'message/rfc822');
  assert.equal(response.headers.get('x-content-type-options'), 'nosniff');
  assert.match(response.headers.get('content-disposition') ?? '', /^attachment/);
  assert.equal(await response.text(), 'From: a@acme.com\r\n\r\nHello\r\n');
});
