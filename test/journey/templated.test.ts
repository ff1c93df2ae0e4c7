/** An email that is made of a template, up to the recipient's mail server. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import PostalMime from 'postal-mime';
import { startJourney } from '../support/journey.ts';

const journey = await startJourney({}, { args: ['--workers', '2'] });
after(() => journey[Symbol.asyncDispose]());

const ORDER = {
  name: 'Order',
  alias: 'order',
  subject: 'Your order of {{ items.size }} things, {{ name }}',
  html: '<ul>{% for item in items %}<li>{{ item.name }}: {{ item.price | round: 2 }}</li>{% endfor %}</ul>',
  variables: [{ name: 'name' }, { name: 'items', type: 'list' }],
};

test('a templated email arrives as it was rendered when it was accepted', async () => {
  const mx = await journey.mailServer('templated.test', { greylist: 1 });
  const made = await journey.request('POST', '/v1/templates', ORDER);
  assert.equal(made.status, 201, made.text);
  await journey.request('POST', '/v1/templates/order/publish', {});
  const items = [
    { name: 'Tea <green>', price: 2.5 },
    { name: 'Jam & bread', price: 4 },
  ];
  const template = { id: 'order', variables: { name: 'Jörg', items } };
  const addressed = { from: 'Acme <hello@acme.example>', to: 'kim@templated.test' };
  const sent = await journey.request('POST', '/v1/emails', { ...addressed, template });
  assert.equal(sent.status, 202, sent.text);
  const { id } = sent.body;
  await journey.attempted(id);
  assert.equal((await journey.request('DELETE', '/v1/templates/order')).status, 200);
  await journey.retry(id);
  assert.equal((await journey.ended(id)).status, 'delivered');

  const email = await PostalMime.parse(mx.messages[0]!.raw);
  assert.equal(email.subject, 'Your order of 2 things, Jörg');
  assert.equal(
    email.html?.trim(),
    '<ul><li>Tea &lt;green&gt;: 2.5</li><li>Jam &amp; bread: 4</li></ul>',
  );
  assert.match(email.text ?? '', /Tea <green>: 2\.5\s+.*Jam & bread: 4/s);
});
