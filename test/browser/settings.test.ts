/** Webhooks, domains and suppressions on their pages, with a real receiver and a DNS server that changes. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, test } from 'node:test';
import { ownerOf } from '../support/browser.ts';
import { startBrowser } from '../support/chromium.ts';
import {
  assertGood,
  buildDashboard,
  chooseForRow,
  signedIn,
  takePage,
} from '../support/dashboard.ts';
import { startFakeDns } from '../support/fake-dns.ts';
import { startService } from '../support/service.ts';
import { eventually } from '../support/wait.ts';
import { startReceiver, verified } from '../support/webhook-receiver.ts';

await buildDashboard();
const dns = await startFakeDns();
const [service, browser] = await Promise.all([
  startService({
    dns,
    env: {
      LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1',
      LETTERHAUS_LIMIT_SENDING: '1000/60',
      LETTERHAUS_LIMIT_VERIFICATION: '1000/60',
    },
  }),
  startBrowser(),
]);
after(async () => {
  await browser[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
  await dns[Symbol.asyncDispose]();
});
const owner = await ownerOf(service);
const cookies = signedIn(service, owner);
const project = String((await owner.get('/v1/session')).body.projects[0].id);
const pathOf = (screen: string) => `${service.url}/dashboard/${project}/test/${screen}`;

test('a failing webhook is shown, and its failed events are replayed', async () => {
  await using receiver = await startReceiver();
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(pathOf('webhooks'));
  await page.getByRole('button', { name: 'Add a webhook' }).click();
  await page.getByLabel('URL').fill(receiver.url);
  await page.getByLabel('Selected events').check();
  await page.getByLabel('email.delivered').check();
  await assertGood(page);
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  const secret = (await page.getByText(/^whsec_/).textContent())!;
  await page.getByText('verifyWebhook').first().waitFor();
  await page.getByRole('button', { name: 'Close' }).click();
  await page.getByRole('link', { name: receiver.url }).click();
  await page.getByRole('heading', { name: receiver.url }).waitFor();

  // 410 ends a delivery at once, and disables the webhook.
  receiver.behaviour = 410;
  await service.send({ to: 'delivered@simulator.test' });
  const [failed] = await receiver.waitForCount(1);
  verified(secret, failed!);
  await page.getByRole('button', { name: 'Enable' }).waitFor();
  await page.getByText('The receiver answers 410').waitFor();
  await page.getByLabel('Status').selectOption('Failed');
  const rows = page.getByRole('region', { name: 'List of deliveries' });
  await rows.getByText('delivered@simulator.test').waitFor();
  await rows.getByText('failed').waitFor();
  await assertGood(page);

  receiver.behaviour = 200;
  await page.getByRole('button', { name: 'Enable' }).click();
  await page.getByText('enabled', { exact: true }).waitFor();
  await rows.getByRole('button', { name: 'email.delivered' }).click();
  const delivery = page.getByRole('dialog', { name: 'Delivery' });
  await delivery.getByText('410').first().waitFor();
  await delivery.getByRole('button', { name: 'Replay' }).click();
  await delivery.waitFor({ state: 'detached' });
  await receiver.waitForCount(2);
  assert.equal(new Set(receiver.ids()).size, 1, 'the same id');
  await page.getByLabel('Status').selectOption('Any status');
  await page
    .getByRole('heading', { name: 'Working: every attempt of the last 24 hours' })
    .waitFor();

  await page.getByRole('button', { name: 'More actions' }).click();
  await page.getByRole('menuitem', { name: 'Replay events' }).click();
  await page.getByLabel('Events', { exact: true }).selectOption('All events');
  await assertGood(page);
  await page.getByRole('dialog').getByRole('button', { name: 'Replay events' }).click();
  await page.getByRole('status').getByText('Replayed: 1 of 1 delivery').waitFor();
  await receiver.waitForCount(3);
  assert.equal(new Set(receiver.ids()).size, 1, 'the same id');
});

test('a webhook is changed, gets another secret, and is disabled', async () => {
  await using receiver = await startReceiver();
  const hook = { url: `${receiver.url}/first` };
  const { body: webhook } = await service.request('POST', '/v1/webhooks', { body: hook });
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(pathOf(`webhooks/${webhook.id}`));
  const choose = async (action: string): Promise<void> => {
    await page.getByRole('button', { name: 'More actions' }).click();
    await page.getByRole('menuitem', { name: action }).click();
  };
  await choose('Edit');
  await page.getByLabel('URL').fill(`${receiver.url}/second`);
  await page.getByRole('button', { name: 'Save' }).click();
  await page.getByRole('heading', { name: `${receiver.url}/second` }).waitFor();

  await choose('Rotate secret');
  await page.getByRole('dialog').getByRole('button', { name: 'Rotate secret' }).click();
  const secret = (await page.getByText(/^whsec_/).textContent())!;
  await page.getByRole('button', { name: 'Close' }).click();
  await page.getByRole('button', { name: 'Send a test event' }).click();
  await page.getByLabel('Event', { exact: true }).last().selectOption('email.bounced, an example');
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  const [received] = await receiver.waitForCount(1);
  assert.deepEqual([received!.path, received!.event.type], ['/second', 'email.bounced']);
  verified(secret, received!);
  verified(webhook.signing_secret, received!);
  await page.getByRole('dialog').getByText('200').first().waitFor();
  await page.getByRole('button', { name: 'Close' }).click();

  await choose('Check a signature');
  await page.getByLabel('Headers').fill(JSON.stringify(received!.headers));
  await page.getByLabel('Body as received').fill(JSON.stringify(received!.event, null, 2));
  await page.getByLabel('Signing secret').fill(secret);
  await page.getByRole('button', { name: 'Check', exact: true }).click();
  await page.getByRole('alert').getByText('A parser has formatted it').waitFor();
  await page.getByLabel('Body as received').fill(received!.body);
  await page.getByRole('button', { name: 'Check', exact: true }).click();
  await page.getByRole('status').getByText('The signature is valid.').waitFor();
  await assertGood(page);
  await page.getByRole('button', { name: 'Close' }).click();

  await choose('Disable');
  await page.getByRole('dialog').getByRole('button', { name: 'Disable' }).click();
  await page.getByText('This webhook was disabled in the dashboard or through the API.').waitFor();
  const { status } = (await service.request('GET', `/v1/webhooks/${webhook.id}`)).body;
  assert.equal(status, 'disabled');

  await page.goto(pathOf('overview'));
  const { host } = new URL(receiver.url);
  await page.getByText(`The webhook at ${host} is disabled.`).waitFor();
  await assertGood(page);
  await page.getByRole('link', { name: 'Enable webhook' }).click();
  await page.getByRole('button', { name: 'Enable' }).click();
  await page.getByText('enabled', { exact: true }).waitFor();
  await service.request('DELETE', `/v1/webhooks/${webhook.id}`);
});

test('a domain with wrong records says which, is verified once they are right, and gets other keys', async () => {
  const name = 'zone.example';
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(`${service.url}/dashboard/${project}/live/domains`);
  await page.getByRole('button', { name: 'Add a domain' }).click();
  await page.getByLabel('Domain', { exact: true }).fill(name);
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.getByRole('heading', { name }).waitFor();
  await page.waitForURL(/\/domains\/[\w-]{36}$/);
  const id = page.url().split('/').at(-1);
  const path = `/v1/domains/${id}`;
  const { body: domain } = await service.request('GET', path, { key: await service.liveKey() });

  const saved = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Download zone file' }).click();
  const zone = await readFile(await (await saved).path(), 'utf8');
  for (const record of domain.records) {
    const line = zone
      .split('\n')
      .find((one) => one.startsWith(`${record.name}. `) && one.includes(` IN ${record.type} `));
    assert.ok(line?.replaceAll('" "', '').includes(record.value), `${record.name} ${record.type}`);
  }

  dns.set(name, 'A', ['192.0.2.80']);
  for (const { type, name: at, value, priority } of domain.records) {
    const right = type === 'MX' ? `${priority} ${value}` : value;
    const isSpf = type === 'TXT' && value.startsWith('v=spf1');
    dns.set(at, type, [isSpf ? 'v=spf1 -all' : right]);
  }
  await page.getByRole('button', { name: 'Check now' }).click();
  const spf = page.getByRole('listitem', { name: /^SPF record/ });
  await spf.getByText('different').waitFor();
  await spf.getByText('v=spf1 -all').waitFor();
  await assertGood(page);

  const { name: at, value } = domain.records.find(
    (one: { record: string }) => one.record === 'SPF',
  );
  dns.set(at, 'TXT', [value]);
  await page.getByRole('button', { name: 'Check now' }).click();
  await spf.getByText('found').waitFor();
  await page.getByText('verified', { exact: true }).waitFor();
  await assertGood(page);

  const more = page.getByRole('button', { name: 'More actions' });
  await more.click();
  await page.getByRole('menuitem', { name: 'Rotate DKIM keys' }).click();
  const next = page.getByText('TXT, next key');
  await eventually(async () => assert.equal(await next.count(), 2));
  await page.getByText('new DKIM keys wait for their records').waitFor();
  await assertGood(page);
  await more.click();
  await page.getByRole('menuitem', { name: 'Cancel rotation' }).click();
  await eventually(async () => assert.equal(await next.count(), 0));
});

test('a list of suppressions is imported, and the invalid lines are named', async () => {
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(pathOf('suppressions'));
  await page.getByRole('button', { name: 'Import' }).click();
  await page.getByLabel('File').setInputFiles({
    name: 'list.csv',
    mimeType: 'text/csv',
    buffer: Buffer.from('address\nann@example.com\nnobody\nbob@example.com\n@example.com\n'),
  });
  await page.getByRole('dialog').getByRole('button', { name: 'Import' }).click();
  await page.getByText('2 added, 0 already listed, 2 rejected.').waitFor();
  const rejected = page.getByRole('list', { name: 'Rejected lines' });
  await rejected.getByText('Line 3').waitFor();
  await rejected.getByText('Line 5').waitFor();
  await assertGood(page);
  await page.keyboard.press('Escape');
  await page.getByRole('cell', { name: 'ann@example.com', exact: true }).waitFor();
});

test('the environments are apart, and one click from each other', async () => {
  await service.send({ to: 'delivered@simulator.test', subject: 'Only in test' });
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(pathOf('emails'));
  await page.getByText('Only in test').waitFor();
  const chooseScope = async (environment: string): Promise<void> => {
    const environments = page.getByRole('group', { name: 'Environment' });
    await environments.getByRole('link', { name: environment }).click();
    await page.waitForURL(`**/${environment}/emails`);
  };
  await chooseScope('live');
  await page.getByRole('heading', { name: 'No emails yet' }).waitFor();
  const banner = page.getByText('Test environment: all emails are simulated.');
  await banner.waitFor({ state: 'detached' });
  await chooseScope('test');
  await page.getByText('Only in test').waitFor();
  await banner.waitFor();
});

test('a key is made, shown once and works until it is revoked', async () => {
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(pathOf('api-keys'));
  await page.getByRole('button', { name: 'Create a key' }).click();
  await page.getByLabel('Name').fill('Shop');
  await page.getByRole('button', { name: 'Create', exact: true }).click();
  const key = (await page.getByText(/^lh_test_\w{38}$/).textContent())!;
  const list = () => service.request('GET', '/v1/emails', { key });
  assert.equal((await list()).status, 200);
  await page.getByRole('button', { name: 'Close' }).click();
  const limitTo = async (networks: string) => {
    await chooseForRow(page, 'Shop', 'Change');
    await page.getByLabel('Used only from networks').fill(networks);
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByRole('dialog').waitFor({ state: 'detached' });
  };
  await limitTo('203.0.113.0/24, 2001:db8::/32');
  await page
    .getByText('Used from 203.0.113.0/24, 2001:db8::/32')
    .filter({ visible: true })
    .waitFor();
  assert.equal((await list()).status, 403);
  await limitTo('');
  assert.equal((await list()).status, 200);
  await chooseForRow(page, 'Shop', 'Revoke');
  await page.getByRole('button', { name: 'Revoke', exact: true }).click();
  // Behind an open dialog nothing has a role.
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'More actions for Shop' }).waitFor({ state: 'detached' });
  assert.equal((await list()).status, 401);
  assert.equal((await page.content()).includes(key), false);
});
