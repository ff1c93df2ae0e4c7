/** Finding an email, a recipient or an object by the keyboard, and what the page of a recipient explains. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Page } from 'playwright-core';
import { memberOf, ownerOf } from '../support/browser.ts';
import { startBrowser } from '../support/chromium.ts';
import {
  assertAccessible,
  assertGoodInAllThemes,
  buildDashboard,
  openPage,
  signedIn,
  takePage,
} from '../support/dashboard.ts';
import { startService } from '../support/service.ts';
import { eventually } from '../support/wait.ts';

await buildDashboard();
const [service, browser] = await Promise.all([
  startService({ env: { LETTERHAUS_LIMIT_SENDING: '1000/60' } }),
  startBrowser(),
]);
after(async () => {
  await browser[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
});
const owner = await ownerOf(service);
const { projects, member } = (await owner.get('/v1/session')).body;
const HOME = `${service.url}/dashboard/${projects[0].id}/test`;
const inTest = { 'letterhaus-project': projects[0].id, 'letterhaus-environment': 'test' };
const cookies = signedIn(service, owner);

const rowOf = (page: Page, text: string) =>
  page.getByRole('list', { name: 'Emails' }).getByRole('link').filter({ hasText: text });

test('four keys find an email by a part of its address, without Enter', async () => {
  await service.send({ to: 'marta@fjordline.example', subject: 'Your parcel' });
  await service.send({ to: 'jo@lagoon.example', subject: 'Your invoice' });
  await using open = await openPage(browser, service);
  const { page } = open;
  await page.context().addCookies(cookies);
  await page.clock.install();
  await page.goto(`${HOME}/emails`);
  await rowOf(page, 'jo@lagoon.example').waitFor();
  const searches: string[] = [];
  page.on('request', (request) => {
    const { pathname, searchParams } = new URL(request.url());
    if (pathname === '/v1/emails') searches.push(searchParams.get('q') ?? '');
  });
  // On a busy machine the keys may come further apart than the pause after which the list follows them.
  await page.clock.pauseAt(Date.now() + 1_000);
  for (const key of ['/', 'r', 'd', 'l']) await page.keyboard.press(key);
  await page.clock.resume();
  await rowOf(page, 'jo@lagoon.example').waitFor({ state: 'detached' });
  await rowOf(page, 'marta@fjordline.example').waitFor();
  // Events read the list again. The typing itself is one search, not one for each key.
  assert.deepEqual([...new Set(searches.filter((q) => q !== ''))], ['rdl']);
  await page.locator('[aria-label="Search emails"]:focus').waitFor();
  assert.deepEqual(open.complaints, []);
});

test('filters are chips with the number of matches, and statuses have counts', async () => {
  const id = await service.send({ to: 'bounced+chips@simulator.test', subject: 'Chips' });
  await service.waitForStatus(id, 'bounced');
  await service.send({ to: 'delivered+chips@simulator.test', subject: 'Chips' });
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(`${HOME}/emails?q=to:%2Bchips`);
  const statuses = page.getByRole('group', { name: 'Status' });
  await statuses.locator('[aria-current=page]').getByText('All 2').waitFor();
  await statuses.getByRole('link', { name: 'All 2' }).waitFor();
  await statuses.getByRole('link', { name: 'bounced 1' }).click();
  await page.waitForURL(/status/);
  await rowOf(page, 'delivered+chips').waitFor({ state: 'detached' });
  await page.getByText('status: bounced').waitFor();
  await page.getByRole('search').getByText('1 emails').waitFor();
  await page.getByRole('button', { name: 'Remove the filter status: bounced' }).click();
  await rowOf(page, 'delivered+chips').waitFor();
  // Backspace takes the last filter back to text.
  await page.getByLabel('Search emails').focus();
  await page.keyboard.press('Backspace');
  await page.keyboard.press('Backspace');
  await page.keyboard.type('s simulator');
  await page.keyboard.press('Enter');
  await page.waitForURL(/simulator/);
  await rowOf(page, 'delivered+chips').waitFor();
  // The list and the address may be there before Enter, as they follow the typing.
  const field = page.getByLabel('Search emails');
  await eventually(async () => assert.equal(await field.inputValue(), 'simulator'));
});

test('recipients are listed by their newest email, and found by a part of the address', async () => {
  await service.send({ to: 'ida@harbour-list.example', subject: 'First' });
  await service.send({ to: 'bounced+listed@simulator.test', subject: 'Second' });
  await owner.post('/v1/suppressions', { address: 'olaf@harbour-list.example' }, inTest);
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(`${HOME}/emails`);
  await page.getByRole('link', { name: 'Recipients', exact: true }).click();
  const rows = page.getByRole('region', { name: 'Recipients' }).getByRole('row');
  const bounced = rows.filter({ hasText: 'bounced+listed@simulator.test' });
  await bounced.getByText('bounced', { exact: true }).waitFor();
  await assertGoodInAllThemes(page);
  await page.getByLabel('Search recipients').fill('bour-li');
  await page.keyboard.press('Enter');
  await page.waitForURL(/q=bour-li/);
  await rows.filter({ hasText: 'bounced+listed' }).waitFor({ state: 'detached' });
  const show = page.getByRole('navigation', { name: 'Show' });
  await show.getByRole('link', { name: 'Suppressed' }).click();
  await page.getByRole('heading', { name: 'No matching recipients' }).waitFor();
  await page.getByLabel('Search suppressions').fill('olaf@harbour-list.example');
  await page.keyboard.press('Enter');
  await page.getByRole('link', { name: 'olaf@harbour-list.example' }).waitFor();
  await show.getByRole('link', { name: 'Sent to' }).click();
  await page.getByRole('link', { name: 'Show olaf@harbour-list.example' }).click();
  await page.getByRole('heading', { name: 'olaf@harbour-list.example' }).waitFor();
  await page.getByRole('main').getByRole('link', { name: 'Recipients' }).click();
  await rows.filter({ hasText: 'ida@harbour-list.example' }).waitFor();
  assert.deepEqual(open.complaints, []);
});

test('one page explains a suppressed recipient and removes the suppression', async () => {
  const address = 'anneli.berg@fjordline.example';
  await service.send({ to: address, subject: 'Before it' });
  await owner.post('/v1/suppressions', { address, reason: 'hard_bounce' }, inTest);
  const refused = await service.request('POST', '/v1/emails', {
    body: { from: 'hello@acme.test', to: address, subject: 'x', text: 'x' },
  });
  assert.equal(refused.status, 422);
  // The API log has a request within a second.
  await eventually(async () => {
    const found = await service.request('GET', `/v1/recipients/${address}`);
    assert.equal(found.body.refused_requests.length, 1);
  });
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(`${HOME}/suppressions`);
  await page.getByRole('link', { name: address }).click();
  await page.getByRole('heading', { name: address }).waitFor();
  await page.getByRole('heading', { name: /^Suppressed since .*: the mailbox refused/ }).waitFor();
  const list = page.getByRole('list', { name: 'Emails and requests' });
  await list.getByText('Before it').waitFor();
  await list.getByText(/on the suppression list/).waitFor();
  const history = page.getByRole('list', { name: 'History of the suppression' });
  await history.getByText(`added by ${member.email}`).waitFor();
  await assertGoodInAllThemes(page);

  await page.getByRole('button', { name: 'Remove suppression' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Remove suppression' }).click();
  await history.getByText(`removed by ${member.email}`).waitFor();
  await page.getByRole('heading', { name: /^The API refused the last request/ }).waitFor();
  const again = await service.send({ to: address, subject: 'Sent again' });
  await service.waitForStatus(again, 'delivered');
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByRole('heading', { name: /^Suppressed since/ }).waitFor();
  await page.getByRole('button', { name: 'Problems' }).click();
  await list.getByText('Before it').waitFor({ state: 'detached' });
  assert.deepEqual(open.complaints, []);
});

test('the palette finds recipients, emails and objects, and runs actions by keyboard', async () => {
  await service.send({ to: 'samira@oasis-books.example', subject: 'Your bookmark' });
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  const palette = page.getByRole('dialog', { name: 'Commands' });
  const choose = async (typed: string, group: string, choice: RegExp) => {
    await page.keyboard.press('Control+k');
    await palette.getByRole('combobox').fill(typed);
    const option = palette
      .getByRole('group', { name: group })
      .getByRole('option', { name: choice });
    await option.waitFor();
    for (let steps = 0; (await option.getAttribute('aria-selected')) !== 'true'; steps += 1) {
      assert.ok(steps < 30, `the arrow keys do not reach ${choice}`);
      await page.keyboard.press('ArrowDown');
    }
    await page.keyboard.press('Enter');
    await palette.waitFor({ state: 'detached' });
  };
  await page.goto(`${HOME}/emails`);
  await rowOf(page, 'samira@oasis-books.example').waitFor();
  await choose('oasis', 'Recipients', /^samira@oasis-books\.example$/);
  await page.getByRole('heading', { name: 'samira@oasis-books.example' }).waitFor();
  await choose('bookmark', 'Emails', /Your bookmark/);
  await page.waitForURL(/emails\/[0-9a-f-]{36}/);
  await choose('acme', 'Domains', /^acme\.test$/);
  await page.getByRole('heading', { name: 'acme.test' }).waitFor();
  await choose('create an', 'Actions', /^Create an API key/);
  await page.getByRole('dialog').getByLabel('Name').waitFor();
  await page.keyboard.press('Escape');
  await choose('dark', 'Theme', /^Dark/);
  assert.equal(await page.evaluate('document.documentElement.dataset.theme'), 'dark');
  await choose('live env', 'Project and environment', /^Switch to the live environment/);
  await page.waitForURL(/\/live\/emails/);
  assert.deepEqual(open.complaints, []);
});

test('before anything is typed the palette offers what was opened last, actions and screens', async () => {
  await service.send({ to: 'oda@harbour.example', subject: 'Your ticket' });
  const developer = await memberOf(service, owner, 'developer');
  await using open = await takePage(browser, service, { cookies: signedIn(service, developer) });
  const { page } = open;
  const palette = page.getByRole('dialog', { name: 'Commands' });
  const recent = palette.getByRole('group', { name: 'Recent' }).getByRole('option');
  await page.goto(`${HOME}/recipients/oda@harbour.example`);
  // The title is that of the address; the palette has the name that the page has read.
  await page.getByRole('list', { name: 'Emails and requests' }).getByText('Your ticket').waitFor();
  await page.goto(`${HOME}/domains`);
  await page.getByRole('link', { name: 'acme.test' }).click();
  await page.getByRole('heading', { name: 'acme.test' }).waitFor();

  await page.keyboard.press('Control+k');
  // The page that is open is not offered.
  await recent.first().waitFor();
  assert.deepEqual(await recent.allInnerTexts(), ['oda@harbour.example\nRecipient']);
  const titles = await page.evaluate<string[]>(
    `[...document.querySelectorAll('#palette [role=group]')].map((one) => one.ariaLabel)`,
  );
  assert.deepEqual(titles.slice(0, 3), ['Recent', 'Actions', 'Screens']);
  await assertAccessible(page, 'palette');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'oda@harbour.example' }).waitFor();

  await page.keyboard.press('Control+k');
  await recent.first().waitFor();
  assert.deepEqual(await recent.allInnerTexts(), ['acme.test\nDomain']);
  await palette.getByRole('combobox').fill('test email');
  await palette.getByRole('option', { name: 'Send a test email' }).click();
  await page.waitForURL(/\/test\/setup\?step=first_email/);
  await page
    .getByText('Your key is filled in')
    .or(page.getByText(/^Replace .* with a key$/))
    .waitFor();

  await page.getByRole('button', { name: /^developer/ }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await page.getByLabel('Password').waitFor();
  assert.equal(await page.evaluate('Object.keys(sessionStorage).join()'), '');
  assert.deepEqual(
    open.complaints.filter((complaint) => !complaint.includes('401')),
    [],
  );
});

test('the palette keeps the keyboard, and the marked choice, when something arrives late', async () => {
  await service.send({ to: 'ines@compass.example', subject: 'Compass one' });
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  const palette = page.getByRole('dialog', { name: 'Commands' });
  const field = palette.getByRole('combobox');
  await page.goto(`${HOME}/emails`);
  await rowOf(page, 'ines@compass.example').waitFor();

  // An email that was opened arrives while the palette is typed into.
  const email = await delayed(page, /\/v1\/emails\/[0-9a-f-]{36}$/);
  await rowOf(page, 'ines@compass.example').click();
  await email.asked;
  await page.keyboard.press('Control+k');
  await field.waitFor();
  email.answer();
  // Hidden from readers by the open palette.
  await page.locator('article[aria-label="Compass one"]').waitFor();
  await page.keyboard.type('compass');
  assert.equal(await field.inputValue(), 'compass');

  // Emails are found after the choice below them was marked.
  await field.fill('');
  const found = await delayed(page, /\/v1\/emails\?q=acme/);
  await service.send({ to: 'someone@acme.test', subject: 'To acme' });
  await field.fill('acme');
  const domain = palette
    .getByRole('group', { name: 'Domains' })
    .getByRole('option', { name: 'acme.test' });
  await domain.waitFor();
  await found.asked;
  for (let steps = 0; (await domain.getAttribute('aria-selected')) !== 'true'; steps += 1) {
    assert.ok(steps < 30, 'the arrow keys do not reach the domain');
    await page.keyboard.press('ArrowDown');
  }
  found.answer();
  await palette.getByRole('option', { name: /To acme/ }).waitFor();
  assert.equal(await domain.getAttribute('aria-selected'), 'true');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'acme.test' }).waitFor();
  assert.deepEqual(open.complaints, []);
});

/** Answers the first request whose address matches only when told. */
async function delayed(page: Page, address: RegExp) {
  const asked = Promise.withResolvers<void>();
  const answered = Promise.withResolvers<void>();
  await page.route(
    address,
    async (route) => {
      asked.resolve();
      await answered.promise;
      await route.continue();
    },
    { times: 1 },
  );
  return { asked: asked.promise, answer: () => answered.resolve() };
}

test('scheduled emails are canceled together: some that are selected, then all matches, with their number', async () => {
  const scheduled_at = new Date(Date.now() + 86_400_000).toISOString();
  const to = (name: string) => `${name}+series@simulator.test`;
  for (const name of ['one', 'two', 'three']) {
    await service.send({ to: to(name), subject: 'Series', scheduled_at });
  }
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(`${HOME}/emails?q=to:%2Bseries+status:scheduled`);
  await page.getByRole('checkbox', { name: `Select ${to('one')}` }).check();
  await page.getByRole('group', { name: 'Selection' }).getByText('1 selected').waitFor();
  await assertGoodInAllThemes(page);
  await page.getByRole('button', { name: 'Cancel 1…' }).click();
  const dialog = page.getByRole('dialog', { name: 'Cancel 1 scheduled email?' });
  await dialog.getByRole('button', { name: 'Cancel 1 scheduled email' }).click();
  await dialog.waitFor({ state: 'detached' });
  await rowOf(page, to('one')).waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Cancel all 2…' }).click();
  const all = page.getByRole('dialog', { name: 'Cancel 2 scheduled emails?' });
  await all.getByRole('button', { name: 'Cancel 2 scheduled emails' }).click();
  await all.waitFor({ state: 'detached' });
  for (const name of ['two', 'three']) {
    await rowOf(page, to(name)).waitFor({ state: 'detached' });
  }
  const { body } = await service.request('GET', '/v1/emails/counts?q=to:%2Bseries');
  assert.deepEqual(body.statuses, { canceled: 3 });
  assert.deepEqual(open.complaints, []);
});
