/** Reading: one email, its timeline and its bytes, and lists with filters and cursors. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import PostalMime from 'postal-mime';
import { assertFailure, EMAIL, TIME, UNKNOWN_ID, UUID_V7 } from '../support/api.ts';
import { type ApiResponse, startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const service = await startService({ env: { LETTERHAUS_LIMIT_SENDING: '10000/60' } });
after(() => service[Symbol.asyncDispose]());

const get = (path: string) => service.request('GET', path);

async function list(query: string): Promise<ApiResponse['body']> {
  const { status, body, text } = await get(`/v1/emails?${query}`);
  assert.equal(status, 200, text);
  assert.equal(body.object, 'list');
  return body;
}

const ids = ({ data }: ApiResponse['body']): string[] => data.map(({ id }: { id: string }) => id);

/** The ids of a list that is known to be short. */
async function found(query: string): Promise<string[]> {
  const body = await list(query);
  assert.deepEqual([body.has_more, body.scanned_until], [false, null]);
  return ids(body);
}

/** Sends one after the other, so that their order is known; oldest first. */
async function sendAll(drafts: object[]): Promise<string[]> {
  const sent: string[] = [];
  for (const draft of drafts) sent.push(await service.send(draft));
  return sent;
}

async function timeline(id: string, query = ''): Promise<ApiResponse['body']> {
  const { status, body, text } = await get(`/v1/emails/${id}/events${query}`);
  assert.equal(status, 200, text);
  return body;
}

test('a list has the emails of the project, newest first, without their content', async () => {
  const sent = await sendAll([{ subject: 'One' }, { subject: 'Two' }, { subject: 'Three' }]);
  const body = await list('limit=3');
  assert.deepEqual(ids(body), sent.toReversed());
  const whole = await service.email(sent[2]!);
  const { html, text, tracking: _, recipients, etag: _tag, ...summary } = whole;
  assert.ok(html && text === null && recipients.length === 1);
  const statusless = ({
    status,
    last_event,
    sent_at,
    completed_at,
    ...rest
  }: ApiResponse['body']) =>
    [rest, typeof status, typeof last_event, typeof sent_at, typeof completed_at].slice(0, 3);
  assert.deepEqual(statusless(body.data[0]), statusless(summary));
});

test('a list has 20 emails by default, and 1 to 100 with limit', async () => {
  await Promise.all(Array.from({ length: 101 }, () => service.send()));
  assert.equal((await list('')).data.length, 20);
  assert.equal((await list('limit=1')).data.length, 1);
  const most = await list('limit=100');
  assert.deepEqual([most.data.length, most.has_more], [100, true]);
  for (const limit of ['0', '101', '-1', 'ten', '1.5', '']) {
    assertFailure(await get(`/v1/emails?limit=${limit}`), 422, 'validation_error', /^limit: /);
  }
});

test('after and before page through all emails once, in both directions', async () => {
  const tag = { name: 'walk', value: 'w' };
  const sent = await sendAll(Array.from({ length: 7 }, () => ({ tags: [tag] })));
  const newestFirst = sent.toReversed();
  const pages: string[][] = [];
  let page = await list('tag=walk&limit=3');
  for (;;) {
    pages.push(ids(page));
    if (!page.has_more) break;
    page = await list(`tag=walk&limit=3&after=${pages.at(-1)!.at(-1)}`);
  }
  assert.deepEqual(
    pages.map((one) => one.length),
    [3, 3, 1],
  );
  assert.deepEqual(pages.flat(), newestFirst);
  const back = await list(`tag=walk&limit=3&before=${newestFirst[6]}`);
  assert.deepEqual([ids(back), back.has_more], [newestFirst.slice(3, 6), true]);
  const first = await list(`tag=walk&limit=3&before=${newestFirst[3]}`);
  assert.deepEqual([ids(first), first.has_more], [newestFirst.slice(0, 3), false]);
  assert.deepEqual(ids(await list(`tag=walk&after=${newestFirst[6]}`)), []);
  assert.deepEqual(ids(await list(`tag=walk&before=${newestFirst[0]}`)), []);
});

test('a page does not change while new emails arrive', async () => {
  const tags = [{ name: 'moving', value: 'm' }];
  const sent = await sendAll([{ tags }, { tags }, { tags }, { tags }]);
  const first = await list('tag=moving&limit=2');
  await service.send({ tags });
  const second = await list(`tag=moving&limit=2&after=${ids(first)[1]}`);
  assert.deepEqual([...ids(first), ...ids(second)], sent.toReversed());
  assert.equal(second.has_more, false);
});

test('invalid cursors and filters are refused by name', async () => {
  for (const [query, message] of [
    ['after=x', /^after: /],
    ['before=1', /^before: /],
    [`after=${UNKNOWN_ID}&before=${UNKNOWN_ID}`, /^before: .*after/],
    ['status=gone', /^status: .*delivered/],
    ['to=bob', /^to: /],
    ['from=bob@', /^from: /],
    ['subject=', /^subject: /],
    ['tag=a%20b', /^tag: /],
    ['domain=a%20b', /^domain: /],
    ['created_after=yesterday', /^created_after: /],
    ['created_before=2026-13-01T00:00:00Z', /^created_before: /],
    ['stauts=sent', /^stauts: /],
    ['limit=1&limit=2', /^limit: /],
  ] as const) {
    assertFailure(await get(`/v1/emails?${query}`), 422, 'validation_error', message);
  }
});

test('emails are found by recipient in any role, in any case', async () => {
  const [to, cc, bcc] = await sendAll([
    { to: 'Find Me <Find.Me@Simulator.test>' },
    { cc: ['a@simulator.test', 'find.me@simulator.test'] },
    { bcc: 'find.me@simulator.test' },
  ]);
  await service.send({ to: 'find.me.not@simulator.test', reply_to: 'find.me@simulator.test' });
  assert.deepEqual(await found('to=find.me@simulator.test'), [bcc, cc, to]);
  assert.deepEqual(await found('to=FIND.ME@SIMULATOR.TEST'), [bcc, cc, to]);
  assert.deepEqual(await found('to=find@simulator.test'), []);
});

test('the command line finds the same emails, also in other scripts', async () => {
  const id = await service.send({ to: 'JÖRG@bücher.test' });
  const { data } = await service.cliJson('emails', 'list', '--to', 'JÖRG@Bücher.test');
  assert.deepEqual(ids({ data }), [id]);
  assert.deepEqual(await found(`to=${encodeURIComponent('JÖRG@bücher.test')}`), [id]);
  assert.equal((await service.cli('emails', 'list', '--to', 'nobody')).code, 2);
});

test('emails are found by sender and by sending domain', async () => {
  const { body: domain } = await service.request('POST', '/v1/domains', {
    body: { name: 'senders.test' },
  });
  await service.request('POST', `/v1/domains/${domain.id}/verify`);
  const [one, two] = await sendAll([
    { from: 'One <One@senders.test>' },
    { from: 'two@senders.test' },
  ]);
  assert.deepEqual(await found('from=one@senders.test'), [one]);
  assert.deepEqual(await found('domain=senders.test'), [two, one]);
  assert.deepEqual(await found('domain=SENDERS.test&from=two@senders.test'), [two]);
  assert.deepEqual(await found('domain=enders.test'), []);
});

test('emails are found by a literal part of the subject, ignoring case', async () => {
  const [percent, umlaut] = await sendAll([
    { subject: 'Save 50%_off \\ today' },
    { subject: 'Überraschung!' },
  ]);
  assert.deepEqual(await found('subject=50%25_OFF%20%5C'), [percent]);
  assert.deepEqual(await found(`subject=${encodeURIComponent('ÜbeRRasch')}`), [umlaut]);
  assert.deepEqual(await found('subject=50%25off'), []);
});

test('emails are found by the name of a tag, or by name and value', async () => {
  const [a, b] = await sendAll([
    {
      tags: [
        { name: 'plan', value: 'pro' },
        { name: 'x', value: 'y' },
      ],
    },
    { tags: [{ name: 'plan', value: 'free' }] },
  ]);
  assert.deepEqual(await found('tag=plan'), [b, a]);
  assert.deepEqual(await found('tag=plan:pro'), [a]);
  assert.deepEqual(await found('tag=plan:y'), []);
  assert.deepEqual(await found('tag=pro'), []);
});

test('emails are found by time: created_after includes, created_before excludes', async () => {
  const tags = [{ name: 'time', value: 't' }];
  const sent: string[] = [];
  for (let hour = 0; hour < 3; hour += 1) {
    await service.clock.advance({ hours: 1 });
    sent.push(await service.send({ tags }));
  }
  const [, second] = await Promise.all(sent.map((id) => service.email(id)));
  const at = second.created_at;
  assert.deepEqual(await found(`tag=time&created_after=${at}`), [sent[2], sent[1]]);
  assert.deepEqual(await found(`tag=time&created_before=${at}`), [sent[0]]);
  assert.deepEqual(await found(`tag=time&created_after=${at}&created_before=${at}`), []);
  const zoned = encodeURIComponent(
    `${new Date(Date.parse(at) + 7_200_000).toISOString().slice(0, -1)}+02:00`,
  );
  assert.deepEqual(await found(`tag=time&created_before=${zoned}`), [sent[0]]);
});

test('emails are found by status, alone and together with other filters', async () => {
  const tags = [{ name: 'status', value: 's' }];
  const byStatus = {
    delivered: await service.send({ tags }),
    bounced: await service.send({ tags, to: 'bounced+list@simulator.test' }),
    deferred: await service.send({ tags, to: 'full+list@simulator.test' }),
    suppressed: await service.send({ tags, to: 'suppressed+list@simulator.test' }),
    complained: await service.send({ tags, to: 'complained+list@simulator.test' }),
  };
  for (const [status, id] of Object.entries(byStatus)) await service.waitForStatus(id, status);
  // The next attempt comes after seconds, and the email would be `sending` then.
  const putOff = `update queue set due_at = app_now() + interval '1 hour'
                   where email_id = $1 and holder is null returning 1`;
  await waitFor(async () => (await service.sql(putOff, [byStatus.deferred])).length > 0, {
    what: 'the next attempt to be put off',
  });
  for (const [status, id] of Object.entries(byStatus)) {
    assert.deepEqual(await found(`status=${status}&tag=status`), [id]);
  }
  for (const status of ['scheduled', 'queued', 'sending', 'sent', 'failed', 'canceled']) {
    assert.deepEqual(await found(`status=${status}&tag=status`), []);
  }
  const query = `tag=status&status=bounced&to=bounced%2Blist@simulator.test&domain=acme.test`;
  assert.deepEqual(await found(query), [byStatus.bounced]);
});

test('a search in one text combines the filters', async () => {
  const tags = [{ name: 'search', value: 's' }];
  const to = 'jo+search@simulator.test';
  const [receipt, order, other] = await sendAll([
    { tags, to, subject: 'Your Receipt 100%' },
    { tags, to, subject: 'Your order: 4711' },
    { tags, subject: 'Your receipt' },
  ]);
  const search = (q: string) => found(`q=${encodeURIComponent(`tag:search ${q}`)}`);
  assert.deepEqual(await search(''), [other, order, receipt]);
  assert.deepEqual(await search('receipt'), [other, receipt]);
  assert.deepEqual(await search('receipt your'), [other, receipt]);
  assert.deepEqual(await search('"receipt your"'), []);
  assert.deepEqual(await search('100%'), [receipt]);
  assert.deepEqual(await search('_'), []);
  assert.deepEqual(await search('"order: 4711"'), [order]);
  assert.deepEqual(await search(`to:${to} receipt`), [receipt]);
  assert.deepEqual(await search('from:nobody@acme.test'), []);
  assert.deepEqual(await search('domain:acme.test before:2020-01-01'), []);
  assert.deepEqual(await search('after:2020-01-01 order'), [order]);
  await service.waitForStatus(other!, 'delivered');
  assert.deepEqual(await search('status:bounced'), []);
  assert.deepEqual(await found(`q=tag:search&to=${encodeURIComponent(to)}`), [order, receipt]);
  const { data } = await service.cliJson('emails', 'list', '--query', `to:${to} order`);
  assert.deepEqual(ids({ data }), [order]);
});

test('a search that cannot be read is refused, and the unknown operator named', async () => {
  for (const [query, message] of [
    [
      'q=too:a',
      /^q: too: is not an operator; use to:, from:, subject:, status:, domain:, tag:, template:, key:, provider:, reason:, reply:, server:, id:, after:/,
    ],
    ['q=status:bounced&status=bounced', /^q: has status:, which another parameter gives as well/],
    ['q=a%00', /^q: contains a NUL/],
    [`q=${'a'.repeat(1001)}`, /^q: /],
  ] as const) {
    assertFailure(await get(`/v1/emails?${query}`), 422, 'validation_error', message);
  }
  const limited = await service.request('POST', '/v1/api-keys', {
    body: { name: 'x', permission: 'sending_access', domain: 'acme.test' },
  });
  const { key } = limited.body;
  const foreign = await service.request('GET', '/v1/emails?q=domain:other.test', { key });
  assertFailure(foreign, 403, 'authorization_error');
  const wrong = await service.cli('emails', 'list', '--query', 'too:a');
  assert.equal(wrong.code, 2);
  assert.match(wrong.stderr, /too: is not an operator/);
  const twice = await service.cli('emails', 'list', '--query', 'status:sent', '--status', 'sent');
  assert.equal(twice.code, 2);
  assert.match(twice.stderr, /has status:, which another parameter gives as well/);
});

test('a filter reads 50,000 emails per call and returns where it stopped', async () => {
  const last = await service.send({ subject: 'A needle' });
  // Not sent one by one: rows that differ from a sent email in their ids, younger by a little.
  const copies = `
    insert into emails select (jsonb_populate_record(emails, jsonb_build_object(
             'id', overlay(emails.id::text placing '7fff-bfff-' || lpad(to_hex(number), 12, '0') from 15),
             'subject', 'Hay'))).*
      from emails, generate_series(1, 50000) number where id = $1`;
  await service.sql(copies, [last]);
  const first = await list('subject=needle');
  assert.deepEqual([first.data, first.has_more], [[], true]);
  assert.match(first.scanned_until, UUID_V7);
  const second = await list(`subject=needle&limit=1&after=${first.scanned_until}`);
  assert.deepEqual(ids(second), [last]);
  const unfiltered = await list('limit=100');
  assert.deepEqual([unfiltered.has_more, unfiltered.scanned_until], [true, null]);
  await service.sql(`delete from emails where subject = 'Hay'`);
});

test('the timeline of an email is numbered, oldest first, with the data of webhooks', async () => {
  const to = ['delivered@simulator.test', 'bounced+timeline@simulator.test'];
  const tags = [{ name: 'kind', value: 'welcome' }];
  const id = await service.send({ to, tags, metadata: { user: '7' } });
  const email = await service.waitForStatus(id, 'bounced');
  const { object, data, has_more } = await timeline(id);
  assert.deepEqual([object, has_more], ['list', false]);
  assert.deepEqual(
    data.map(({ number }: { number: number }) => number),
    [1, 2, 3],
  );
  const [queued, ...ended] = data;
  assert.deepEqual([queued.type, queued.recipient, queued.attempt], ['email.queued', null, null]);
  assert.deepEqual(
    ended.map((event: ApiResponse['body']) => [event.type, event.recipient]).toSorted(),
    [
      ['email.bounced', to[1]],
      ['email.delivered', to[0]],
    ],
  );
  for (const event of data) {
    const {
      number,
      id: eventId,
      created_at,
      type,
      recipient,
      attempt,
      data: about,
      ...rest
    } = event;
    assert.deepEqual(rest, { object: 'event' });
    assert.match(eventId, UUID_V7);
    assert.match(created_at, TIME);
    assert.deepEqual(
      [about.email_id, about.from, about.to, about.subject, about.tags, about.metadata],
      [id, email.from, to, email.subject, tags, { user: '7' }],
    );
    assert.equal(about.message_id, email.message_id);
    assert.equal(about.recipient ?? null, recipient);
    assert.equal(about.status, type.replace('email.', ''));
    assert.ok(number === 1 ? attempt === null : typeof attempt === 'object');
  }
  const bounced = ended.find(({ type }: { type: string }) => type === 'email.bounced').data;
  assert.equal(bounced.smtp.code, 550);
  assert.deepEqual(Object.keys(bounced.reason).toSorted(), ['advice', 'blame', 'category']);
});

test('the timeline can be read from a given event', async () => {
  const to = Array.from({ length: 5 }, (_, n) => `delivered+${n}@simulator.test`);
  const id = await service.send({ to });
  await service.waitForStatus(id, 'delivered');
  const numbers = ({ data }: ApiResponse['body']) =>
    data.map(({ number }: { number: number }) => number);
  const first = await timeline(id, '?limit=4');
  assert.deepEqual([numbers(first), first.has_more], [[1, 2, 3, 4], true]);
  const rest = await timeline(id, '?limit=4&after=4');
  assert.deepEqual([numbers(rest), rest.has_more], [[5, 6], false]);
  for (const query of ['limit=0', 'after=x', 'after=-1', 'before=3']) {
    const response = await get(`/v1/emails/${id}/events?${query}`);
    assertFailure(response, 422, 'validation_error', new RegExp(`^${query.split('=')[0]}: `));
  }
});

test('the content is the exact message, and always the same', async () => {
  const id = await service.send({ to: 'Jo <jo@simulator.test>', text: 'Plain\n.dot' });
  const path = `/v1/emails/${id}/content`;
  const first = await get(path);
  assert.equal(first.status, 200);
  assert.equal(first.headers.get('content-type'), 'message/rfc822');
  const { message_id, created_at } = await service.waitForStatus(id, 'delivered');
  assert.equal((await get(path)).text, first.text);
  assert.doesNotMatch(first.text, /[^\r]\n|\r[^\n]/);
  assert.match(first.text, /^DKIM-Signature: /im);
  const parsed = await PostalMime.parse(first.text);
  assert.deepEqual(
    [parsed.messageId, parsed.subject, parsed.html?.trim(), parsed.text?.trim()],
    [message_id, EMAIL.subject, EMAIL.html, 'Plain\n.dot'],
  );
  assert.equal(Date.parse(parsed.date ?? ''), Math.floor(Date.parse(created_at) / 1000) * 1000);
});

test('HEAD returns the headers of an email without a body', async () => {
  const id = await service.send();
  const response = await service.request('HEAD', `/v1/emails/${id}`);
  assert.deepEqual([response.status, response.text], [200, '']);
  assert.equal((await service.request('HEAD', `/v1/emails/${UNKNOWN_ID}`)).status, 404);
});

test('every list has the same shape', async () => {
  for (const path of [
    '/v1/emails',
    '/v1/domains',
    '/v1/projects',
    '/v1/webhooks',
    '/v1/api-keys',
  ]) {
    const { status, body } = await get(path);
    assert.equal(status, 200);
    assert.equal(body.object, 'list');
    assert.ok(Array.isArray(body.data) && typeof body.has_more === 'boolean');
  }
});

test('an email whose content was removed by retention says so', async () => {
  const id = await service.send({ subject: 'Short-lived' });
  await service.waitForStatus(id, 'delivered');
  await service.sql(`delete from contents where email_id = '${id}'`);
  const { body } = await get(`/v1/emails/${id}`);
  assert.deepEqual([body.subject, body.html, body.text], ['Short-lived', null, null]);
  assert.equal(body.recipients[0].status, 'delivered');
  assertFailure(await get(`/v1/emails/${id}/content`), 404, 'not_found', /after its retention/);
  assert.equal((await timeline(id)).data.length, 2);
  assert.deepEqual(await found('subject=short-lived'), [id]);
});
