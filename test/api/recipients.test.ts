/** `GET /v1/recipients/{address}` explains why an address gets no mail; lists and counts of emails find parts. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { EMAIL } from '../support/api.ts';
import { ownerOf } from '../support/browser.ts';
import { startService } from '../support/service.ts';
import { eventually } from '../support/wait.ts';

const service = await startService();
after(() => service[Symbol.asyncDispose]());
const owner = await ownerOf(service);
const session = (await owner.get('/v1/session')).body;
const inTest = {
  'letterhaus-project': session.projects[0].id,
  'letterhaus-environment': 'test',
};

const recipientOf = async (address: string) => {
  const path = `/v1/recipients/${encodeURIComponent(address)}`;
  const response = await service.request('GET', path);
  assert.equal(response.status, 200, response.text);
  return response.body;
};

test('an address that nobody wrote to has nothing to explain', async () => {
  assert.deepEqual(await recipientOf('Nobody@Example.com'), {
    object: 'recipient',
    address: 'Nobody@example.com',
    domain: 'example.com',
    suppression: null,
    history: [],
    refused_requests: [],
    last_reply: null,
  });
});

test('a suppressed address shows why, who and when, and the requests that were refused', async () => {
  const address = 'anneli.berg@fjordline.example';
  const added = await owner.post('/v1/suppressions', { address, reason: 'hard_bounce' }, inTest);
  assert.equal(added.status, 201, added.text);
  const refused = await service.request('POST', '/v1/emails', {
    body: { from: 'hello@acme.test', to: 'Anneli.Berg@Fjordline.example', subject: 'x', text: 'x' },
  });
  assert.equal(refused.status, 422, refused.text);
  await eventually(async () => {
    const found = await recipientOf(address.toUpperCase());
    assert.equal(found.suppression.reason, 'hard_bounce');
    assert.equal(found.refused_requests.length, 1);
    assert.equal(found.refused_requests[0].error.code, 'suppressed');
  });
  const removed = await owner.request('DELETE', `/v1/suppressions/${address}`, { headers: inTest });
  assert.equal(removed.status, 200, removed.text);
  const found = await recipientOf(address);
  assert.equal(found.suppression, null);
  const changes = found.history.map(
    (one: { action: string; by: string; actor: { name: string } | null }) => [
      one.action,
      one.by,
      one.actor?.name,
    ],
  );
  const { email } = session.member;
  assert.deepEqual(changes, [
    ['removed', 'api', email],
    ['added', 'api', email],
  ]);
  assert.deepEqual((await recipientOf('erg@fjordline.example')).refused_requests, []);
});

test('the last reply of a mail server is shown with its advice', async () => {
  const id = await service.send({ to: 'bounced+reply@simulator.test' });
  await service.waitForStatus(id, 'bounced');
  const { last_reply: last, history } = await recipientOf('Bounced+reply@simulator.test');
  assert.equal(last.email_id, id);
  assert.equal(last.status, 'bounced');
  assert.equal(last.smtp.code, 550);
  assert.match(last.reason.advice, /\w/);
  assert.deepEqual(
    history.map(({ action, by, actor }: { action: string; by: string; actor: unknown }) => [
      action,
      by,
      actor,
    ]),
    [['added', 'delivery', null]],
  );
  const live = await service.request('GET', '/v1/recipients/bounced+reply@simulator.test', {
    key: await service.liveKey(),
  });
  assert.equal(live.body.last_reply, null, 'the other environment sees nothing of it');
});

test('an invalid address is refused with a sentence', async () => {
  const response = await service.request('GET', '/v1/recipients/nobody');
  assert.equal(response.status, 422);
  assert.match(response.body.message ?? response.text, /nobody/);
});

test('emails are found and counted by parts of an address, a reply and an id', async () => {
  const id = await service.send({ to: 'bounced+parts@simulator.test', subject: 'Parts of it' });
  await service.waitForStatus(id, 'bounced');
  await service.send({ to: 'other+parts@simulator.test', subject: 'Parts of it' });
  const counted = async (q: string) => {
    const query = new URLSearchParams({ q }).toString();
    const list = await service.request('GET', `/v1/emails?${query}`);
    const counts = await service.request('GET', `/v1/emails/counts?${query}`);
    assert.deepEqual([list.status, counts.status], [200, 200], q);
    assert.equal(counts.body.total, list.body.data.length, q);
    return counts.body;
  };
  assert.equal((await counted('D+PARTS')).total, 1);
  assert.equal((await counted('+parts "of it"')).total, 2);
  assert.equal((await counted(id)).total, 1);
  assert.deepEqual((await counted('to:+parts reply:550 server:nowhere')).statuses, {});
  assert.deepEqual((await counted('to:+parts reply:550')).statuses, { bounced: 1 });
});

type Listed = {
  address: string;
  last_email_id: string;
  last_status: string;
  suppression: string | null;
};

/** Returns the pages of the list, until its end. */
async function pagesOf(query: string): Promise<Listed[][]> {
  const pages: Listed[][] = [];
  let place: string | null = null;
  do {
    const cursor: string = place === null ? '' : `&after=${place}`;
    const { status, body, text } = await service.request('GET', `/v1/recipients?${query}${cursor}`);
    assert.equal(status, 200, text);
    pages.push(body.data);
    place = body.scanned_until;
    assert.equal(body.has_more, place !== null);
  } while (place !== null);
  return pages;
}

const addressesOf = (rows: readonly Listed[]) => rows.map(({ address }) => address);

test('recipients are listed once, at their newest email, with its status and their suppression', async () => {
  const first = await service.send({ to: 'ann@list.example', cc: 'Ben <ben@list.example>' });
  await service.waitForStatus(first, 'delivered');
  const id = await service.send({ to: 'ANN@list.example', subject: 'Again' });
  await service.waitForStatus(id, 'delivered');
  await owner.post(
    '/v1/suppressions',
    { address: 'ben@list.example', reason: 'complaint' },
    inTest,
  );
  const [rows = []] = await pagesOf('q=@List.example');
  const facts = rows.map(({ address, last_email_id, last_status, suppression }) => [
    address.toLowerCase(),
    last_email_id,
    last_status,
    suppression,
  ]);
  assert.deepEqual(facts, [
    ['ann@list.example', id, 'delivered', null],
    ['ben@list.example', first, 'delivered', 'complaint'],
  ]);
  const [some = []] = await pagesOf('q=nn@li');
  assert.deepEqual(addressesOf(some), addressesOf(rows).slice(0, 1));
  assert.deepEqual(await pagesOf('q=nobody-at-all'), [[]]);
});

test('later pages list no recipient again, and the recipients of one email stay together', async () => {
  const to = (name: string): string => `${name}@pages.example`;
  await service.send({ to: to('one'), subject: 'x' });
  await service.send({ to: [to('two'), to('three'), to('four')], subject: 'x' });
  await service.send({ to: to('one'), subject: 'x' });
  await service.send({ to: to('five'), subject: 'x' });
  const pages = (await pagesOf('q=@pages.example&limit=1')).map(addressesOf);
  assert.deepEqual(pages.slice(0, 3), [
    [to('five')],
    [to('one')],
    [to('two'), to('three'), to('four')],
  ]);
  assert.deepEqual(pages.slice(3).flat(), []);
});

test('a list of recipients has those of its environment only', async () => {
  const live = (await owner.get('/v1/recipients', { ...inTest, 'letterhaus-environment': 'live' }))
    .body;
  assert.deepEqual(live.data, []);
  const wrong = await service.request('GET', '/v1/recipients?after=nothing');
  assert.equal(wrong.status, 422, wrong.text);
});

test('the emails behind the counts by template, key, provider and reason are found', async () => {
  const post = async (path: string, body: object) =>
    (await service.request('POST', path, { body })).body;
  const variables = [{ name: 'number' }];
  const content = { subject: 'Order {{ number }}', text: 'Thank you.', variables };
  const template = await post('/v1/templates', {
    name: 'Order receipt',
    alias: 'order',
    ...content,
  });
  await post(`/v1/templates/${template.id}/publish`, {});
  const key = await post('/v1/api-keys', { name: 'Shop in Oslo' });
  const to = 'bounced+counted@simulator.test';
  const { from } = EMAIL;
  const body = { from, to, template: { id: template.id, variables: { number: '7' } } };
  const accepted = await service.request('POST', '/v1/emails', { body, key: key.key });
  assert.equal(accepted.status, 202, accepted.text);
  const { id } = accepted.body;
  await service.waitForStatus(id, 'bounced');

  const found = async (q: string): Promise<string[]> => {
    const query = new URLSearchParams({ q: `to:+counted ${q}` }).toString();
    const { status, body: list } = await service.request('GET', `/v1/emails?${query}`);
    assert.equal(status, 200, q);
    return list.data.map((email: { id: string }) => email.id);
  };
  const countedBy = async (by: string): Promise<string[]> => {
    const { body: stats } = await service.request('GET', `/v1/stats?granularity=hour&by=${by}`);
    return stats.totals.map(({ value }: { value: string }) => value);
  };
  for (const by of ['template', 'key', 'provider', 'reason']) {
    const values = await countedBy(by);
    const results = await Promise.all(values.map((value) => found(`${by}:${value}`)));
    assert.deepEqual(results.flat(), [id], `${by}: ${values.join(', ')}`);
  }
  for (const q of ['template:"order RECEIPT"', 'template:order', 'key:"Shop in Oslo"']) {
    assert.deepEqual(await found(q), [id], q);
  }
  for (const q of ['template:receipt', 'key:shop', 'provider:other', 'reason:quota']) {
    assert.deepEqual(await found(q), [], q);
  }
  await service.request('DELETE', `/v1/templates/${template.id}`);
  assert.deepEqual(await found(`template:${template.id}`), [id]);
  const unknown = await service.request('GET', '/v1/emails?q=reason:moon');
  assert.match(unknown.body.error.message, /reason: "moon" is not one of mailbox, /);
});
