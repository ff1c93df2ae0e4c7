/** The page Setup, from a new installation to a live email that has arrived, in a real browser. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { after, test } from 'node:test';
import { promisify } from 'node:util';
import type { Cookie, Page } from 'playwright-core';
import { fromZoneFile, asRecordType } from '../../src/net/dns-provider/record-text.ts';
import { OWNER } from '../support/browser.ts';
import { startBrowser } from '../support/chromium.ts';
import { assertGoodInAllThemes, buildDashboard, takePage } from '../support/dashboard.ts';
import {
  PROVIDER_TOKEN,
  startDnsProviderServer,
  type ZoneRecord,
} from '../support/dns-provider-server.ts';
import { LAB_HOST, startLabDns, startReceivers } from '../support/doctor-lab.ts';
import type { FakeRecordType } from '../support/fake-dns.ts';
import { startService } from '../support/service.ts';

const run = promisify(execFile);
const DOMAIN = 'harbor.example';
const SPF = `send.${DOMAIN}`;

await buildDashboard();
const dns = await startLabDns();
const { gmail, yahoo, port: mxPort } = await startReceivers();
dns.set('acme.test', 'MX', ['5 gmail.receivers.test']);
const provider = await startDnsProviderServer('hetzner', {
  [DOMAIN]: [
    { name: SPF, type: 'TXT', value: '"v=spf1 include:_spf.other.example -all"', ttlS: 300 },
  ],
});
provider.onChange = (_zone, records) => publish(records);

/** The DNS server answers what the provider has. */
function publish(records: readonly ZoneRecord[]): void {
  for (const [key, set] of Map.groupBy(records, ({ name, type }) => `${name} ${type}`)) {
    const [name = '', type = ''] = key.split(' ');
    const values = set.map(({ value }) => fromZoneFile(asRecordType(type) ?? 'TXT', value));
    dns.set(name, type as FakeRecordType, values);
  }
}
publish(provider.records(DOMAIN));

const [service, browser] = await Promise.all([
  startService({
    dns,
    env: {
      LETTERHAUS_HOSTNAME: LAB_HOST,
      LETTERHAUS_SOURCE_IPS: '127.0.0.1',
      LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1',
      LETTERHAUS_MX_PORT: String(mxPort),
      LETTERHAUS_DNS_PROVIDER: 'hetzner',
      HCLOUD_TOKEN: PROVIDER_TOKEN,
      LETTERHAUS_DNS_API_URL: provider.access.baseUrl ?? '',
      LETTERHAUS_LIMIT_VERIFICATION: '1000/60',
    },
  }),
  startBrowser(),
]);
after(async () => {
  await browser[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
  await provider[Symbol.asyncDispose]();
  await Promise.all([gmail, yahoo].map((one) => one[Symbol.asyncDispose]()));
  await dns[Symbol.asyncDispose]();
});

let cookies: Cookie[] = [];
let address = '';

const stepOf = (page: Page, title: string) =>
  page.getByRole('list', { name: 'Steps' }).getByRole('listitem').filter({ hasText: title });
const openStep = async (page: Page, title: string) => {
  const step = stepOf(page, title);
  await step.waitFor();
  if ((await step.locator('details[open]').count()) === 0) await step.locator('summary').click();
  return step;
};

test('the first visit leads to the setup, and a key and a program that sends are one click away', async () => {
  await using open = await takePage(browser, service);
  const { page } = open;
  await page.goto(service.readyLine.sign_in_url ?? '');
  await page.getByLabel('Email').fill(OWNER.email);
  await page.getByLabel('Name').fill(OWNER.name);
  await page.getByLabel('Password').fill(OWNER.password);
  await page.getByRole('button', { name: 'Create account' }).click();
  await page.getByRole('heading', { name: 'Setup', exact: true }).waitFor();
  cookies = await page.context().cookies();
  address = page.url().replace(/\/setup.*/, '');

  const step = await openStep(page, 'First email, in test');
  await step.getByText('YOUR_TEST_KEY').first().waitFor();
  await step.getByRole('button', { name: 'Create a test key' }).click();
  await step.getByText('Your key is filled in').waitFor();
  const curl = (await step.getByLabel('program', { exact: true }).textContent()) ?? '';
  assert.match(curl, /Bearer lh_test_\w+/);
  await assertGoodInAllThemes(page);

  await step.getByRole('link', { name: 'Node.js' }).click();
  const program = step.getByLabel('program', { exact: true }).filter({ hasText: 'await fetch' });
  const node = (await program.textContent()) ?? '';
  const { stdout } = await run(process.execPath, ['--input-type=module', '-e', node]);
  assert.match(stdout, /^202 /);
  await step.getByRole('status').getByText('delivered', { exact: true }).waitFor();
  await stepOf(page, 'API key').getByText('Setup, used').waitFor();
  await page.getByText('Sending in test works.').waitFor();
});

test('a domain is published at the DNS provider, and what is in the way is shown as a difference', async () => {
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(`${address}/setup?step=domain`);
  const step = stepOf(page, 'Your domain');
  await step.getByLabel('Domain of your sender addresses').fill(DOMAIN);
  await step.getByRole('button', { name: 'Add the domain' }).click();
  const records = stepOf(page, `Domain ${DOMAIN}`);
  await records.getByRole('list', { name: `Records of ${DOMAIN}` }).waitFor();
  await records.getByLabel('DNS provider').selectOption('Amazon Route 53');
  await records.getByText(`10 ${LAB_HOST}`, { exact: true }).waitFor();
  await records.getByRole('button', { name: 'Publish at Hetzner' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Show what is missing' }).click();
  await dialog.getByText('SPF is blocked').waitFor();
  await assertGoodInAllThemes(page);
  await dialog.getByRole('button', { name: /^Add \d records/ }).click();
  await dialog.getByRole('button', { name: 'Check again' }).waitFor();
  await page.keyboard.press('Escape');

  await records.getByLabel('DNS provider').selectOption('Another provider');
  await records.getByText('Different').waitFor();
  const merged = records.getByText(/^Wanted: .*v=spf1 .+ include:_spf\.other\.example -all/);
  await merged.waitFor();
  await assertGoodInAllThemes(page);
  const wanted = /v=spf1.*/.exec((await merged.textContent()) ?? '')?.[0] ?? '';
  dns.set(SPF, 'TXT', [wanted]);
  await records.getByRole('button', { name: 'Check now' }).click();
  await records.getByText('Verified').waitFor();
});

test('the first live email goes to the member, and its outcome appears', async () => {
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(`${address}/setup?step=live_email`);
  const step = stepOf(page, 'First live email');
  await step.getByRole('button', { name: `Send to ${OWNER.email}` }).click();
  await step.getByRole('status').getByText('delivered', { exact: true }).waitFor();
  assert.equal(gmail.messages.length, 1);
  await stepOf(page, 'First live email').getByText('Delivered').first().waitFor();
  await assertGoodInAllThemes(page);
});

test('the machine, bounces, backups and alerts say what is missing and how to set it', async () => {
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(`${address}/setup?step=server`);
  const server = stepOf(page, 'Server reaches the internet');
  await server.getByRole('link', { name: 'All checks' }).waitFor();
  const backups = await openStep(page, 'Backups');
  await backups.getByText('LETTERHAUS_BACKUP_TO=').waitFor();
  const alerts = await openStep(page, 'Alerts');
  await alerts.getByText('LETTERHAUS_OPERATOR_ADDRESS=').waitFor();
  await (await openStep(page, 'Webhook')).getByRole('link', { name: 'Add a webhook' }).waitFor();
  await openStep(page, 'Incoming bounces');
  await assertGoodInAllThemes(page);
});
