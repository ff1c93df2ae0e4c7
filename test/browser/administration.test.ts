/** Limits, settings, the audit log and several rows at once, where an owner of the installation changes them. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, test } from 'node:test';
import type { Page } from 'playwright-core';
import { memberOf, OWNER, ownerOf } from '../support/browser.ts';
import { startBrowser } from '../support/chromium.ts';
import {
  assertGood,
  assertGoodInAllThemes,
  buildDashboard,
  chooseForRow,
  signedIn,
  takePage,
} from '../support/dashboard.ts';
import { startService } from '../support/service.ts';
import { eventually } from '../support/wait.ts';

await buildDashboard();
const [service, browser] = await Promise.all([
  startService({ env: { LETTERHAUS_LIMIT_AUTH: '1000/60' } }),
  startBrowser(),
]);
after(async () => {
  await browser[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
});
const owner = await ownerOf(service);
const cookies = signedIn(service, owner);
const project = String((await owner.get('/v1/session')).body.projects[0].id);
const pathOf = (screen: string) => `${service.url}/dashboard/${project}/test/${screen}`;
const limitRow = (page: Page, what: string) =>
  page.getByRole('region', { name: 'Limits' }).getByRole('row').filter({ hasText: what });

test('a limit is set in three clicks, beside who changed it last', async () => {
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(pathOf('emails'));
  await page.getByRole('link', { name: 'Projects' }).click();
  await page.getByRole('button', { name: 'Change accepted emails' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('At most').fill('5000');
  await assertGood(page);
  await dialog.getByRole('button', { name: 'Save' }).click();
  const row = limitRow(page, 'accepted emails');
  await row.getByText('5,000 a minute').waitFor();
  await row.getByText('this project').waitFor();
  await page.getByText(`Last change by ${OWNER.name}`).waitFor();
  await assertGoodInAllThemes(page);

  await page.getByRole('button', { name: 'Change accepted emails' }).click();
  await dialog.getByLabel('At most').fill('');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await row.getByText('LETTERHAUS_LIMIT_SENDING').waitFor();

  await page.getByRole('button', { name: 'Change content of emails' }).click();
  await dialog.getByLabel('Kept for').fill('400d');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await dialog.getByRole('alert').waitFor();
  await dialog.getByLabel('Kept for').fill('7d');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await limitRow(page, 'content of emails').getByText('kept for 7 days').waitFor();

  await page.getByRole('button', { name: 'Change the alert' }).click();
  await dialog.getByLabel('Bounces').fill('4%');
  await dialog.getByLabel('Hold new mail of that domain').check();
  await assertGood(page);
  await dialog.getByRole('button', { name: 'Save' }).click();
  await page.getByText(/Above 4% bounces .* New mail is then held/).waitFor();
});

test('an admin sees the limits and cannot change them', async () => {
  const admin = await memberOf(service, owner, 'admin');
  await using open = await takePage(browser, service, { cookies: signedIn(service, admin) });
  const { page } = open;
  await page.goto(pathOf('projects'));
  await limitRow(page, 'accepted emails').first().waitFor();
  assert.equal(await page.getByRole('button', { name: /^Change/ }).count(), 0);
  await page.goto(pathOf('settings?tab=installation'));
  await page.getByRole('heading', { name: 'Password' }).waitFor();
  assert.equal(await page.getByRole('heading', { name: 'Variables' }).count(), 0);
});

test('the audit log names people and objects, is filtered, and is saved as a file', async () => {
  const { body: domain } = await owner.post('/v1/domains', { name: 'gone.test' });
  await owner.request('DELETE', `/v1/domains/${domain.id}`);
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(pathOf('audit-log'));
  const rows = page.getByRole('region', { name: 'Audit log' }).getByRole('row');
  const deleted = rows.filter({ hasText: 'Deleted a domain gone.test' });
  await deleted.getByText(OWNER.name).waitFor();
  await page.getByLabel('Object', { exact: true }).selectOption('Domains');
  await eventually(async () => assert.equal(await rows.count(), 3));
  await page.getByLabel('Action', { exact: true }).selectOption('Deleted a domain');
  await eventually(async () => assert.equal(await rows.count(), 2));
  await assertGoodInAllThemes(page);
  const saved = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Export' }).click();
  await page.getByRole('menuitem', { name: 'CSV' }).click();
  const csv = await readFile(await (await saved).path(), 'utf8');
  assert.match(csv, /^id,created_at,action,object,/);
  assert.match(csv, /deleteDomain,domain,[\w-]+,gone\.test,member/);
  assert.equal(csv.trim().split('\r\n').length, 2);
  await page.getByText('1 entry was saved.').waitFor();

  const address = page.url();
  await page.getByRole('button', { name: 'Clear filters' }).click();
  await rows.filter({ hasText: 'Changed limits and settings' }).first().waitFor();
  await page.goto(address);
  await eventually(async () => assert.equal(await rows.count(), 2));
});

test('several suppressions are removed at once, and taken back together', async () => {
  const addresses = ['ann@many.test', 'bob@many.test', 'cy@many.test'];
  for (const address of addresses) await owner.post('/v1/suppressions', { address });
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(pathOf('suppressions'));
  await page.getByLabel('Select ann@many.test').check();
  await page.getByLabel('Select bob@many.test').check();
  await page.getByText('2 selected').waitFor();
  await assertGoodInAllThemes(page);
  await page.getByRole('button', { name: 'Remove 2' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Remove 2' }).click();
  await page.getByText('2 addresses can receive emails again.').waitFor();
  const left = async () =>
    (await owner.get('/v1/suppressions')).body.data.map((one: { address: string }) => one.address);
  assert.deepEqual(await left(), ['cy@many.test']);
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByLabel('Select bob@many.test').waitFor();
  await eventually(async () => assert.equal((await left()).length, 3));
});

test('a key is created with an expiry and rotated, and several are revoked at once', async () => {
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(pathOf('api-keys'));
  const dialog = page.getByRole('dialog');
  for (const name of ['Old shop', 'Old blog']) {
    await page.getByRole('button', { name: 'Create a key' }).click();
    await dialog.getByLabel('Name').fill(name);
    await dialog.getByLabel('Expires').selectOption('In 30 days');
    await dialog.getByRole('button', { name: 'Create' }).click();
    await dialog.getByText(/^lh_test_/).waitFor();
    await page.keyboard.press('Escape');
  }
  const row = (name: string) =>
    page.getByRole('region', { name: 'API keys' }).getByRole('row').filter({ hasText: name });
  await row('Old shop').locator('time').filter({ visible: true }).first().waitFor();
  await chooseForRow(page, 'Old shop', 'Rotate');
  await dialog.getByLabel('The old key works on').selectOption('Not at all');
  await assertGood(page);
  await dialog.getByRole('button', { name: 'Rotate' }).click();
  await dialog.getByText(/^lh_test_/).waitFor();
  await page.keyboard.press('Escape');
  await page.getByLabel('Select Old shop').first().check();
  await page.getByLabel('Select Old blog').check();
  await page.getByRole('button', { name: 'Revoke 2' }).click();
  await dialog.getByText('Revoke 2 keys?').waitFor();
  await dialog.getByRole('button', { name: 'Revoke' }).click();
  await eventually(async () => assert.equal(await row('Old blog').count(), 0));
});

test('TLS and tracking of a domain are set on its page', async () => {
  const { body: domain } = await owner.post('/v1/domains', { name: 'set.test' });
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(pathOf(`domains/${domain.id}`));
  await page.getByRole('button', { name: 'Change settings' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('TLS to mail servers').selectOption('Required, with a valid certificate');
  await dialog.getByLabel('Clicks').check();
  await assertGood(page);
  await dialog.getByRole('button', { name: 'Save' }).click();
  // The choice in the dialog has the same words.
  await dialog.waitFor({ state: 'detached' });
  await page.getByText('Required, with a valid certificate').waitFor();
  await page.getByText(`Last change by ${OWNER.name}`).waitFor();
  const { tls, tracking } = (await owner.get(`/v1/domains/${domain.id}`)).body;
  assert.deepEqual([tls, tracking], ['enforced', { opens: false, clicks: true }]);
});

test('a domain is shown in its own script, with its name in DNS', async () => {
  const { body: domain } = await owner.post('/v1/domains', { name: 'bücher.test' });
  assert.equal(domain.name, 'xn--bcher-kva.test');
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(pathOf('domains'));
  const list = page.getByRole('region', { name: 'Domains' });
  await list.getByText('xn--bcher-kva.test').waitFor();
  await list.getByRole('link', { name: 'bücher.test' }).click();
  await page.getByRole('heading', { name: 'bücher.test', exact: true }).waitFor();
  await page.getByText('xn--bcher-kva.test', { exact: true }).first().waitFor();
  await assertGood(page);
});

test('settings of the installation are changed where they are shown, and secrets have no value', async () => {
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(pathOf('settings'));
  await page.getByRole('link', { name: 'Installation' }).click();
  await page.getByRole('button', { name: 'Change the host' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Host').fill('bounces.acme.test');
  await dialog.getByRole('button', { name: 'Save' }).click();
  await page.getByText('bounces.acme.test').first().waitFor();
  await page.getByText(`Last change by ${OWNER.name}`).waitFor();
  await assertGoodInAllThemes(page);
  await page.getByLabel('Search variables').fill('limit_auth');
  await page.getByText('LETTERHAUS_HOSTNAME').waitFor({ state: 'detached' });
  await page.getByText('1000/60').waitFor();
});
