/** One-click unsubscription (RFC 8058): hosted links, suppression and undo. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { Resolver } from 'node:dns/promises';
import { authenticate } from 'mailauth';
import { assertFailure, EMAIL, rawText } from '../support/api.ts';
import { startJourney } from '../support/journey.ts';
import type { ApiResponse } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const PUBLIC_URL = 'https://mail.acme.example/letterhaus';

const journey = await startJourney({ LETTERHAUS_PUBLIC_URL: PUBLIC_URL });
after(() => journey[Symbol.asyncDispose]());
const { service } = journey;

type Body = ApiResponse['body'];

const ONE_CLICK = 'List-Unsubscribe=One-Click';
const FORM = { 'content-type': 'application/x-www-form-urlencoded' };

/** The field as it stands in the message, on one line. */
function fieldOf(raw: Buffer | string, name: string): string | undefined {
  const pattern = new RegExp(`^${name}: (.*)\\r$`, 'im');
  return pattern.exec(raw.toString().split('\r\n\r\n')[0] + '\r\n')?.[1];
}

/** The path of the link; what is before it is a proxy's business. */
function pathIn(raw: Buffer | string): string {
  const link = /^<(.*)>$/.exec(fieldOf(raw, 'List-Unsubscribe') ?? '')?.[1] ?? '';
  assert.ok(link.startsWith(`${PUBLIC_URL}/u/`), link);
  return link.slice(PUBLIC_URL.length);
}

const open = (path: string, method = 'GET') => service.request(method, path, { key: null });

const click = (path: string, body = ONE_CLICK, headers: Record<string, string> = FORM) =>
  service.request('POST', path, { key: null, body, headers });

const entryOf = async (address: string): Promise<Body> => {
  const { status, body } = await journey.request('GET', `/v1/suppressions/${address}`);
  return status === 200 ? body : null;
};

/** The link that the recipient of a new email got. */
async function linkFor(domain: string): Promise<{ path: string; address: string; id: string }> {
  const mx = await journey.mailServer(domain);
  const address = `kim@${domain}`;
  const id = await journey.send({ to: address, unsubscribe: true });
  await journey.ended(id);
  return { path: pathIn(mx.messages[0]!.raw), address, id };
}

function assertPage(response: ApiResponse, status: number, text: RegExp): void {
  assert.equal(response.status, status, response.text);
  assert.match(response.text, text);
  const header = (name: string) => response.headers.get(name) ?? '';
  assert.equal(header('content-type'), 'text/html; charset=utf-8');
  const policy = header('content-security-policy');
  assert.match(policy, /^default-src 'none'; style-src 'sha256-[^']+'; form-action 'self'/);
  const style = /<style>([^]*)<\/style>/.exec(response.text)?.[1] ?? '';
  assert.ok(policy.includes(createHash('sha256').update(style).digest('base64')));
  assert.match(header('x-robots-tag'), /noindex/);
  assert.equal(header('referrer-policy'), 'no-referrer');
  assert.equal(header('cache-control'), 'no-store');
  assert.equal(header('set-cookie'), '');
  assert.doesNotMatch(response.text, /<script|https?:|src=|url\(/);
}

test('the link of a message unsubscribes its recipient, and undo takes it back', async () => {
  const { path, address, id } = await linkFor('clicks.test');
  const asked = await open(path);
  assertPage(asked, 200, /acme\.example[^]*k•••@clicks\.test[^]*<button/);
  assert.ok(!asked.text.includes(address));

  assertPage(await click(path), 200, /You are unsubscribed[^]*Undo/);
  const { reason, source_email_id, history } = await entryOf(address);
  assert.deepEqual([reason, source_email_id, history[0].by], ['unsubscribe', id, 'recipient']);
  await journey.webhook(
    ({ type, data }) => type === 'suppression.added' && data.address === address,
  );
  const next = { ...EMAIL, from: 'hello@acme.example', to: address };
  assertFailure(await journey.request('POST', '/v1/emails', next), 422, 'suppressed');

  assertPage(await click(path), 200, /You are unsubscribed/);
  assert.equal((await entryOf(address)).history.length, 1);

  assertPage(await click(path, 'action=undo'), 200, /subscribed again/);
  assert.equal(await entryOf(address), null);
  await journey.webhook(
    ({ type, data }) => type === 'suppression.removed' && data.address === address,
  );
  assertPage(await click(path, 'action=undo'), 200, /subscribed again/);
  assert.equal((await journey.request('POST', '/v1/emails', next)).status, 202);
});

test('repeated use of a link leaves few events and the address unsubscribed', async () => {
  const { path, address } = await linkFor('toggled.test');
  for (let round = 0; round < 50; round += 1) {
    await Promise.all([click(path), click(path, 'action=undo'), click(path, 'action=undo')]);
  }
  assertPage(await click(path), 200, /You are unsubscribed/);
  assertPage(await click(path, 'action=undo'), 429, /Still unsubscribed/);
  const { reason, history } = await entryOf(address);
  assert.equal(reason, 'unsubscribe');
  assert.ok(history.length >= 3 && history.length <= 11, `${history.length} changes`);
  const [{ count }] = await service.sql(
    `select count(*)::int as count from events
      where type like 'suppression.%' and data->>'address' = $1`,
    [address],
  );
  assert.equal(count, history.length);
  // The next day it may be changed again.
  await journey.pass({ hours: 25 });
  assertPage(await click(path, 'action=undo'), 200, /subscribed again/);
});

test('an email that waits while its recipient unsubscribes is not sent', async () => {
  const mx = await journey.mailServer('leaving.test', { greylist: 1 });
  const waiting = await journey.send({ to: 'kim@leaving.test' });
  await journey.attempted(waiting);
  const id = await journey.send({ to: 'kim@leaving.test', unsubscribe: true });
  await journey.ended(id);
  assertPage(await click(pathIn(mx.messages[0]!.raw)), 200, /You are unsubscribed/);
  await journey.pass({ hours: 5 });
  assert.equal((await journey.ended(waiting)).status, 'suppressed');
  assert.equal(mx.messages.length, 1);
});

test('a GET of an unsubscribe link changes nothing', async () => {
  const { path, address } = await linkFor('scanned.test');
  for (const method of ['GET', 'HEAD', 'GET']) assert.equal((await open(path, method)).status, 200);
  for (const method of ['PUT', 'DELETE', 'PATCH']) {
    assertFailure(await open(path, method), 405, 'method_not_allowed');
  }
  assert.equal(await entryOf(address), null);
});

test('a forged or mangled link shows an error page and changes nothing', async () => {
  const { path, address } = await linkFor('forged.test');
  const other = await linkFor('forger.test');
  const middle = Math.floor(path.length / 2);
  const forged = [
    path.slice(0, -1),
    `${path}A`,
    path.slice(0, middle) + (path[middle] === 'A' ? 'B' : 'A') + path.slice(middle + 1),
    path.slice(0, 60) + other.path.slice(60),
    '/u/x',
    '/u/%00',
  ];
  for (const wrong of forged) {
    assertPage(await open(wrong), 404, /does not work/);
    assertPage(await click(wrong), 404, /does not work/);
    assertPage(await click(wrong, 'action=undo'), 404, /does not work/);
  }
  assert.equal(await entryOf(address), null);
});

test('a POST of any type and body to an unsubscribe link unsubscribes', async () => {
  const { path, address } = await linkFor('wrapped.test');
  const multipart =
    '--x\r\nContent-Disposition: form-data; name="List-Unsubscribe"\r\n\r\nOne-Click\r\n--x--';
  const posts: [string, Record<string, string>][] = [
    [ONE_CLICK, { 'content-type': 'application/x-www-form-urlencoded; charset=UTF-8' }],
    [multipart, { 'content-type': 'multipart/form-data; boundary=x' }],
    [ONE_CLICK, { 'content-type': 'text/plain' }],
    ['{}', { 'content-type': 'application/json' }],
    ['', {}],
    ['', FORM],
    ['', { 'content-type': 'text' }],
    [ONE_CLICK, { 'content-type': 'text' }],
    [ONE_CLICK, { 'content-type': ';;;' }],
    [ONE_CLICK, { 'content-type': 'a/b/c; charset' }],
    [ONE_CLICK, { 'content-type': '' }],
    [ONE_CLICK, { ...FORM, 'content-encoding': 'gzip' }],
    [ONE_CLICK, { ...FORM, 'content-encoding': 'nonsense, br' }],
    ['action=undo', { ...FORM, 'content-encoding': 'gzip' }],
    ['anything', FORM],
  ];
  for (const [body, headers] of posts) {
    assertPage(await click(path, body, headers), 200, /You are unsubscribed/);
    assert.equal((await entryOf(address)).reason, 'unsubscribe');
    await journey.request('DELETE', `/v1/suppressions/${address}`);
  }
  const head = `POST ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n`;
  for (const untyped of [
    `Content-Length: ${ONE_CLICK.length}\r\n\r\n${ONE_CLICK}`,
    `Transfer-Encoding: chunked\r\n\r\n${ONE_CLICK.length.toString(16)}\r\n${ONE_CLICK}\r\n0\r\n\r\n`,
    'Content-Type: text/plain\r\nContent-Encoding: gzip\r\n\r\n',
  ]) {
    assert.match(await rawText(service.url, `${head}${untyped}`), /^HTTP\/1\.1 200 /, untyped);
    assert.equal((await entryOf(address)).reason, 'unsubscribe', untyped);
    await journey.request('DELETE', `/v1/suppressions/${address}`);
  }
  assertPage(await click(path, 'x'.repeat(20_000)), 413, /too large/);
  assertPage(await click(path, 'x'.repeat(20_000), { 'content-encoding': 'gzip' }), 413, /large/);
  assert.equal(await entryOf(address), null);
});

test('undo removes only suppressions that a link made', async () => {
  const { path, address } = await linkFor('kept.test');
  await journey.request('POST', '/v1/suppressions', { address, reason: 'complaint' });
  const done = await click(path);
  assertPage(done, 200, /You are unsubscribed/);
  assert.doesNotMatch(done.text, /Undo/);
  assertPage(await click(path, 'action=undo'), 200, /Nothing was changed/);
  assert.equal((await entryOf(address)).reason, 'complaint');
});

test('each recipient has a link and a signature of its own, and both headers are signed', async () => {
  const mx = await journey.mailServer('pair.test');
  const to = ['ann@pair.test', 'ben@pair.test'];
  const id = await journey.send({ to, unsubscribe: true });
  await journey.ended(id);
  assert.equal(mx.messages.length, 2);
  const paths = new Set<string>();
  const resolver = new Resolver();
  resolver.setServers([journey.dns.server]);
  for (const message of mx.messages) {
    assert.equal(fieldOf(message.raw, 'List-Unsubscribe-Post'), ONE_CLICK);
    const { dkim } = await authenticate(message.raw, {
      ip: '127.0.0.1',
      helo: 'out.letterhaus.example',
      sender: message.envelopeFrom,
      resolver: async (name, type) => (await resolver.resolve(name, type)) as string[][],
    });
    assert.ok(dkim.results.length > 0);
    for (const { status, signingHeaders } of dkim.results) {
      assert.equal(status.result, 'pass');
      const signed = (signingHeaders?.keys ?? '').toLowerCase().split(/\s*[:,]\s*/);
      assert.ok(signed.includes('list-unsubscribe'), signed.join());
      assert.ok(signed.includes('list-unsubscribe-post'), signed.join());
    }
    const [recipient] = message.recipients;
    const shown = await journey.request('GET', `/v1/emails/${id}/content?recipient=${recipient}`);
    assert.equal(shown.text, message.raw.toString());
    paths.add(pathIn(message.raw));
  }
  assert.equal(paths.size, 2);

  const first = await journey.request('GET', `/v1/emails/${id}/content`);
  assert.match(first.text, /ann@pair\.test/);
  const none = await journey.request('GET', `/v1/emails/${id}/content?recipient=x@pair.test`);
  assertFailure(none, 404, 'not_found', /no recipient/);
  const attempts = (await journey.timeline(id)).flatMap(({ attempt }) => attempt ?? []);
  const hashes = mx.messages.map(({ raw }) => createHash('sha256').update(raw).digest('hex'));
  assert.deepEqual(
    attempts.map(({ message_sha256 }): string => message_sha256).toSorted(),
    hashes.toSorted(),
  );
});

test('during a database outage the form is still shown, and submitting it says when to try again', async () => {
  const { path, address } = await linkFor('away.test');
  await service.setDatabaseReachable(false);
  assertPage(await open(path), 200, /Unsubscribe\?/);
  const away = await click(path);
  assertPage(away, 503, /try again/);
  assert.ok(Number(away.headers.get('retry-after')) > 0);
  await service.setDatabaseReachable(true);
  const back = await waitFor(
    async () => {
      const response = await click(path);
      return response.status !== 503 && response;
    },
    { what: 'the database to be back' },
  );
  assertPage(back, 200, /You are unsubscribed/);
  assert.equal((await entryOf(address)).reason, 'unsubscribe');
});

test('the log has no address and no link', async () => {
  await service.logged(/"route":"\/u\/:token"/);
  assert.doesNotMatch(service.logs, /kim@|\/u\/[\w-]{20}/);
});
