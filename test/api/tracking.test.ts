/** Tracking of opens and clicks: the settings that request it, the changed message, and the responses of its links. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import PostalMime from 'postal-mime';
import { assertFailure, EMAIL } from '../support/api.ts';
import { sharedService } from '../support/shared-service.ts';

const service = await sharedService();

const TARGET = 'https://shop.acme.test/?a=1&b=2';
const HTML = `<body><p>Hi</p><a href="${TARGET.replace('&', '&amp;')}">Shop</a></body>`;
const BOTH = { opens: true, clicks: true };
const PIXEL = /<img src="([^"]+)" width="1" height="1" alt=""><\/body>/;
const LINK = /<a href="([^"]+)">Shop<\/a>/;

/** The html that a recipient of the email gets. */
async function htmlFor(id: string, recipient?: string): Promise<string> {
  const query = recipient === undefined ? '' : `?recipient=${encodeURIComponent(recipient)}`;
  const { text } = await service.request('GET', `/v1/emails/${id}/content${query}`);
  return (await PostalMime.parse(text)).html ?? '';
}

const send = (change: object = {}) => service.send({ html: HTML, ...change });

async function linksIn(id: string, recipient?: string): Promise<{ pixel: string; link: string }> {
  const html = await htmlFor(id, recipient);
  const [, pixel = ''] = PIXEL.exec(html) ?? assert.fail(html);
  const [, link = ''] = LINK.exec(html) ?? assert.fail(html);
  return { pixel, link };
}

const open = (link: string, init: RequestInit = {}) => fetch(link, { redirect: 'manual', ...init });

/** Sets what emails of acme.test ask for unless they say otherwise. */
async function setDomain(tracking: object): Promise<void> {
  const { body } = await service.request('GET', '/v1/domains');
  const { id } = body.data.find(({ name }: { name: string }) => name === 'acme.test');
  const changed = await service.request('PATCH', `/v1/domains/${id}`, { body: { tracking } });
  assert.equal(changed.status, 200, changed.text);
  assert.deepEqual((await service.request('GET', `/v1/domains/${id}`)).body, changed.body);
}

test('an email is tracked only if it or its domain requests it', async () => {
  const plain = await send();
  assert.ok((await htmlFor(plain)).includes(HTML));
  assert.deepEqual((await service.email(plain)).tracking, { opens: false, clicks: false });

  const asked = await send({ tracking: { clicks: true } });
  assert.match(await htmlFor(asked), /<a href="http:[^"]+\/t\/[\w-]+">Shop<\/a><\/body>/);
  assert.deepEqual((await service.email(asked)).tracking, { opens: false, clicks: true });
  assert.equal((await service.email(asked)).html, HTML);

  await setDomain(BOTH);
  const byDomain = await send();
  await linksIn(byDomain);
  assert.deepEqual((await service.email(byDomain)).tracking, BOTH);
  const off = await send({ tracking: { opens: false, clicks: false } });
  assert.ok((await htmlFor(off)).includes(HTML));
  await setDomain({ opens: false });
  const half = await send();
  assert.deepEqual((await service.email(half)).tracking, { opens: false, clicks: true });
  await setDomain({ clicks: false });
});

test('a batch, a template and a dry run are tracked as a single email is', async () => {
  const email = { ...EMAIL, html: HTML, tracking: BOTH };
  const batch = await service.request('POST', '/v1/emails/batch', { body: [email] });
  await linksIn(batch.body.data[0].id);

  const template = { name: 'Tracked', alias: 'tracked', subject: 'Hi', html: HTML };
  const made = await service.request('POST', '/v1/templates', { body: template });
  await service.request('POST', `/v1/templates/${made.body.id}/publish`);
  const { subject: _, html: __, ...rest } = email;
  const body = { ...rest, template: { id: 'tracked' } };
  const sent = await service.request('POST', '/v1/emails', { body });
  assert.equal(sent.status, 202, sent.text);
  await linksIn(sent.body.id);

  const sizes = await Promise.all(
    [email, { ...email, tracking: null }].map(async (one) => {
      const dry = await service.request('POST', '/v1/emails?dry_run=true', { body: one });
      assert.equal(dry.status, 200, dry.text);
      assert.deepEqual(dry.body.tracking, {
        opens: one.tracking !== null,
        clicks: one.tracking !== null,
      });
      return dry.body.message.size as number;
    }),
  );
  assert.ok(sizes[0]! > sizes[1]! + 200, sizes.join());
});

test('each recipient has its own links', async () => {
  const to = ['delivered+ann@simulator.test', 'delivered+ben@simulator.test'];
  const id = await send({ to, tracking: BOTH });
  const [ann, ben] = await Promise.all(to.map((address) => linksIn(id, address)));
  assert.notEqual(ann!.pixel, ben!.pixel);
  assert.notEqual(ann!.link, ben!.link);
  assert.deepEqual(await linksIn(id), ann);
});

test('a link redirects to its target and the pixel is an image, without cookies, caches or referrers', async () => {
  const { pixel, link } = await linksIn(await send({ tracking: BOTH }));
  for (const method of ['GET', 'HEAD']) {
    const clicked = await open(link, { method });
    assert.deepEqual([clicked.status, clicked.headers.get('location')], [302, TARGET]);
    const opened = await open(pixel, { method });
    assert.deepEqual([opened.status, opened.headers.get('content-type')], [200, 'image/gif']);
    for (const { headers } of [clicked, opened]) {
      assert.equal(headers.get('cache-control'), 'no-store');
      assert.equal(headers.get('referrer-policy'), 'no-referrer');
      assert.match(headers.get('x-robots-tag') ?? '', /noindex/);
      assert.equal(headers.get('set-cookie'), null);
    }
  }
  const image = Buffer.from(await (await open(pixel)).arrayBuffer());
  assert.equal(image.toString('latin1', 0, 6), 'GIF89a');
});

test('a changed link gets 400 and no redirect', async () => {
  const { pixel, link } = await linksIn(await send({ tracking: BOTH }));
  const middle = link.length - 10;
  const other = link[middle] === 'A' ? 'B' : 'A';
  const token = link.slice(link.lastIndexOf('/') + 1);
  const content = Buffer.from(token, 'base64url').toString('latin1');
  const elsewhere = content.replace('shop.acme.test', 'evil.acme.test');
  const forged = Buffer.from(elsewhere, 'latin1').toString('base64url');
  for (const wrong of [
    link.slice(0, -1),
    `${link}A`,
    link.slice(0, middle) + other + link.slice(middle + 1),
    link.replace(token, forged),
    `${pixel}aHR0cHM6Ly9ldmlsLnRlc3Qv`,
    `${service.url}/t/x`,
    `${service.url}/t/${'A'.repeat(2_000)}`,
    `${service.url}/t/https:%2F%2Fevil.test`,
  ]) {
    const response = await open(wrong);
    assert.equal(response.status, 400, wrong);
    assert.equal(response.headers.get('location'), null);
    assert.match(await response.text(), /does not work/);
  }
  const post = await service.request('POST', new URL(link).pathname, { key: null });
  assertFailure(post, 405, 'method_not_allowed');
});

test('tracking of opens without html is refused', async () => {
  const text = { ...EMAIL, html: null, text: 'Hi', tracking: { opens: true } };
  const plain = await service.request('POST', '/v1/emails', { body: text });
  assertFailure(plain, 422, 'validation_error', /^tracking\.opens: needs html/);
});

test('the command line sends tracked emails and sets what a domain tracks', async () => {
  const email = ['--from', 'a@acme.test', '--to', EMAIL.to, '--subject', 'Hi', '--html', HTML];
  const sent = await service.cliJson('send', ...email, '--track', 'clicks');
  const { tracking } = await service.email(sent.id);
  assert.deepEqual(tracking, { opens: false, clicks: true });
  for (const [what, wanted] of [
    ['both', BOTH],
    ['opens', { opens: true, clicks: false }],
    ['off', { opens: false, clicks: false }],
  ] as const) {
    const changed = await service.cliJson(
      'domains',
      'set-tracking',
      'acme.test',
      what,
      '--environment',
      'test',
    );
    assert.deepEqual(changed.tracking, wanted);
  }
});
