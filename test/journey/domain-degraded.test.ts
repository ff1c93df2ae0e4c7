/** A domain that loses a required DNS record is degraded within minutes, still sends, and recovers or fails. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startJourney } from '../support/journey.ts';
import type { ApiResponse } from '../support/service.ts';
import { eventually, waitFor } from '../support/wait.ts';

type Body = ApiResponse['body'];

const journey = await startJourney({ LETTERHAUS_DOMAINS_INTERVAL_S: '1' });
const mx = await journey.mailServer('receiving.test');
after(() => journey[Symbol.asyncDispose]());

/** A verified domain with its records, as the API shows it. */
async function liveDomain(name: string): Promise<Body> {
  await journey.service.addLiveDomain(name);
  const { body } = await journey.request('GET', '/v1/domains');
  return body.data.find((domain: Body) => domain.name === name);
}

const show = async ({ id }: Body): Promise<Body> =>
  (await journey.request('GET', `/v1/domains/${id}`)).body;

function unpublish({ name, type }: Body): void {
  journey.dns.set(name, type, []);
}

function publish({ name, type, value }: Body): void {
  journey.dns.set(name, type, [value]);
}

/** Lets time pass, and waits for the check that is due then. */
async function nextCheck(domain: Body, time: { hours?: number; minutes?: number }): Promise<Body> {
  const { checked_at: before } = await show(domain);
  await journey.pass(time);
  const isChecked = async () => {
    const now = await show(domain);
    return now.checked_at !== before && now;
  };
  return waitFor(isChecked, { what: 'the next check' });
}

/** The selectors that sign a message sent now. */
async function selectorsOf(domain: Body): Promise<string[]> {
  const id = await journey.send({ from: `us@${domain.name}`, to: 'jo@receiving.test' });
  await journey.ended(id);
  const { raw } = mx.messages.at(-1)!;
  const { text } = await journey.request('GET', `/v1/emails/${id}/content`);
  assert.equal(text, raw.toString(), 'the content is shown as it was sent');
  return [...raw.toString().matchAll(/\bs=([\w-]+);/g)].map(([, selector]) => selector!);
}

const selector = ({ name }: Body): string => name.split('.')[0];

const openConditions = async (): Promise<Body[]> =>
  journey.service.sql(
    `select subject, message, remedy from operator_conditions where type = 'domain.degraded'`,
  );
const oneCondition = (): Promise<Body> =>
  waitFor(async () => (await openConditions())[0], { what: 'the condition' });
const noCondition = (): Promise<void> =>
  eventually(async () => assert.deepEqual(await openConditions(), []));

test('a domain whose DKIM record disappears is degraded minutes later, sends with the other key, and recovers', async () => {
  const domain = await liveDomain('degraded.example');
  const [rsa, ed25519] = domain.records;
  assert.equal(domain.failing_since, null);
  unpublish(rsa);

  const first = await nextCheck(domain, { hours: 25 });
  assert.deepEqual([first.status, first.records[0].status], ['verified', 'missing']);
  assert.ok(first.failing_since);
  assert.deepEqual(await openConditions(), []);

  const second = await nextCheck(domain, { minutes: 6 });
  assert.deepEqual([second.status, second.failing_since], ['degraded', first.failing_since]);
  const event = await journey.webhook(({ type }) => type === 'domain.degraded');
  assert.deepEqual([event.data.id, event.data.status], [domain.id, 'degraded']);
  const condition = await oneCondition();
  assert.match(condition.subject, /^degraded\.example \(project /);
  assert.ok(condition.message.includes(`DKIM ${rsa.name}`), condition.message);
  assert.match(condition.remedy, /letterhaus domains verify degraded\.example/);
  await journey.service.logged(/"level":"warn".*domain\.degraded/);
  await journey.service.counted(/^letterhaus_operator_conditions\{type="domain\.degraded"\} 1$/m);

  const isEd25519Alone = async () => (await selectorsOf(domain)).join() === selector(ed25519);
  await waitFor(isEd25519Alone, { what: 'mail without the missing key' });
  const verified = await journey.service.cli('domains', 'verify', 'degraded.example');
  assert.equal(verified.code, 1);
  assert.match(verified.stdout, /degraded\.example is degraded: .* It sends until 2/);
  assert.ok(verified.stdout.includes(`there is no TXT record at ${rsa.name}`), verified.stdout);
  const wire = await journey.request('GET', `/domains/${domain.id}`);
  assert.equal(wire.body.status, 'partially_failed');

  publish(rsa);
  const back = await nextCheck(domain, { minutes: 61 });
  assert.deepEqual([back.status, back.failing_since], ['verified', null]);
  await journey.webhook(({ type, data }) => type === 'domain.recovered' && data.id === domain.id);
  await noCondition();
  const isBoth = async () => (await selectorsOf(domain)).length === 2;
  await waitFor(isBoth, { what: 'mail with both keys' });
  const again = await journey.service.cli('domains', 'verify', 'degraded.example');
  assert.equal(again.code, 0, again.stdout);
});

test('a record that a check by hand misses ends the command with 1 at once', async () => {
  const domain = await liveDomain('by-hand.example');
  unpublish(domain.records[0]);
  const first = await journey.service.cli('domains', 'verify', 'by-hand.example');
  assert.equal(first.code, 1);
  assert.match(
    first.stdout,
    /by-hand\.example is still verified: required records have been missing since/,
  );
  assert.equal((await show(domain)).status, 'verified');
  const second = await journey.service.cli('domains', 'verify', 'by-hand.example');
  assert.match(second.stdout, /by-hand\.example is degraded/);
  await journey.request('DELETE', `/v1/domains/${domain.id}`);
  // A removed domain needs no action.
  await noCondition();
});

test('a degraded domain is checked every hour, and fails after 72 hours', async () => {
  const domain = await liveDomain('failing.example');
  unpublish(domain.records[3]);
  await nextCheck(domain, { hours: 25 });
  await nextCheck(domain, { minutes: 6 });
  for (let hour = 1; hour <= 3; hour += 1) {
    assert.equal((await nextCheck(domain, { minutes: 61 })).status, 'degraded');
  }
  assert.deepEqual((await selectorsOf(domain)).length, 2, 'SPF has no part in signing');
  const failed = await nextCheck(domain, { hours: 72 });
  assert.equal(failed.status, 'failed');
  await journey.webhook(({ type, data }) => type === 'domain.failed' && data.id === domain.id);
  const condition = await oneCondition();
  assert.match(condition.message, /failing\.example stopped sending/);
  const refused = await journey.request('POST', '/v1/emails', {
    from: 'us@failing.example',
    to: 'jo@receiving.test',
    subject: 's',
    text: 't',
  });
  assert.equal(refused.body.error.code, 'domain_not_verified');
  publish(domain.records[3]);
  assert.equal((await nextCheck(domain, { minutes: 61 })).status, 'verified');
  await noCondition();
});

test('a DNS that does not answer degrades nothing', async () => {
  const domain = await liveDomain('silent.example');
  journey.dns.setFailure(domain.records[0].name, 'servfail');
  assert.equal((await nextCheck(domain, { hours: 25 })).status, 'verified');
  const unknown = await nextCheck(domain, { hours: 25 });
  assert.deepEqual([unknown.status, unknown.failing_since], ['verified', null]);
});
