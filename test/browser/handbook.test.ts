/** The handbook in a real browser, from a real service: reading, finding, themes, and the way from the dashboard. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { ownerOf } from '../support/browser.ts';
import { startBrowser } from '../support/chromium.ts';
import {
  assertAccessible,
  assertFits,
  buildDashboard,
  copyBy,
  signedIn,
  takePage,
} from '../support/dashboard.ts';
import { startService } from '../support/service.ts';
import { eventually } from '../support/wait.ts';

await buildDashboard();
const [service, browser] = await Promise.all([startService(), startBrowser()]);
after(async () => {
  await browser[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
});

const HOME = `${service.url}/docs`;

test('a reader goes from the first page to a page of the path, and to the next one', async () => {
  await using open = await takePage(browser, service);
  const { page } = open;
  await page.goto(HOME);
  await page.getByRole('heading', { name: 'Letterhaus handbook' }).waitFor();
  await page.getByRole('listitem').getByRole('link', { name: 'First hour', exact: true }).click();
  await page.getByRole('heading', { name: 'First hour', level: 1 }).waitFor();
  await page.getByRole('link', { name: /^Next/ }).click();
  await page.getByRole('heading', { name: 'Letterhaus', level: 1 }).waitFor();
  await page.getByAltText('The overview of a day').scrollIntoViewIfNeeded();
  await eventually(async () => {
    const width = await page.evaluate<number>(`document.querySelector('main img').naturalWidth`);
    assert.ok(width > 0, 'the picture is shown');
  });
  assert.deepEqual(open.complaints, []);
  assert.deepEqual(open.strangers, []);
});

test('a search by the keyboard finds a passage, and leads to its heading', async () => {
  await using open = await takePage(browser, service);
  const { page } = open;
  await page.goto(`${HOME}/alarms/down`);
  await page.keyboard.press('/');
  await page.getByRole('combobox', { name: 'Search the handbook' }).waitFor();
  await page.keyboard.type('verify signature');
  await page
    .getByRole('option', { name: /Verify the signature/ })
    .first()
    .waitFor();
  await assertAccessible(page);
  await page.keyboard.press('Enter');
  await page.waitForURL(`${HOME}/webhooks#verify-the-signature`);
  await page.getByRole('heading', { name: 'Verify the signature' }).waitFor();

  await page.keyboard.press('ControlOrMeta+k');
  await page.keyboard.type('cancel an email');
  await page
    .getByRole('option', { name: /API reference.*Cancel an email/ })
    .first()
    .click();
  await page.waitForURL(`${HOME}/reference#cancelEmail`);

  await page.keyboard.press('/');
  await page.keyboard.type('qqqqzzzz');
  await page.getByText('Nothing found for “qqqqzzzz”.').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('combobox', { name: 'Search the handbook' }).waitFor({ state: 'hidden' });
  assert.deepEqual(open.complaints, []);
  assert.deepEqual(open.strangers, []);
});

test('pages are accessible in light and dark, and fit a phone', async () => {
  await using open = await takePage(browser, service);
  const { page } = open;
  for (const path of ['', '/delivery', '/moving-from-postfix', '/none']) {
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width: 1440, height: 900 });
      await page.goto(HOME + path);
      await assertAccessible(page, `${path}, ${colorScheme}`);
    }
  }
  await page.setViewportSize({ width: 320, height: 640 });
  for (const path of ['', '/delivery', '/moving-from-postfix', '/alarms/down', '/reference']) {
    await page.goto(HOME + path);
    await assertFits(page);
  }
});

test('on a phone a button shows the pages', async () => {
  await using open = await takePage(browser, service);
  const { page } = open;
  await page.setViewportSize({ width: 375, height: 780 });
  await page.goto(`${HOME}/sending`);
  const link = page
    .getByRole('navigation', { name: 'Pages' })
    .getByRole('link', { name: 'Frameworks' });
  assert.equal(await link.isVisible(), false);
  await page.getByRole('button', { name: 'Navigation' }).click();
  await link.click();
  await page.waitForURL(`${HOME}/clients`);
});

test('the theme that is chosen here is that of the dashboard, too', async () => {
  await using open = await takePage(browser, service);
  const { page } = open;
  const theme = () => page.evaluate<string | undefined>('document.documentElement.dataset.theme');
  await page.goto(HOME);
  await page.getByRole('button', { name: 'Theme: system' }).click();
  await page.getByRole('button', { name: 'Theme: light' }).click();
  await page.getByRole('button', { name: 'Theme: dark' }).waitFor();
  await page.goto(`${HOME}/sending`);
  assert.equal(await theme(), 'dark');
  await page.goto(`${service.url}/dashboard/sign-in`);
  await page.getByRole('heading').first().waitFor();
  assert.equal(await theme(), 'dark');
});

test('an old link to an operation leads to the reference', async () => {
  await using open = await takePage(browser, service);
  const { page } = open;
  await page.goto(`${HOME}#sendEmail`);
  await page.waitForURL(`${HOME}/reference#sendEmail`);
  await page.getByRole('heading', { name: 'Send an email', exact: true }).waitFor();
});

test('an example is copied as it is', async () => {
  await using open = await takePage(browser, service);
  const { page } = open;
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.goto(`${HOME}/system-user`);
  await copyBy(page.getByRole('button', { name: 'Copy' }).first());
  const copied = await page.evaluate<string>('navigator.clipboard.readText()');
  assert.equal(copied, await page.locator('pre code').first().textContent());
});

test('a screen of the dashboard leads to the page about it', async () => {
  const owner = await ownerOf(service);
  await using open = await takePage(browser, service, { cookies: signedIn(service, owner) });
  const { page } = open;
  await page.goto(`${service.url}/dashboard/`);
  await page.getByRole('link', { name: 'Domains' }).click();
  await page.getByRole('heading', { name: 'Domains' }).first().waitFor();
  const link = page.getByRole('link', { name: 'Handbook' });
  await eventually(async () => assert.equal(await link.getAttribute('href'), '/docs/domains'));
  const [handbook] = await Promise.all([page.context().waitForEvent('page'), link.click()]);
  await handbook.getByRole('heading', { name: 'Sending domains', level: 1 }).waitFor();
  await handbook.close();
});
