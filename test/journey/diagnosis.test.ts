/** Diagnoses: why an email is slow or missing, by DNS, by mail servers and by the queue. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { assertFailure, TIME, UNKNOWN_ID } from '../support/api.ts';
import { startJourney } from '../support/journey.ts';
import { waitFor } from '../support/wait.ts';

const folder = mkdtempSync(join(tmpdir(), 'letterhaus-diagnosis-'));
after(() => rmSync(folder, { recursive: true, force: true }));

/** The first connection without a reply suspends a provider. */
const SHAPING = join(folder, 'shaping.json');
writeFileSync(SHAPING, JSON.stringify({ suspension: { after_failures: 1 } }));

const journey = await startJourney({ LETTERHAUS_SHAPING: SHAPING });
after(() => journey[Symbol.asyncDispose]());

async function diagnosis(id: string) {
  const response = await journey.request('GET', `/v1/emails/${id}/diagnosis`);
  assert.equal(response.status, 200, response.text);
  return response.body;
}

async function recipientOf(id: string) {
  const { recipients } = await diagnosis(id);
  assert.equal(recipients.length, 1);
  return recipients[0];
}

test('a delivered email has its dialogue, and nothing holds it', async () => {
  const mx = await journey.mailServer('why-delivered.test');
  const id = await journey.send({ to: 'kim@why-delivered.test' });
  const { created_at } = await journey.ended(id);
  const { recipients, sender, expires_at, ...email } = await diagnosis(id);
  assert.deepEqual(email, {
    object: 'diagnosis',
    id,
    status: 'delivered',
    summary: 'The email is delivered: of 1 recipient, 1 delivered.',
    created_at,
    scheduled_at: null,
  });
  assert.match(expires_at, TIME);
  const { authentication, ...domain } = sender;
  assert.deepEqual(domain, { domain: 'acme.example', status: 'verified' });
  assert.equal(authentication.dkim[0].verdict, 'pass');
  assert.equal(authentication.spf.verdict, 'pass');
  assert.equal(authentication.dmarc.verdict, 'none');
  const [{ last_attempt, what_happened, next_step, ...rest }] = recipients;
  assert.deepEqual(rest, {
    address: 'kim@why-delivered.test',
    kind: 'to',
    status: 'delivered',
    attempts: 1,
    reason: null,
    held_by: null,
    route: null,
  });
  assert.ok(
    what_happened.startsWith(`Attempt 1: ${mx.name} [${mx.address}] replied to the message: 250 `),
    what_happened,
  );
  assert.match(next_step, /check the spam folder/);
  const { ended_at, duration_ms, smtp, dialogue, ...attempt } = last_attempt;
  assert.deepEqual(attempt, { number: 1, phase: 'data', in_doubt: false });
  assert.match(ended_at, TIME);
  assert.ok(duration_ms >= 0);
  assert.equal(smtp.mx, mx.name);
  assert.ok(dialogue.some((line: string) => /RCPT TO:<kim@why-delivered\.test>/.test(line)));
});

test('a greylisted email waits for the retry schedule, with the time of the next attempt', async () => {
  const mx = await journey.mailServer('why-greylisting.test', { greylist: 1 });
  const id = await journey.send({ to: 'kim@why-greylisting.test' });
  const email = await journey.attempted(id);
  const { held_by, what_happened, next_step, reason, route } = await recipientOf(id);
  assert.deepEqual([held_by.limit, reason.category], ['retry', 'greylist']);
  assert.equal(held_by.until, email.recipients[0].next_attempt_at);
  assert.match(
    held_by.message,
    /^Attempt 1 was deferred. The next attempt is at .* by the retry schedule/,
  );
  assert.match(what_happened, /^Attempt 1: .* replied to RCPT, which names the recipient: 4/);
  assert.equal(next_step, reason.advice);
  assert.deepEqual([route.verdict, route.mx[0].host], ['found', mx.name]);
  await journey.retry(id);
  assert.equal((await recipientOf(id)).held_by, null);
});

test('a bounced email names the reply, its reason and what to do', async () => {
  await journey.mailServer('why-bounced.test', { recipients: { kim: '550 5.1.1 Unknown user' } });
  const id = await journey.send({ to: 'kim@why-bounced.test' });
  await journey.ended(id);
  const { status, held_by, what_happened, next_step } = await recipientOf(id);
  assert.deepEqual([status, held_by], ['bounced', null]);
  assert.match(what_happened, /550 5\.1\.1 Unknown user$/);
  assert.match(next_step, /check the address/);
});

test('a domain without a mail server is explained by the answer of DNS', async () => {
  journey.dns.set('why-null.test', 'MX', ['0 .']);
  const id = await journey.send({ to: 'kim@why-null.test' });
  await journey.ended(id);
  const { what_happened, route, last_attempt } = await recipientOf(id);
  assert.match(what_happened, /^Attempt 1 failed at the look-up of its mail servers: .*null MX/);
  assert.deepEqual([route.verdict, route.mx], ['none', []]);
  assert.deepEqual([last_attempt.phase, last_attempt.dialogue], ['dns', []]);
});

test('a suppressed recipient is distinguished from those who got the email', async () => {
  const address = 'kim@why-suppressed.test';
  await journey.request('POST', '/v1/suppressions', { address });
  await journey.mailServer('why-other.test');
  const id = await journey.send({ to: [address, 'lee@why-other.test'] });
  await journey.ended(id);
  const { recipients, summary } = await diagnosis(id);
  assert.match(summary, /of 2 recipients, 1 suppressed, 1 delivered/);
  const [suppressed, delivered] = recipients;
  assert.deepEqual([suppressed.status, suppressed.last_attempt], ['suppressed', null]);
  assert.match(suppressed.what_happened, /suppression list/);
  assert.equal(delivered.status, 'delivered');
});

test('a scheduled email waits for its time; one that an operator holds, for its release', async () => {
  const scheduled_at = new Date(Date.now() + 86_400_000).toISOString();
  const id = await journey.send({ to: 'kim@why-later.test', scheduled_at });
  const scheduled = await recipientOf(id);
  assert.equal(scheduled.held_by.limit, 'schedule');
  assert.equal(scheduled.held_by.until, scheduled_at);
  assert.equal(scheduled.what_happened, 'No attempt has been made yet.');
  await journey.service.cliJson('queue', 'hold', '--email', id);
  const { held_by, next_step } = await recipientOf(id);
  assert.deepEqual([held_by.limit, held_by.until], ['hold', null]);
  assert.match(next_step, /queue release/);
  await journey.request('POST', `/v1/emails/${id}/cancel`);
  const canceled = await recipientOf(id);
  assert.equal(canceled.what_happened, 'The email was canceled before it was sent.');
});

test('mail of a paused domain waits for the end of the pause', async () => {
  const set = (value: string) =>
    journey.service.sql(`update domains set paused_at = ${value} where name = 'acme.example'`);
  await set('app_now()');
  const id = await journey.send({ to: 'kim@why-paused.test' });
  const { held_by, next_step } = await recipientOf(id);
  assert.equal(held_by.limit, 'pause');
  assert.match(next_step, /bounces or complaints/);
  await set('null');
  await journey.request('POST', `/v1/emails/${id}/cancel`);
});

test('a provider whose servers do not answer is suspended, and the email says so', async () => {
  const mx = await journey.mailServer('why-dead.test', {}, { provider: 'why-dead-provider.test' });
  await mx.stop();
  const id = await journey.send({ to: 'kim@why-dead.test' });
  await journey.attempted(id);
  const { what_happened, held_by } = await recipientOf(id);
  assert.match(
    what_happened,
    /^Attempt 1 failed at the connection of host\d+\.why-dead-provider\.test/,
  );
  assert.ok(['retry', 'suspension'].includes(held_by.limit), held_by.limit);
  const second = await journey.send({ to: 'lee@why-dead.test' });
  const suspended = await waitFor(
    async () => {
      const one = await recipientOf(second);
      return one.held_by?.limit === 'suspension' && one;
    },
    { what: 'the suspension to hold the email' },
  );
  assert.match(
    suspended.held_by.message,
    /^Deliveries to host\d+\.why-dead-provider\.test are suspended/,
  );
  for (const one of [id, second]) await journey.request('POST', `/v1/emails/${one}/cancel`);
});

test('name servers that do not answer leave the route unknown, and the response comes in seconds', async () => {
  journey.dns.setFailure('why-silent.test', 'timeout');
  const scheduled_at = new Date(Date.now() + 86_400_000).toISOString();
  const id = await journey.send({ to: 'kim@why-silent.test', scheduled_at });
  const startedMs = performance.now();
  const { route, held_by } = await recipientOf(id);
  assert.ok(performance.now() - startedMs < 30_000);
  assert.deepEqual([route.verdict, held_by.limit], ['unknown', 'schedule']);
  assert.match(route.problem, /did not respond within 3 s/);
  await journey.request('POST', `/v1/emails/${id}/cancel`);
});

test('letterhaus emails why prints the same', async () => {
  await journey.mailServer('why-cli.test', { recipients: { kim: '550 5.7.1 Blocked by policy' } });
  const id = await journey.send({ to: 'kim@why-cli.test' });
  await journey.ended(id);
  const { code, stdout } = await journey.service.cli('emails', 'why', id);
  assert.equal(code, 0, stdout);
  for (const line of [
    /^The email is bounced: of 1 recipient, 1 bounced\.$/m,
    /^Recipient +kim@why-cli\.test \(bounced\)$/m,
    /^Last +Attempt 1: .*550 5\.7\.1 Blocked by policy$/m,
    /^DNS +10 host\d+\.mx\.test \(TLS opportunistic\)$/m,
    /^Next step +\S/m,
    /^ {4}.*RCPT TO:<kim@why-cli\.test>/m,
    /^SPF +send\.acme\.example +pass/m,
  ]) {
    assert.match(stdout, line);
  }
  const json = await journey.service.cliJson('emails', 'why', id);
  assert.deepEqual(json.recipients, (await diagnosis(id)).recipients);
  assert.equal((await journey.service.cli('emails', 'why', UNKNOWN_ID)).code, 1);
});

test('an email of another project or environment does not exist', async () => {
  assertFailure(
    await journey.request('GET', `/v1/emails/${UNKNOWN_ID}/diagnosis`),
    404,
    'not_found',
  );
  assertFailure(await journey.request('GET', '/v1/emails/x/diagnosis'), 404, 'not_found');
});

test('an email of a test key is diagnosed without any look-up', async () => {
  const id = await journey.service.send({ to: 'full@simulator.test' });
  const { testKey: key } = journey.service;
  const look = async () => {
    const { body } = await journey.service.request('GET', `/v1/emails/${id}/diagnosis`, { key });
    return body.recipients[0].last_attempt !== null && body;
  };
  const { recipients, sender } = await waitFor(look, { what: 'an attempt' });
  const [{ what_happened, route }] = recipients;
  assert.match(what_happened, /simulator\.letterhaus\.invalid replied to RCPT.*452 4\.2\.2/);
  assert.equal(route.provider, 'simulator');
  assert.equal(sender.authentication.dkim[0].verdict, 'pass');
  assert.ok(!journey.dns.queries.some(({ name }) => name.includes('simulator')));
  await journey.service.request('POST', `/v1/emails/${id}/cancel`);
});
