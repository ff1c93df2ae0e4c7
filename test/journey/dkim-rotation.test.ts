/** The DKIM keys of a domain are replaced while it sends: the new ones sign once their record is found. */
import assert from 'node:assert/strict';
import { Resolver } from 'node:dns/promises';
import { after, test } from 'node:test';
import { authenticate } from 'mailauth';
import { assertFailure } from '../support/api.ts';
import { startJourney } from '../support/journey.ts';
import type { ApiResponse } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

type Body = ApiResponse['body'];

const journey = await startJourney({ LETTERHAUS_DOMAINS_INTERVAL_S: '1' });
const mx = await journey.mailServer('receiving.test');
const resolver = new Resolver();
resolver.setServers([journey.dns.server]);
after(() => journey[Symbol.asyncDispose]());

async function liveDomain(name: string): Promise<Body> {
  await journey.service.addLiveDomain(name);
  const { body } = await journey.request('GET', '/v1/domains');
  return body.data.find((domain: Body) => domain.name === name);
}

const show = async ({ id }: Body): Promise<Body> =>
  (await journey.request('GET', `/v1/domains/${id}`)).body;
const verify = async ({ id }: Body): Promise<Body> =>
  (await journey.request('POST', `/v1/domains/${id}/verify`)).body;
const rotate = ({ id }: Body): Promise<ApiResponse> =>
  journey.request('POST', `/v1/domains/${id}/rotate-dkim`);
const cancel = ({ id }: Body): Promise<ApiResponse> =>
  journey.request('POST', `/v1/domains/${id}/rotate-dkim/cancel`);

async function rotated(domain: Body): Promise<Body> {
  const { status, text, body } = await rotate(domain);
  assert.equal(status, 200, text);
  return body;
}

const recordsOf = ({ records }: Body, key?: string): Body[] =>
  records.filter((one: Body) => one.record === 'DKIM' && one.key === key);

function publish(records: Body[]): void {
  for (const { name, type, value } of records) journey.dns.set(name, type, [value]);
}

function unpublish(records: Body[]): void {
  for (const { name } of records) journey.dns.remove(name);
}

const adviceOf = ({ advice }: Body): string =>
  advice.flatMap(({ about, message }: Body) => (about === 'dkim' ? [message] : [])).join('\n');

/** The selectors that sign the message, which an independent verifier accepts. */
async function signersOf(raw: Buffer): Promise<string[]> {
  const { dkim } = await authenticate(raw, {
    ip: '127.0.0.1',
    helo: 'out.test',
    sender: 'x@send.example',
    resolver: async (at, type) => (await resolver.resolve(at, type)) as string[],
  });
  for (const { status } of dkim.results) assert.equal(status.result, 'pass');
  return dkim.results.map(({ selector }) => String(selector));
}

async function sendNow({ name }: Body): Promise<{ id: string; signers: string[] }> {
  const id = await journey.send({ from: `us@${name}`, to: 'jo@receiving.test' });
  await journey.ended(id);
  return { id, signers: await signersOf(mx.messages.at(-1)!.raw) };
}

async function signedBy(domain: Body, selector: string): Promise<void> {
  const isSigned = async () => (await sendNow(domain)).signers.includes(selector);
  await waitFor(isSigned, { what: `mail signed by ${selector}` });
}

test('keys are rotated without a pause: the old ones sign until the new record is found, also waiting mail', async () => {
  const domain = await liveDomain('rotated.example');
  const { dkim: before } = domain;
  assert.deepEqual([before.next, before.previous], [null, null]);
  const later = await journey.mailServer('later.test');
  const waiting = await journey.send({
    from: 'us@rotated.example',
    to: 'jo@later.test',
    scheduled_at: new Date(Date.now() + 10 * 3_600_000).toISOString(),
  });

  const pending = await rotated(domain);
  const next = recordsOf(pending, 'next');
  assert.deepEqual(
    next.map(({ status, required }) => [status, required]),
    [
      ['not_started', false],
      ['not_started', false],
    ],
  );
  assert.equal(pending.dkim.selector, before.selector);
  assert.ok(next[0].name.startsWith(`${pending.dkim.next.selector}._domainkey.`));
  const unfound = await verify(domain);
  assert.deepEqual([unfound.status, recordsOf(unfound, 'next')[0].status], ['verified', 'missing']);
  assert.match(adviceOf(unfound), /new DKIM keys wait for their records/);
  const sentBefore = await sendNow(domain);
  assert.ok(sentBefore.signers.includes(before.selector));
  const { text: shownBefore } = await journey.request('GET', `/v1/emails/${sentBefore.id}/content`);

  publish(next);
  await journey.pass({ minutes: 61 });
  const isSwitched = async () => (await show(domain)).dkim.next === null;
  await waitFor(isSwitched, { what: 'the switch' });
  const switched = await show(domain);
  assert.deepEqual(
    [switched.status, switched.dkim.selector, switched.dkim.previous.selector],
    ['verified', pending.dkim.next.selector, before.selector],
  );
  const { until, keep_until: keepUntil } = switched.dkim.previous;
  assert.equal(Date.parse(keepUntil) - Date.parse(until), 7 * 86_400_000);
  await signedBy(domain, switched.dkim.selector);
  await journey.pass({ hours: 10 });
  await journey.ended(waiting);
  const signers = await signersOf(later.messages.at(-1)!.raw);
  assert.ok(signers.includes(switched.dkim.selector), 'waiting mail is signed when it is sent');
  const { text } = await journey.request('GET', `/v1/emails/${sentBefore.id}/content`);
  assert.equal(text, shownBefore, 'mail that the old key signed is shown as it was sent');

  assertFailure(await rotate(domain), 409, 'conflict');
  const old = recordsOf(domain);
  unpublish(old);
  assert.match(adviceOf(await verify(domain)), /is missing, and mail that the previous DKIM key/);
  publish(old);
  await journey.pass({ hours: 24 * 7 });
  const removable = await verify(domain);
  assert.deepEqual([removable.dkim.previous, recordsOf(removable, 'previous')], [null, []]);
  assert.match(adviceOf(removable), /previous DKIM keys are not needed any more: remove/);
  unpublish(old);
  assert.equal(adviceOf(await verify(domain)), '');
  assert.equal((await rotate(domain)).status, 200);
});

test('a rotation can be canceled until the new keys sign, and no two run at once', async () => {
  const domain = await liveDomain('canceled.example');
  const responses = await Promise.all([rotate(domain), rotate(domain), rotate(domain)]);
  assert.deepEqual(
    responses.map(({ status }) => status).toSorted((a, b) => a - b),
    [200, 409, 409],
  );
  const { body: pending } = responses.find(({ status }) => status === 200)!;
  const canceled = await cancel(domain);
  assert.deepEqual([canceled.body.dkim.next, recordsOf(canceled.body, 'next')], [null, []]);
  publish(recordsOf(pending, 'next'));
  const checked = await verify(domain);
  assert.equal(checked.dkim.selector, domain.dkim.selector, 'dropped keys never sign');
  assertFailure(await cancel(domain), 409, 'conflict');
  const again = await rotated(domain);
  assert.notEqual(again.dkim.next.selector, pending.dkim.next.selector);
  publish(recordsOf(again, 'next'));
  // A check and the cancellation at the same time: one of them finds the next keys.
  const [, late] = await Promise.all([verify(domain), cancel(domain)]);
  const end = await show(domain);
  const signs = late.status === 200 ? domain.dkim.selector : again.dkim.next.selector;
  assert.deepEqual([end.dkim.selector, end.dkim.next, end.status], [signs, null, 'verified']);
});

test('when the old record disappears before the new one is found, the domain is degraded until it is', async () => {
  const domain = await liveDomain('early.example');
  const pending = await rotated(domain);
  unpublish(recordsOf(domain));
  await verify(domain);
  const degraded = await verify(domain);
  assert.deepEqual([degraded.status, degraded.dkim.selector], ['degraded', domain.dkim.selector]);
  publish(recordsOf(pending, 'next'));
  const switched = await verify(domain);
  assert.deepEqual(
    [switched.status, switched.failing_since, switched.dkim.selector],
    ['verified', null, pending.dkim.next.selector],
  );
  await journey.webhook(({ type, data }) => type === 'domain.recovered' && data.id === domain.id);
  await signedBy(domain, switched.dkim.selector);
});

test('keys that sign for half a year are reported, and the command line replaces them', async () => {
  const domain = await liveDomain('old.example');
  await journey.pass({ hours: 24 * 181 });
  const { stdout: warned } = await journey.service.cli('domains', 'verify', 'old.example');
  assert.match(
    warned,
    /should be replaced after half a year: letterhaus domains rotate-dkim old\./,
  );
  const begun = await journey.service.cli('domains', 'rotate-dkim', 'old.example');
  assert.equal(begun.code, 0, begun.stderr);
  const { dkim } = await show(domain);
  assert.match(
    begun.stdout,
    new RegExp(`TXT   ${dkim.next.selector}\\._domainkey\\.old\\.example`),
  );
  assert.ok(!begun.stdout.includes(domain.dkim.selector), begun.stdout);
  const twice = await journey.service.cli('domains', 'rotate-dkim', 'old.example');
  assert.match(twice.stderr, /A rotation of old\.example is under way since .*cancel the rotation/);
  const undone = await journey.service.cli('domains', 'rotate-dkim', 'old.example', '--cancel');
  assert.match(undone.stdout, /The rotation is canceled; old\.example keeps its keys/);
});

test('removing a domain says how much mail ends with it', async () => {
  await liveDomain('removed.example');
  await journey.mailServer('slow.test', { greylist: 9 });
  const ids = [1, 2].map(() => journey.send({ from: 'us@removed.example', to: 'jo@slow.test' }));
  for (const id of await Promise.all(ids)) await journey.attempted(id);
  const { stdout } = await journey.service.cli('domains', 'remove', 'removed.example');
  assert.match(stdout, /Removed removed\.example\. 2 recipients wait for mail from it, and end as/);
  for (const id of await Promise.all(ids)) {
    await journey.pass({ hours: 5 });
    assert.equal((await journey.ended(id)).status, 'failed');
  }
});
