/** The inspection of one email: header, attachments, advice, and the webhooks that were sent about it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assertFailure, UNKNOWN_ID } from '../support/api.ts';
import { sharedService } from '../support/shared-service.ts';
import { waitFor } from '../support/wait.ts';

const service = await sharedService();

const read = (id: string, rest: string, key = service.testKey) =>
  service.request('GET', `/v1/emails/${id}/${rest}`, { key });

test('an inspection has the header, the attachments and the links of an email', async () => {
  const content = Buffer.from('%PDF-1.7 not really').toString('base64');
  const id = await service.send({
    subject: 'Rechnung für Jo',
    html: '<p>Thank you. We have received <a href="https://acme.com/orders">your order</a>.</p><img src="cid:logo" alt="Acme">',
    attachments: [
      { filename: 'Rechnung “1”.pdf', content, content_type: 'application/pdf' },
      { filename: 'logo.png', content: 'AAAA', content_id: 'logo' },
    ],
  });
  const { status, body } = await read(id, 'inspection');
  assert.equal(status, 200);
  assert.equal(body.id, id);
  assert.ok(body.size > 500 && body.html_size < body.size);
  const subject = body.headers.find(({ name }: { name: string }) => name === 'Subject');
  assert.equal(subject.value, 'Rechnung für Jo');
  const dkim = body.headers.filter(({ name }: { name: string }) => name === 'DKIM-Signature');
  assert.match(dkim[0].value, /d=acme\.test/);
  const [pdf, logo] = body.attachments.toSorted((a: { content_type: string }) =>
    a.content_type === 'application/pdf' ? -1 : 1,
  );
  assert.equal(pdf.filename, 'Rechnung “1”.pdf');
  assert.equal(pdf.size, 19);
  assert.deepEqual([logo.filename, logo.content_id], ['logo.png', 'logo']);
  assert.match(body.text, /^Thank you\. We have received your order/);
  assert.deepEqual(body.links, ['https://acme.com/orders']);
  assert.deepEqual([body.checks, body.unsupported], [[], []]);

  const file = await read(id, `attachments/${pdf.number}`);
  assert.equal(file.text, '%PDF-1.7 not really');
  assert.equal(file.headers.get('content-type'), 'application/octet-stream');
  assert.equal(file.headers.get('x-content-type-options'), 'nosniff');
  assert.equal(
    file.headers.get('content-disposition'),
    "attachment; filename*=UTF-8''Rechnung%20%E2%80%9C1%E2%80%9D.pdf",
  );
  for (const number of ['3', '0', '-1', '1.0', 'x']) {
    assertFailure(await read(id, `attachments/${number}`), 404, 'not_found');
  }
});

test('an inspection reports content that programs do not show or receivers do not like', async () => {
  const html = `<style>@font-face {}</style><p>Unsubscribe from our newsletter</p><a href="http://acme.com">A</a>`;
  const { body } = await read(await service.send({ html }), 'inspection');
  const codes = body.checks.map(({ code }: { code: string }) => code);
  assert.deepEqual(new Set(codes), new Set(['http_links', 'no_unsubscribe']));
  const [fonts] = body.unsupported;
  assert.deepEqual(fonts, { feature: 'web fonts', clients: ['Gmail', 'Outlook', 'Yahoo'] });
});

test('the inspection of an email without html or attachments lists none', async () => {
  const { body } = await read(await service.send({ html: undefined, text: 'Hi' }), 'inspection');
  assert.deepEqual([body.attachments, body.links, body.html_size], [[], [], 0]);
  assert.equal(body.text.trim(), 'Hi');
});

test('the webhook deliveries of an email are listed with their webhooks', async () => {
  const hook = { url: 'https://hooks.example.org/email' };
  const { body: webhook } = await service.request('POST', '/v1/webhooks', { body: hook });
  const id = await service.send({ to: 'delivered@simulator.test' });
  await service.waitForStatus(id, 'delivered');
  await service.send({ to: 'delivered@simulator.test' });
  const events = async () => (await read(id, 'events')).body.data;
  const deliveries = async () => (await read(id, 'webhook-deliveries')).body;
  await waitFor(async () => (await events()).length === 2, { what: 'both events' });
  const { data, has_more } = await deliveries();
  assert.equal(has_more, false);
  assert.deepEqual(
    data.map(({ type }: { type: string }) => type),
    ['email.delivered', 'email.queued'],
  );
  for (const delivery of data) {
    assert.equal(delivery.webhook_id, webhook.id);
    assert.equal(delivery.webhook_url, hook.url);
  }
  const path = `/v1/webhooks/${webhook.id}/deliveries/${data[0].id}`;
  assert.equal((await service.request('GET', path)).body.payload.data.email_id, id);
  await service.request('DELETE', `/v1/webhooks/${webhook.id}`);
  assert.deepEqual((await deliveries()).data, []);
});

test('nothing of another environment, or of no email, is shown', async () => {
  const id = await service.send({ attachments: [{ filename: 'a.txt', content: 'YQ==' }] });
  const live = await service.liveKey();
  for (const rest of ['inspection', 'attachments/1', 'webhook-deliveries']) {
    assertFailure(await read(id, rest, live), 404, 'not_found');
    assertFailure(await read(UNKNOWN_ID, rest), 404, 'not_found');
    assertFailure(await read('x', rest), 404, 'not_found');
  }
});

test('a sending-only key inspects only emails that it sent, and sees no webhooks', async () => {
  const permission = { name: 'x', permission: 'sending_access' };
  const { key } = (await service.request('POST', '/v1/api-keys', { body: permission })).body;
  const [own, other] = [await service.send({}, { key }), await service.send()];
  assert.equal((await read(own, 'inspection', key)).status, 200);
  assertFailure(await read(other, 'inspection', key), 404, 'not_found');
  assertFailure(await read(other, 'attachments/1', key), 404, 'not_found');
  assertFailure(await read(own, 'webhook-deliveries', key), 403, 'authorization_error');
});
