/**
 * The dashboard follows changes while it is open: emails, the end of a session, a wrong clock. It copies text without
 * https, too. One service and browser for all tests.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Page } from 'playwright-core';
import { Browser as ApiBrowser, OWNER, ownerOf } from '../support/browser.ts';
import { startBrowser } from '../support/chromium.ts';
import {
  assertGoodInAllThemes,
  buildDashboard,
  copyBy,
  goToLive,
  openPage,
  signedIn,
  takePage,
} from '../support/dashboard.ts';
import { startService } from '../support/service.ts';
import { eventually } from '../support/wait.ts';
import { startReceiver } from '../support/webhook-receiver.ts';

/** A name of this machine that is no secure context, unlike 127.0.0.1. */
const PLAIN_HOST = 'mail.plain.test';

await buildDashboard();
const [service, browser] = await Promise.all([
  startService({
    env: { LETTERHAUS_LIMIT_SENDING: '10000/60', LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1' },
  }),
  startBrowser([`--host-resolver-rules=MAP ${PLAIN_HOST} 127.0.0.1`]),
]);
after(async () => {
  await browser[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
});
const owner = await ownerOf(service);
const project: string = (await owner.get('/v1/session')).body.projects[0].id;
const HOME = `${service.url}/dashboard/${project}/test`;

const signedInAgain = async (): Promise<ApiBrowser> => {
  const member = new ApiBrowser(service);
  assert.equal((await member.signIn(OWNER)).status, 200);
  return member;
};

async function sendMany(subject: string, count: number): Promise<void> {
  for (let sent = 0; sent < count; sent += 100) {
    const emails = Array.from({ length: Math.min(100, count - sent) }, (_, index) => ({
      from: 'hello@acme.test',
      to: 'delivered@simulator.test',
      subject: `${subject} ${sent + index + 1}`,
      text: 'Hello',
    }));
    const response = await service.request('POST', '/v1/emails/batch', { body: emails });
    assert.equal(response.status, 202, response.text);
  }
}

const ROW_PX = 44;

/** Scrolls through the whole list. @returns how often each subject was found */
async function subjectsIn(page: Page): Promise<string[]> {
  return page.evaluate(`(async () => {
    const list = document.querySelector('ul[aria-label="Emails"]');
    const frame = list.parentElement;
    const found = new Map();
    for (let top = 0; top < list.offsetHeight; top += 300) {
      frame.scrollTop = top;
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      for (const row of list.querySelectorAll('a')) found.set(row.href, row.firstElementChild.children[1].textContent);
    }
    return [...found.values()];
  })()`);
}

test('a list that is open while a burst arrives has every email, and counts them rightly', async () => {
  const scheduled_at = new Date(Date.now() + 3_600_000).toISOString();
  const oldest = await service.send({
    to: 'later@simulator.test',
    subject: 'Oldest',
    scheduled_at,
  });
  await sendMany('Before', 60);
  await using open = await takePage(browser, service, { cookies: signedIn(service, owner) });
  const { page } = open;
  await goToLive(page, `${HOME}/emails`);
  const list = page.getByRole('list', { name: 'Emails' });
  const heightOf = (rows: number) =>
    eventually(async () => assert.equal((await list.boundingBox())?.height, rows * ROW_PX));
  await list.getByText('Before').first().waitFor();
  await scrollDown(page);
  await heightOf(61);
  const newRows = page.getByRole('button', { name: / new$/ });

  await sendMany('Burst', 1_000);
  await newRows.filter({ hasText: /^1,000 new$/ }).click();
  await heightOf(1_061);
  await eventually(async () => {
    const subjects = await subjectsIn(page);
    const missing = ['Oldest', ...numbered('Before', 60), ...numbered('Burst', 1_000)].filter(
      (subject) => !subjects.includes(subject),
    );
    assert.deepEqual(missing, []);
  });

  // A row far below the newest follows its email.
  const last = list.getByRole('link').filter({ hasText: 'Oldest' });
  await last.getByText('scheduled').waitFor();
  const canceled = await service.request('POST', `/v1/emails/${oldest}/cancel`, { body: {} });
  assert.equal(canceled.status, 200, canceled.text);
  await last.getByText('canceled').waitFor();
  assert.deepEqual(open.complaints, []);
});

/** Scrolls the list of emails by some rows, and returns when the page has heard of it. */
async function scrollDown(page: Page): Promise<void> {
  await page.evaluate(`new Promise((done) => {
    const frame = document.querySelector('ul[aria-label="Emails"]').parentElement;
    frame.addEventListener('scroll', () => done(), { once: true });
    frame.scrollTop = 1_000;
  })`);
}

const numbered = (name: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${name} ${index + 1}`);

test('a page whose session ends keeps what was typed below a form to sign in', async () => {
  const member = await signedInAgain();
  await using open = await takePage(browser, service, { cookies: signedIn(service, member) });
  const { page } = open;
  await goToLive(page, `${HOME}/emails`);
  const search = page.getByLabel('Search emails');
  // The list follows the typing, but not while a quotation is open.
  await search.fill('"typed and not yet searched');
  const subject = page.getByText('Burst 1').first();
  await subject.waitFor();
  assert.equal((await member.request('DELETE', '/v1/session')).status, 200);
  const form = page.getByRole('dialog', { name: 'Sign in again' });
  await form.getByText('You have been signed out.').waitFor();
  await form.getByLabel('Password').fill(OWNER.password);
  await page.keyboard.press('Escape');
  await page.keyboard.press('Enter');
  await form.waitFor({ state: 'detached' });
  assert.equal(await search.inputValue(), '"typed and not yet searched');
  await service.send({ to: 'delivered@simulator.test', subject: 'After signing in again' });
  await page.getByText('After signing in again').waitFor();
});

test('a scrolled list keeps its place when new emails arrive during an outage', async () => {
  await sendMany('Read', 60);
  await using open = await takePage(browser, service, { cookies: signedIn(service, owner) });
  const { page } = open;
  await goToLive(page, `${HOME}/emails`);
  const list = page.getByRole('list', { name: 'Emails' });
  await list.getByText('Read 60').waitFor();
  await scrollDown(page);
  const row = list.getByText('Read 30', { exact: true });
  await row.scrollIntoViewIfNeeded();
  const place = await row.boundingBox();

  await page.context().setOffline(true);
  await page.getByText('You have been offline since').waitFor();
  await sendMany('Meanwhile', 300);
  await page.context().setOffline(false);
  await page.getByRole('button', { name: '300 new' }).waitFor();
  // The line that says so moves everything while it is there.
  await eventually(async () => assert.deepEqual(await row.boundingBox(), place));
});

test('two clicks from the overview lead to why a webhook fails, and its deliveries are replayed', async () => {
  await using receiver = await startReceiver({
    status: 500,
    // No attempt of the schedule comes between those of this test.
    headers: { 'retry-after': '3600' },
    body: '{"error": "no such table: orders"}',
  });
  const { body } = await service.request('POST', '/v1/webhooks', { body: { url: receiver.url } });
  await service.send({ to: 'delivered@simulator.test', subject: 'Reported' });
  await receiver.waitForCount(2);
  await using open = await takePage(browser, service, { cookies: signedIn(service, owner) });
  const { page } = open;
  await page.goto(`${HOME}/overview`);
  await page.getByRole('link', { name: 'Webhooks' }).first().click();
  await page.getByRole('link', { name: receiver.url }).click();
  const why = /^Failing since .*: the receiver answers 500, “no such table: orders”/;
  await page.getByRole('heading', { name: why }).waitFor();
  const failure = page.getByRole('region', { name: 'Failures', exact: true }).getByRole('button');
  await failure.filter({ hasText: 'no such table: orders' }).waitFor();
  await assertGoodInAllThemes(page);
  await failure.click();
  const delivery = page.getByRole('dialog', { name: 'Delivery' });
  await delivery.getByText('no such table').first().waitFor();
  await assertGoodInAllThemes(page);
  await page.keyboard.press('Escape');

  const rows = page.getByRole('region', { name: 'List of deliveries' });
  await page.getByLabel('Search recipient').fill('delivered@simulator.test');
  await page.keyboard.press('Enter');
  await page.getByLabel('Response').selectOption('5xx: server error');
  await rows.getByText('delivered@simulator.test').first().waitFor();
  receiver.behaviour = 200;
  await rows
    .getByRole('checkbox', { name: /^Select email/ })
    .first()
    .check();
  await page.getByRole('button', { name: 'Select all 2' }).click();
  await assertGoodInAllThemes(page);
  await page.getByRole('button', { name: 'Replay 2' }).click();
  await page.getByRole('status').getByText('2 deliveries are queued.').waitFor();
  await page.getByRole('heading', { name: 'No matching deliveries' }).waitFor();
  await page.getByRole('button', { name: 'Clear filter' }).click();
  await rows.getByText('200').first().waitFor();
  await page
    .getByRole('heading', { name: 'Working: every attempt of the last 24 hours' })
    .waitFor();

  const before = receiver.ids().length;
  await page.getByLabel('Status').selectOption('Delivered');
  await page.getByRole('button', { name: 'Replay all matches…' }).click();
  const question = page.getByRole('dialog', { name: 'Replay all matches?' });
  await assertGoodInAllThemes(page);
  await question.getByRole('button', { name: 'Replay all' }).click();
  await page.getByRole('status').getByText('Replay: 2 of 2 queued.').waitFor();
  await receiver.waitForCount(before + 2);
  assert.deepEqual(receiver.ids().slice(-2).toSorted(), receiver.ids().slice(-4, -2).toSorted());
  await service.request('DELETE', `/v1/webhooks/${body.id}`);
});

test('a screen that is opened while the network is away opens when it is back', async () => {
  await using open = await openPage(browser, service);
  const { page } = open;
  await page.context().addCookies(signedIn(service, owner));
  await goToLive(page, `${HOME}/emails`);
  await page.context().setOffline(true);
  await page.getByRole('link', { name: 'Audit log' }).click();
  await page.getByText('This page opens as soon as it can.').waitFor();
  await page.context().setOffline(false);
  await page.getByRole('heading', { name: 'Audit log' }).waitFor();
  await page.getByText('Created the owner').waitFor();
});

test('the keyboard reaches the content, walks by focus, and single keys can be switched off', async () => {
  await using open = await takePage(browser, service, { cookies: signedIn(service, owner) });
  const { page } = open;
  await goToLive(page, `${HOME}/emails`);
  await page.getByRole('list', { name: 'Emails' }).getByRole('link').first().waitFor();
  await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await page.locator('main:focus').waitFor();
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.locator('a[data-row="1"]:focus').waitFor();
  await page.keyboard.press('?');
  await page.getByLabel('Shortcuts of a single key').uncheck();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.keyboard.press('?');
  await page.keyboard.press('Control+k');
  await page.getByRole('dialog', { name: 'Commands' }).waitFor();
  assert.equal(await page.getByRole('dialog').count(), 1);
  await page.keyboard.type('Keyboard shortcuts');
  // The first choice searches emails for it.
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.getByLabel('Shortcuts of a single key').check();

  await page.goto(`${HOME}/no-such-page`);
  await page.getByRole('heading', { name: 'Page not found' }).waitFor();
  await page
    .getByRole('navigation', { name: 'Screens' })
    .getByRole('link', { name: 'Emails' })
    .click();
  await page.waitForURL('**/emails');
});

test('a second project shows a request only when it has a domain to send from', async () => {
  await using open = await takePage(browser, service, { cookies: signedIn(service, owner) });
  const { page } = open;
  await page.goto(`${HOME}/projects`);
  const create = async (name: string) => {
    await page.getByRole('button', { name: 'Create a project' }).click();
    await page.getByRole('textbox', { name: 'Name' }).fill(name);
    await page.getByRole('button', { name: 'Create', exact: true }).click();
  };
  await create('Shop');
  await page.getByRole('link', { name: 'Shop', exact: true }).waitFor();
  await create('Shop');
  await page.getByText('There is already a project “Shop”.').waitFor();
  await page.getByRole('button', { name: 'Close' }).click();
  await page.getByRole('link', { name: 'Shop', exact: true }).click();
  await page.getByRole('link', { name: 'Emails' }).click();
  await page.getByText('This project cannot send yet.').waitFor();
  assert.equal(await page.getByText('curl').count(), 0);
});

test('without https a copy button copies, and a dialog begins in its first field', async () => {
  const plain = new URL(service.url);
  plain.hostname = PLAIN_HOST;
  const cookies = signedIn(service, owner).map((one) => ({ ...one, domain: PLAIN_HOST }));
  await using open = await openPage(browser, service);
  const { page } = open;
  await page.context().addCookies(cookies);
  await page.goto(`${plain.origin}/dashboard/${project}/test/api-keys`);
  assert.equal(await page.evaluate('isSecureContext'), false);
  await page.getByRole('button', { name: 'Create a key' }).click();
  await page.locator('[role="dialog"] input[name="name"]:focus').waitFor();
  await page.keyboard.type('By keyboard');
  await page.keyboard.press('Enter');
  const key = (await page.getByText(/^lh_test_\w{38}$/).textContent())!;
  await copyBy(page.getByRole('button', { name: 'Copy the key' }));
  await page.getByRole('button', { name: 'Close' }).click();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Create a key' }).click();
  await page.locator('[role="dialog"] input[name="name"]:focus').waitFor();
  await page.keyboard.press('Control+v');
  await eventually(async () =>
    assert.equal(await page.locator('[role="dialog"] input[name="name"]').inputValue(), key),
  );
});

test('on a computer whose clock is slow, an email that was just sent is from now', async () => {
  await using open = await openPage(browser, service);
  const { page } = open;
  await page.context().addCookies(signedIn(service, owner));
  await page.clock.install({ time: Date.now() - 300_000 });
  await service.send({ to: 'delivered@simulator.test', subject: 'Just sent' });
  await page.goto(`${HOME}/emails`);
  const row = page.getByRole('link').filter({ hasText: 'Just sent' });
  await row
    .locator('time')
    .filter({ hasText: /^(now|\d+ s ago)$/ })
    .waitFor();
});
