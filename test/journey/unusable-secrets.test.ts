/**
 * The secret key of a running service does not open stored secrets: log, API and dashboard report it, and no mail is
 * lost.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { SecretBox } from '../../src/secrets/secret-box.ts';
import { startJourney } from '../support/journey.ts';
import { letterhaus } from '../support/letterhaus.ts';
import { startService } from '../support/service.ts';
import { eventually, waitFor } from '../support/wait.ts';
import { startReceiver } from '../support/webhook-receiver.ts';

const journey = await startJourney();
after(() => journey[Symbol.asyncDispose]());
const { service } = journey;
await service.addLiveDomain('beside.example');

type Row =
  | { table: 'domains'; column: 'rsa_private_key' }
  | { table: 'webhook_endpoints'; column: 'secret' };

const DKIM: Row = { table: 'domains', column: 'rsa_private_key' };
const WEBHOOK: Row = { table: 'webhook_endpoints', column: 'secret' };

/** Flips a bit of the sealed text, as a broken disk does; a second time, it is well again. */
async function flip({ table, column }: Row, id: string): Promise<void> {
  await service.sql(
    `update ${table} set ${column} = set_byte(${column}, 60, get_byte(${column}, 60) # 1) where id = $1`,
    [id],
  );
}

async function domainId(name: string): Promise<string> {
  const [row] = await service.sql(`select id from domains where name = $1`, [name]);
  return row.id;
}

const ready = () => service.request('GET', '/readyz', { key: null });
const verify = (id: string) => journey.request('POST', `/v1/domains/${id}/verify`);

/** Metrics and readiness are answered from a look that is up to a second old. */
function waitForUnusable(kind: string, count: number): Promise<unknown> {
  const line = `\nletterhaus_unusable_secrets{kind="${kind}"} ${count}\n`;
  const isCounted = async () => (await service.metrics()).text.includes(line);
  return waitFor(isCounted, { what: `${count} unusable: ${kind}` });
}

const warnings = (id: string) =>
  service.logs.split('\n').filter((line) => line.includes('does not open') && line.includes(id));
const isWarnedOnce = (id: string): Promise<void> =>
  eventually(() => assert.equal(warnings(id).length, 1, service.logs));

test('mail of a domain whose DKIM key does not open waits, and everything says why', async () => {
  const mx = await journey.mailServer('unsigned.test');
  const id = await domainId('acme.example');
  assert.deepEqual((await ready()).body, { status: 'ok' });
  await waitForUnusable('domain', 0);
  await flip(DKIM, id);

  const emails = [];
  for (const to of ['jo@unsigned.test', 'kim@unsigned.test']) {
    const email = await journey.send({ to });
    emails.push(email);
    await service.waitForStatus(email, 'deferred', { key: await journey.key() });
  }
  assert.equal(mx.messages.length, 0);
  const [email] = emails;
  const { recipients } = await journey.email(email!);
  assert.deepEqual(
    [recipients[0].reason.blame, recipients[0].reason.category],
    ['us', 'authentication'],
  );
  assert.match(recipients[0].reason.advice, /cannot open its DKIM key of acme\.example/);
  await isWarnedOnce(id);

  const why = await journey.request('GET', `/v1/emails/${email}/diagnosis`);
  const [recipient] = why.body.recipients;
  assert.equal(recipient.held_by.limit, 'signing_key');
  assert.match(recipient.what_happened, /cannot open its DKIM key/);
  assert.match(recipient.next_step, /^The operator must restore the secret key/);
  const said = await service.cli('emails', 'why', email!);
  assert.match(said.stdout, /The operator must restore the secret key/);

  const { body } = await verify(id);
  assert.deepEqual([body.status, body.can_sign, body.advice[0].about], ['verified', false, 'dkim']);
  assert.match(body.advice[0].message, /cannot open the DKIM keys of this domain/);
  const verified = await service.cli('domains', 'verify', 'acme.example');
  assert.equal(verified.code, 1);
  assert.match(verified.stdout, /^acme\.example cannot send: the secret key .*restore/);
  const listed = await service.cli('domains', 'list');
  assert.match(listed.stdout, /! acme\.example \(live\): the secret key/);

  await waitForUnusable('domain', 1);
  const hasWarnings = async () => (await ready()).body.warnings !== undefined;
  await waitFor(hasWarnings, { what: 'the warning' });
  assert.deepEqual((await ready()).body, {
    status: 'ok',
    warnings: ['The secret key does not open the secrets of: 1 sending domains.'],
  });

  // Another domain is not affected, until its key is damaged as well: then nothing can be sent.
  const other = await journey.send({ from: 'a@beside.example', to: 'lee@unsigned.test' });
  await journey.ended(other);
  const beside = await domainId('beside.example');
  await flip(DKIM, beside);
  assert.equal((await verify(beside)).body.can_sign, false);
  const isNotReady = async () => (await ready()).status === 503;
  await waitFor(isNotReady, { what: 'the service to be not ready' });
  assert.match((await ready()).body.error.message, /^No mail is sent: the secret key/);

  await flip(DKIM, beside);
  await flip(DKIM, id);
  for (const one of [id, beside]) assert.equal((await verify(one)).body.can_sign, true);
  const again = await service.cli('domains', 'verify', 'acme.example');
  assert.deepEqual(
    [again.code, again.stdout.split('\n', 1)[0]],
    [0, 'acme.example is verified: it can send.'],
  );
  await service.clock.advance({ hours: 1 });
  for (const one of emails) await journey.ended(one);
  assert.deepEqual(await journey.story(email!), ['queued', 'delivery_delayed', 'delivered']);
  await waitForUnusable('domain', 0);
  await waitFor(async () => (await ready()).status === 200, { what: 'the service to be ready' });
});

test('a damaged row is found although nothing is sent, and reported as well again', async () => {
  const mended = () => service.logs.includes('opens a secret again');
  const id = await domainId('beside.example');
  await flip(DKIM, id);
  await service.stop();
  await service.restart();
  await waitForUnusable('domain', 1);
  await isWarnedOnce(id);
  await flip(DKIM, id);
  await waitFor(mended, { what: 'the mended row to be found' });
  await waitForUnusable('domain', 0);
});

test('webhooks of an endpoint whose secret does not open wait, and a new secret mends it', async () => {
  await using receiver = await startReceiver();
  const { body } = await journey.request('POST', '/v1/webhooks', {
    url: receiver.url,
    events: ['email.delivered'],
  });
  await flip(WEBHOOK, body.id);
  await journey.mailServer('unsigned-webhook.test');
  const email = await journey.send({ to: 'jo@unsigned-webhook.test' });
  await journey.ended(email);
  await waitForUnusable('webhook', 1);
  await isWarnedOnce(body.id);
  assert.equal(receiver.received.length, 0);
  const tested = await journey.request('POST', `/v1/webhooks/${body.id}/test`);
  assert.equal(tested.status, 503, tested.text);
  assert.match(tested.body.error.message, /cannot open a stored secret/);

  const rotated = await journey.request('POST', `/v1/webhooks/${body.id}/rotate-secret`);
  assert.equal(rotated.status, 200, rotated.text);
  await waitForUnusable('webhook', 0);
  await service.clock.advance({ minutes: 2 });
  const [received] = await receiver.waitForCount(1);
  assert.equal(received!.event.type, 'email.delivered');
});

test('a node whose key is not that of the database any more ends, and its mail stays for others', async () => {
  await using node = await startService({ database: 'shared' });
  const file = join(node.dataDir, 'secrets', 'secret-key');
  const old = new SecretBox(readFileSync(file, 'utf8').trim());
  const key = 'the key that the restored database was sealed with';
  const restored = new SecretBox(key);
  const reseal = async (table: string, column: string): Promise<void> => {
    for (const { id, sealed } of await node.sql(`select id, ${column} as sealed from ${table}`)) {
      const value = restored.seal(old.open(sealed, id), id);
      await node.sql(`update ${table} set ${column} = $2 where id = $1`, [id, value]);
    }
  };
  await reseal('domains', 'rsa_private_key');
  await reseal('domains', 'ed25519_private_key');
  // The node ends within a second of the next change.
  const id = await node.send({ to: 'delivered@simulator.test' });
  const check = restored.seal('x', 'installation');
  await node.sql('update installation set secret_check = $1', [check]);
  assert.equal(await node.ended(), 1);
  await node.logged(/The secret key of this node \([0-9a-f]{8}\) does not open the secrets/);
  const waiting = await node.sql('select email_id as id from queue');
  assert.deepEqual(waiting, [{ id }]);

  const refused = await letterhaus(['start'], node.env);
  assert.equal(refused.code, 2);
  assert.match(refused.stderr, /does not open the secrets in the database, which key [0-9a-f]{8}/);
  node.env['LETTERHAUS_SECRET_KEY'] = key;
  await node.restart();
  await node.clock.advance({ hours: 1 });
  await node.waitForStatus(id, 'delivered');
});
