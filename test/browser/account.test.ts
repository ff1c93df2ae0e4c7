/**
 * The pages of a member beside mail: account, projects, API log. One service and browser for all tests, in their
 * order.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Cookie, Page, Request } from 'playwright-core';
import { Browser as ApiBrowser, OWNER, ownerOf, currentCode, tokenOf } from '../support/browser.ts';
import { startBrowser } from '../support/chromium.ts';
import {
  assertAccessible,
  assertGoodInAllThemes,
  buildDashboard,
  goToLive,
  isOfEvents,
  openPage,
  type OpenPage,
  signedIn,
  takePage,
  visit,
} from '../support/dashboard.ts';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

await buildDashboard();
const [service, browser] = await Promise.all([startService(), startBrowser()]);
after(async () => {
  await browser[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
});
const owner = await ownerOf(service);
const project: string = (await owner.get('/v1/session')).body.projects[0].id;
const HOME = `${service.url}/dashboard/${project}/test`;

/** The profile in which the first test signs in. */
let cookies: Cookie[] = [];

async function signIn(page: Page, { password } = OWNER): Promise<void> {
  await page.getByLabel('Email', { exact: true }).fill(OWNER.email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

test('a member sees where they are signed in, and signs out there', async () => {
  await using open = await takePage(browser, service);
  const { page } = open;
  await page.goto(`${HOME}/settings`);
  await signIn(page);
  const sessions = page.getByRole('region', { name: 'Sessions' }).getByRole('table');
  await sessions.getByText('Chrome on Linux').waitFor();
  await sessions.getByText('this session').waitFor();
  const elsewhere = sessions.getByRole('button', { name: 'Sign out' });
  await elsewhere.click();
  await elsewhere.waitFor({ state: 'detached' });
  assert.equal((await owner.get('/v1/session')).status, 401);
  cookies = await page.context().cookies();
});

test('a member changes the password', async () => {
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  const changed = 'another long password';
  await page.goto(`${HOME}/settings`);
  for (const present of ['not the password', OWNER.password]) {
    await page.getByRole('button', { name: 'Change password' }).click();
    await page.getByLabel('Current password').fill(present);
    await page.getByLabel('New password').fill(changed);
    await page.getByRole('button', { name: 'Change', exact: true }).click();
    if (present === OWNER.password) continue;
    await page.getByRole('alert').getByText('wrong').waitFor();
    await page.getByRole('button', { name: 'Close' }).click();
  }
  await page.getByRole('status').getByText('Your password has been changed.').waitFor();
  const other = new ApiBrowser(service);
  assert.equal((await other.signIn(OWNER)).status, 401);
  assert.equal((await other.signIn({ ...OWNER, password: changed })).status, 200);
  const back = { current_password: changed, password: OWNER.password };
  assert.equal((await other.post('/v1/session/password', back)).status, 200);
});

test('a member switches the second factor on and off', async () => {
  await using open = await takePage(browser, service);
  const { page } = open;
  await page.goto(`${HOME}/settings`);
  await signIn(page);
  await page.getByRole('button', { name: 'Switch on' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Password').fill(OWNER.password);
  await dialog.getByRole('button', { name: 'Continue' }).click();
  const secret = (await dialog.getByLabel('secret', { exact: true }).textContent())!;
  await dialog.getByRole('img', { name: 'QR code of the secret' }).waitFor();
  await assertAccessible(page);
  await dialog.getByLabel('Code from the app').fill('000000x');
  await dialog.getByRole('button', { name: 'Switch on' }).click();
  await dialog.getByRole('alert').waitFor();
  const code = await currentCode(service, secret);
  await dialog.getByLabel('Code from the app').fill(code);
  await dialog.getByRole('button', { name: 'Switch on' }).click();
  const codes = (await dialog.getByLabel('recovery codes', { exact: true }).textContent())!;
  const [recovery = ''] = codes.split('\n');
  const download = page.waitForEvent('download');
  await dialog.getByRole('button', { name: 'Download' }).click();
  assert.equal((await download).suggestedFilename(), 'letterhaus-recovery-codes.txt');
  await dialog.getByRole('button', { name: 'I have saved them' }).click();
  await dialog.waitFor({ state: 'detached' });
  await page.getByText('10 recovery codes left').waitFor();
  assert.equal((await page.content()).includes(recovery), false);

  const other = new ApiBrowser(service);
  const { email, password } = OWNER;
  assert.equal(
    (await other.post('/v1/session', { email, password })).body.error.code,
    'totp_required',
  );
  assert.equal((await other.post('/v1/session', { email, password, code: recovery })).status, 200);

  await page.reload();
  await page.getByText('9 recovery codes left').waitFor();
  await page.getByRole('button', { name: 'Switch off' }).click();
  await dialog.getByLabel('Password').fill(OWNER.password);
  await dialog.getByRole('button', { name: 'Switch off' }).click();
  await page.getByRole('button', { name: 'Switch on' }).waitFor();
  assert.equal((await other.get('/v1/session')).body.totp_enabled, false);
  cookies = await page.context().cookies();
});

test('the request id of an error leads to its entry in the API log', async () => {
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(`${HOME}/webhooks/no-such-id`);
  await page.getByRole('alert').getByRole('link').click();
  const entry = page.getByRole('dialog', { name: 'Request' });
  await entry.getByText('GET /v1/webhooks/no-such-id').waitFor();
  await entry.getByText('(not_found)').waitFor();
  await assertAccessible(page);
  await page.keyboard.press('Escape');
  await entry.waitFor({ state: 'detached' });

  const body = { from: 'shop@acme.test', to: 'bob@', subject: 'Hi', html: '<p>Secret</p>' };
  await service.request('POST', '/v1/emails', { body });
  const written = () => service.request('GET', '/v1/requests?method=POST&status=4xx');
  await waitFor(
    async () =>
      (await written()).body.data.some(({ path }: { path: string }) => path === '/v1/emails'),
    { what: 'the entry to be written' },
  );
  await page.getByLabel('Status').selectOption('4xx');
  await page.waitForURL(/status=4xx/);
  await page.getByLabel('Method').selectOption('POST');
  await page.waitForURL(/method=POST/);
  await page.reload();
  await page.getByRole('button', { name: 'POST /v1/emails' }).waitFor();
  await page.getByRole('button', { name: 'First test key' }).click();
  await page.getByRole('button', { name: 'Show all' }).waitFor();
  await page.getByRole('button', { name: 'POST /v1/emails' }).click();
  await entry.getByText('"html": "(text, 13 characters)"').waitFor();
  await page.keyboard.press('Escape');
  await entry.waitFor({ state: 'detached' });
  await page.getByLabel('Day').selectOption('yesterday');
  await page.getByText('No such requests').waitFor();
  await page.getByLabel('Day').selectOption('today');
  await page.getByRole('button', { name: 'POST /v1/emails' }).waitFor();
  await assertAccessible(page);
  await page.getByRole('button', { name: 'Clear filters' }).click();
  // The page asks once more if the events begin before it is left.
  await page.getByRole('button', { name: 'GET /v1/webhooks/no-such-id' }).first().waitFor();
});

test('settings are accessible and fit a phone, light and dark', async () => {
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  for (const [path, shown] of [
    ['settings', 'this session'],
    ['projects', 'LETTERHAUS_LIMIT_SENDING'],
    ['api-log', 'GET /v1/webhooks/no-such-id'],
  ] as const) {
    await visit(page, `${HOME}/${path}`, shown);
    await assertGoodInAllThemes(page);
  }
  assert.deepEqual(open.complaints, []);
});

test('a project is created, renamed and opened, on the same screen', async () => {
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(`${HOME}/projects`);
  await page.getByRole('button', { name: 'Create a project' }).click();
  await page.getByRole('textbox', { name: 'Name' }).fill('Shop');
  await page.getByRole('button', { name: 'Create', exact: true }).click();
  await page.getByRole('button', { name: 'Rename Shop' }).click();
  await page.getByRole('textbox', { name: 'Name' }).fill('Store');
  await page.getByRole('button', { name: 'Rename', exact: true }).click();
  await page.getByRole('link', { name: 'Store' }).waitFor();
  const limits = page.getByRole('region', { name: 'Limits', exact: true });
  const sending = limits.getByRole('row').filter({ hasText: 'accepted emails' }).first();
  await sending.getByText('100 a minute').waitFor();

  await page.getByRole('button', { name: /^Project / }).click();
  await page.getByRole('menuitem', { name: 'Store' }).click();
  await page.getByRole('heading', { name: 'Store', exact: true }).waitFor();
  await page.getByRole('heading', { name: 'Limits in test' }).waitFor();
  const environments = page.getByRole('group', { name: 'Environment' });
  await environments.getByRole('link', { name: 'Live' }).click();
  await page.getByRole('heading', { name: 'Limits in live' }).waitFor();
  await page.getByRole('heading', { name: 'Store', exact: true }).waitFor();
  await page.waitForURL('**/live/projects');
});

test('a member signs out everywhere', async () => {
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(`${HOME}/settings`);
  await page.getByRole('button', { name: 'Sign out everywhere' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Sign out', exact: true }).click();
  await page.waitForURL('**/sign-in');
  await page.goto(`${HOME}/settings`);
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
});

test('pages whose session is ended elsewhere stop sending requests, and continue after signing in', async () => {
  const member = new ApiBrowser(service);
  assert.equal((await member.signIn(OWNER)).status, 200);
  await using open = await takePage(browser, service, { cookies: signedIn(service, member) });
  const { page } = open;
  const refused: string[] = [];
  page.on('response', (response) => {
    if (response.status() === 401) refused.push(new URL(response.url()).pathname);
  });
  const waiting = new Set<Request>();
  const asked = { '/v1/domains': 0, '/v1/webhooks': 0 };
  page.on('request', (request) => {
    waiting.add(request);
    const { pathname } = new URL(request.url());
    if (pathname in asked) asked[pathname as keyof typeof asked] += 1;
  });
  page.on('requestfinished', (request) => waiting.delete(request));
  page.on('requestfailed', (request) => waiting.delete(request));
  await goToLive(page, `${HOME}/emails`);
  await page.getByRole('heading', { name: 'No emails yet' }).waitFor();
  // The page reads everything once more when the events begin. That ends first reads that are still under way, and
  // comes before those of a list that is shown later.
  await waitFor(() => Object.values(asked).every((count) => count >= 2), {
    what: 'everything to be read again',
  });
  const others = () => [...waiting].filter((request) => !isOfEvents(request));
  await waitFor(() => others().length === 0, { what: 'all responses but the event stream' });
  assert.equal((await member.request('DELETE', '/v1/session')).status, 200);
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
  const late: string[] = [];
  page.on('request', (request) => late.push(request.url()));
  await assertAccessible(page);
  // Requests that were under way are refused, each once.
  assert.ok(refused.length > 0);
  assert.equal(new Set(refused).size, refused.length, refused.join(' '));
  assert.deepEqual(late, []);
  await Promise.all([page.waitForResponse(isOfEvents), signIn(page)]);
  await page.getByRole('heading', { name: 'Sign in' }).waitFor({ state: 'detached' });
  assert.equal(page.url(), `${HOME}/emails`);
});

/** A page of a tab in the background has no event stream, which would notice the end of the session at once. */
async function openHidden(member: ApiBrowser): Promise<OpenPage> {
  const open = await openPage(browser, service);
  await open.page.context().addCookies(signedIn(service, member));
  await open.page.addInitScript(
    `Object.defineProperty(document, 'hidden', { configurable: true, get: () => true })`,
  );
  return open;
}

test('a change in a page that was signed out is refused with what to do, and stays typed', async () => {
  const member = new ApiBrowser(service);
  assert.equal((await member.signIn(OWNER)).status, 200);
  await using open = await openHidden(member);
  const { page } = open;
  await page.goto(`${HOME}/projects`);
  await page.getByRole('button', { name: 'Create a project' }).click();
  const name = page.getByRole('textbox', { name: 'Name' });
  await name.fill('Not yet made');
  assert.equal((await member.request('DELETE', '/v1/session')).status, 200);
  const create = page.getByRole('button', { name: 'Create', exact: true });
  await create.click();
  await page.getByLabel('Password').fill(OWNER.password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByText('You have been signed out. Sign in again.').waitFor();
  assert.equal(await name.inputValue(), 'Not yet made');
  await create.click();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.getByText('Not yet made').first().waitFor();
});

test('another member who signs in over a page gets a page of their own', async () => {
  const member = new ApiBrowser(service);
  assert.equal((await member.signIn(OWNER)).status, 200);
  const other = new ApiBrowser(service);
  assert.equal((await other.signIn(OWNER)).status, 200);
  const invited = await other.post('/v1/invitations', { email: 'vi@acme.test', role: 'viewer' });
  const token = tokenOf(invited.body.url);
  const { password } = OWNER;
  await new ApiBrowser(service).post('/v1/invitations/accept', { token, name: 'Vi', password });
  await using open = await openHidden(member);
  const { page } = open;
  await page.goto(`${HOME}/suppressions`);
  await page.getByRole('button', { name: 'Add an address' }).click();
  await page.getByLabel('Email address', { exact: true }).fill('typed-by-the-owner@acme.test');
  assert.equal((await member.request('DELETE', '/v1/session')).status, 200);
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.getByLabel('Email', { exact: true }).fill('vi@acme.test');
  await page.getByLabel('Password').fill(OWNER.password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('button', { name: 'Vi viewer' }).waitFor();
  assert.equal(await page.getByLabel('Email address', { exact: true }).count(), 0);
});
