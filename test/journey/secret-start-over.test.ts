/** The secret key is lost: a new one replaces it, and mail waits until its domain has new DKIM keys. */
import assert from 'node:assert/strict';
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { startJourney } from '../support/journey.ts';
import { waitFor } from '../support/wait.ts';
import { startReceiver } from '../support/webhook-receiver.ts';

const journey = await startJourney();
after(() => journey[Symbol.asyncDispose]());
const { service, dns } = journey;
const receiver = await startReceiver();
after(() => receiver[Symbol.asyncDispose]());

const folder = join(service.dataDir, 'secrets');
const file = join(folder, 'secret-key');
const startOver = (...args: string[]) => service.cli('secrets', 'start-over', ...args);

async function rotateAndPublish(): Promise<void> {
  const { code, stdout, stderr } = await service.cli(
    'domains',
    'rotate-dkim',
    'acme.example',
    '--json',
  );
  assert.equal(code, 0, stderr);
  for (const { key, name, type, value } of JSON.parse(stdout).records) {
    if (key === 'next') dns.set(name, type, [value]);
  }
  const verified = await service.cli('domains', 'verify', 'acme.example');
  assert.equal(verified.code, 0, verified.stdout);
}

/** How many of the domain and this webhook have a secret that the key does not open. */
async function toRenew(webhookId: string): Promise<number> {
  const [row] = await service.sql(
    `select count(*)::int as count from unusable_secrets
      where id = $1 or id in (select id from domains where name = 'acme.example')`,
    [webhookId],
  );
  return row.count;
}

test('a new key is refused while the current one opens the database', async () => {
  const { code, stderr } = await startOver('--yes');
  assert.equal(code, 1);
  assert.match(stderr, /Nothing is lost: .*`letterhaus secrets rotate` replaces it/);
});

test('after the loss of the key the installation starts over, and loses no mail', async () => {
  const mx = await journey.mailServer('waiting.test');
  const { body: webhook } = await journey.request('POST', '/v1/webhooks', {
    url: receiver.url,
    events: ['email.delivered'],
  });
  // Keys that were rotated in this week can be rotated again when they are lost.
  await rotateAndPublish();
  const at = new Date(Date.now() + 2 * 3_600_000).toISOString();
  const id = await journey.send({ to: 'jo@waiting.test', scheduled_at: at });
  await service.stop();

  const lost = readFileSync(file, 'utf8');
  rmSync(file);
  mkdirSync(file);
  assert.match(
    (await startOver('--yes')).stderr,
    /cannot be read \(EISDIR\)\. Make it readable first/,
  );
  rmSync(file, { recursive: true });
  writeFileSync(file, 'another key, which is long enough to be one');
  assert.equal((await service.cli('start')).code, 2);
  const asked = await startOver();
  assert.equal(asked.code, 1);
  assert.match(asked.stderr, /are lost with the key\. .* Nothing was changed; add --yes\./);
  assert.equal(readFileSync(file, 'utf8'), 'another key, which is long enough to be one');

  // Two calls at once: one of them makes the key.
  const calls = await Promise.all([startOver('--yes'), startOver('--yes')]);
  const [done, other] = calls.toSorted((a, b) => a.code - b.code);
  assert.deepEqual([done!.code, other!.code], [0, 1], done!.stderr);
  assert.match(other!.stderr, /Another call has just made a key|Nothing is lost/);
  const { stdout } = done!;
  assert.match(stdout, / domains rotate-dkim acme\.example /);
  assert.match(stdout, new RegExp(` webhooks rotate-secret ${webhook.id}$`, 'm'));
  const [aside] = readdirSync(folder).filter((name) => name.startsWith('secret-key.before-'));
  assert.match(readFileSync(join(folder, aside!), 'utf8'), /^another key/);
  assert.notEqual(readFileSync(file, 'utf8'), lost);
  assert.equal((await startOver('--yes')).code, 1);

  assert.equal(await toRenew(webhook.id), 2);

  await service.restart();
  const verified = await service.cli('domains', 'verify', 'acme.example');
  assert.match(verified.stdout, /^acme\.example cannot send: .*letterhaus domains rotate-dkim/);
  await journey.pass({ hours: 2 });
  await service.waitForStatus(id, 'deferred', { key: await journey.key() });
  assert.equal(mx.messages.length, 0);

  await rotateAndPublish();
  const rotated = await service.cli('webhooks', 'rotate-secret', webhook.id);
  assert.equal(rotated.code, 0, rotated.stderr);
  await journey.pass({ hours: 1 });
  await journey.ended(id);
  assert.equal((await journey.email(id)).status, 'delivered');
  assert.match(mx.messages[0]!.raw.toString(), /^DKIM-Signature: /m);
  const [received] = await receiver.waitForCount(1);
  assert.equal(received!.event.type, 'email.delivered');
  const areRenewed = async () => (await toRenew(webhook.id)) === 0;
  await waitFor(areRenewed, { what: 'both to count as renewed' });

  // The lost key turns up: what it had sealed opens again, and is sealed anew.
  await service.stop();
  writeFileSync(file, `${readFileSync(file, 'utf8').trim()},${lost}`);
  const sealed = await service.cli('secrets', 'rotate');
  assert.equal(sealed.code, 0, sealed.stderr);
  assert.match(sealed.stdout, /All secrets are sealed with the new key/);
});
