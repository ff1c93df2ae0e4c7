/** The test inbox of the dashboard in a real browser, on a real service: one of each for all tests. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Page } from 'playwright-core';
import { ownerOf } from '../support/browser.ts';
import { startBrowser } from '../support/chromium.ts';
import {
  assertAccessible,
  assertGoodInAllThemes,
  buildDashboard,
  goToLive,
  type OpenPage,
  signedIn,
  takePage,
  visit,
} from '../support/dashboard.ts';
import { startService } from '../support/service.ts';
import { eventually } from '../support/wait.ts';

await buildDashboard();
const [service, browser] = await Promise.all([startService(), startBrowser()]);
after(async () => {
  await browser[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
});

const owner = await ownerOf(service);
const project = String((await owner.get('/v1/session')).body.projects[0].id);
const HOME = `${service.url}/dashboard/${project}`;

async function open(path: string): Promise<OpenPage> {
  const opened = await takePage(browser, service, { cookies: signedIn(service, owner) });
  await opened.page.goto(`${HOME}/${path}`);
  return opened;
}

const rowOf = (page: Page, text: string) =>
  page.getByRole('list', { name: 'Emails' }).getByRole('link').filter({ hasText: text });

test('an email arrives as it is sent, and is shown as its reader sees it', async () => {
  await using opened = await open('test/test-inbox');
  const { page } = opened;
  await goToLive(page, `${HOME}/test/test-inbox`);
  await page.getByRole('heading', { name: 'No emails yet' }).waitFor();
  const attachments = [{ filename: 'receipt.txt', content: Buffer.from('12').toString('base64') }];
  await service.send({
    from: 'Acme <hello@acme.test>',
    to: ['jo@example.com', 'ann@example.com'],
    subject: 'Your receipt',
    html: '<h1>Thank you, Jo</h1><p><a href="https://acme.test/orders">Your order</a></p>',
    attachments,
  });
  const row = rowOf(page, 'Your receipt');
  await row
    .getByTitle('Acme <hello@acme.test>')
    .filter({ hasText: /^Acme$/ })
    .waitFor();
  await row.getByText('to jo@example.com, ann@example.com').waitFor();
  await row.click();
  const frame = page.frameLocator('iframe[title="Preview of the email"]');
  await frame.getByRole('heading', { name: 'Thank you, Jo' }).waitFor();
  await page.getByRole('button', { name: 'Download receipt.txt' }).waitFor();
  await page.getByRole('button', { name: 'Phone' }).click();
  await page.waitForURL(/width=375/);
  const box = page.getByTitle('Preview of the email');
  await eventually(async () => assert.equal((await box.boundingBox())?.width, 375));
  await page.getByRole('button', { name: 'Dark' }).click();
  await page.getByText('Some mail programs invert its colours').waitFor();

  for (const [tab, shown] of [
    ['Text', 'Generated from the HTML'],
    ['Text', 'https://acme.test/orders'],
    ['HTML', '<h1>Thank you, Jo</h1>'],
    ['Headers', 'DKIM-Signature'],
    ['Checks', 'https://acme.test/orders'],
    ['Source', 'Content-Type: multipart/mixed'],
  ] as const) {
    await page.getByRole('link', { name: tab, exact: true }).click();
    await page.locator('article').getByText(shown).first().waitFor();
  }
  await page.getByRole('link', { name: 'Delivery status' }).click();
  await page.waitForURL(/\/emails\//);
  assert.deepEqual(opened.strangers, []);
});

test('the test inbox is searched and browsed by keys, each email in the same view', async () => {
  await service.send({ to: 'keys@example.com', subject: 'Walked first', text: 'One' });
  await service.send({ to: 'keys@example.com', subject: 'Walked second', text: 'Two' });
  await service.send({ to: 'other@example.com', subject: 'Not found' });
  await using opened = await open('test/test-inbox');
  const { page } = opened;
  await rowOf(page, 'Not found').waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('keys@example.com');
  await page.keyboard.press('Enter');
  await page.waitForURL(/\?q=to/);
  await rowOf(page, 'Not found').waitFor({ state: 'detached' });
  await rowOf(page, 'Walked second').waitFor();
  // The page gets the keys again after a click outside of the search.
  await page.getByRole('heading', { name: 'Test inbox' }).click();
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Walked second' }).waitFor();
  await page.getByRole('link', { name: 'Text', exact: true }).click();
  await page.getByLabel('text', { exact: true }).getByText('Two').waitFor();
  await page.keyboard.press('j');
  await page.getByRole('heading', { name: 'Walked first' }).waitFor();
  await page.getByLabel('text', { exact: true }).getByText('One').waitFor();
  await page.keyboard.press('k');
  await page.getByRole('heading', { name: 'Walked second' }).waitFor();
  await page.keyboard.press('Escape');
  await page.waitForURL(/\/test-inbox\?q=to/);
});

test('in the live environment the test inbox leads to the test environment', async () => {
  await using opened = await open('live/test-inbox');
  const { page } = opened;
  await page.getByRole('heading', { name: 'is part of the test environment' }).waitFor();
  await assertAccessible(page);
  await page.getByRole('link', { name: 'Open the test inbox' }).click();
  await page.waitForURL('**/test/test-inbox');
  await page.getByLabel('Search the test inbox').waitFor();
});

test('the test inbox is accessible and fits a phone, light and dark', async () => {
  const subject = `Long-${'x'.repeat(200)}`;
  const id = await service.send({ from: `"${'n'.repeat(80)}" <hello@acme.test>`, subject });
  await using opened = await takePage(browser, service, { cookies: signedIn(service, owner) });
  const { page } = opened;
  const screens: [string, string][] = [
    ['test/test-inbox', 'Long-'],
    ['test/test-inbox?q=subject-that-nobody-has', 'No matching emails'],
    [`test/test-inbox/${id}`, 'Show remote images'],
    [`test/test-inbox/${id}?tab=headers`, 'DKIM-Signature'],
  ];
  for (const [path, shown] of screens) {
    await visit(page, `${HOME}/${path}`, shown);
    await assertGoodInAllThemes(page);
  }
});

test('an email is unread until it is opened, is deleted from the inbox, and comes back by Undo', async () => {
  for (const subject of ['Marked first', 'Marked second']) {
    await service.send({ to: 'marks@example.com', subject, text: subject });
  }
  await using opened = await open('test/test-inbox?q=to:marks@example.com');
  const { page } = opened;
  const [first, second] = [rowOf(page, 'Marked first'), rowOf(page, 'Marked second')];
  await first.getByText('Unread:').waitFor({ state: 'attached' });
  await assertGoodInAllThemes(page);
  await first.click();
  await page.getByRole('heading', { name: 'Marked first' }).waitFor();
  await first.getByText('Unread:').waitFor({ state: 'detached' });
  await second.getByText('Unread:').waitFor({ state: 'attached' });
  const choose = async (item: string): Promise<void> => {
    await page.getByRole('button', { name: 'More actions' }).click();
    await page.getByRole('menuitem', { name: item }).click();
  };
  await choose('Mark as unread');
  await first.getByText('Unread:').waitFor({ state: 'attached' });
  await choose('Mark all as read');
  await first.getByText('Unread:').waitFor({ state: 'detached' });
  await second.click();
  await page.getByRole('heading', { name: 'Marked second' }).waitFor();
  await choose('Delete from the inbox');
  await second.waitFor({ state: 'detached' });
  await first.waitFor();
  await page.getByRole('button', { name: 'Undo' }).click();
  await second.waitFor();
  await choose('Clear the inbox');
  await page.getByText('The test inbox was cleared in this browser.').waitFor();
  await first.waitFor({ state: 'detached' });
  assert.deepEqual(opened.complaints, []);
});
