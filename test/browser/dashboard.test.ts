/** The dashboard in a real browser, on a real service. All tests share both, so each uses its own addresses. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Cookie, Page } from 'playwright-core';
import { Browser as ApiBrowser, OWNER, currentCode } from '../support/browser.ts';
import { startBrowser } from '../support/chromium.ts';
import { assertFailure } from '../support/api.ts';
import {
  assertAccessible,
  assertGoodInAllThemes,
  buildDashboard,
  chooseForRow,
  isOfEvents,
  takePage,
  visit,
} from '../support/dashboard.ts';
import { startService } from '../support/service.ts';
import { eventually, waitFor } from '../support/wait.ts';

await buildDashboard();
const [service, browser] = await Promise.all([
  startService({ env: { LETTERHAUS_LIMIT_SENDING: '1000/60' } }),
  startBrowser(),
]);
after(async () => {
  await browser[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
});

const HOME = `${service.url}/dashboard/`;

const rowOf = (page: Page, text: string) =>
  page.getByRole('list', { name: 'Emails' }).getByRole('link').filter({ hasText: text });

/** The cookies of the owner, whom the first test creates. */
let cookies: Cookie[] = [];
let screens = '';

test('the link of the first start creates the owner, who sees an email appear as it is sent', async () => {
  await using open = await takePage(browser, service);
  const { page } = open;
  await page.goto(service.readyLine.sign_in_url ?? '');
  await page.getByRole('heading', { name: 'Welcome to Letterhaus' }).waitFor();
  await assertAccessible(page);
  await page.getByLabel('Email').fill(OWNER.email);
  await page.getByLabel('Name').fill(OWNER.name);
  await page.getByLabel('Password').fill(OWNER.password);
  await page.getByRole('button', { name: 'Create account' }).click();
  await page.getByRole('heading', { name: 'Setup', exact: true }).waitFor();
  const isLive = page.waitForResponse(isOfEvents);
  await page.getByRole('link', { name: 'Emails', exact: true }).click();
  await page.getByRole('heading', { name: 'No emails yet' }).waitFor();
  await isLive;
  await page.getByText(`curl ${service.url}/v1/emails`).waitFor();
  await assertAccessible(page);

  await service.send({ to: 'live@simulator.test', subject: 'Sent while the list is open' });
  await rowOf(page, 'live@simulator.test').getByText('delivered').waitFor();
  cookies = await page.context().cookies();
  screens = page.url().replace(/\/emails$/, '');
});

test('after signing out a member sees nothing, and signing in leads to the requested page', async () => {
  await using open = await takePage(browser, service);
  const { page } = open;
  await page.goto(HOME);
  await page.getByLabel('Email').fill(OWNER.email);
  await page.getByLabel('Password').fill('not the password');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('alert').waitFor();
  await page.getByLabel('Password').fill(OWNER.password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await rowOf(page, 'live@simulator.test').click();
  await page.getByRole('heading', { name: 'Sent while the list is open' }).waitFor();
  const address = page.url();

  await page.getByRole('button', { name: OWNER.name }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).click();
  await page.waitForURL('**/sign-in');
  await page.goto(address);
  await page.getByLabel('Email').fill(OWNER.email);
  await page.getByLabel('Password').fill(OWNER.password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'Sent while the list is open' }).waitFor();
  await page.waitForURL(({ href }) => href === address);
});

test('an email is found by its address, and its page says what happened to it', async () => {
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  const id = await service.send({
    to: 'bounced+found@simulator.test',
    subject: 'Not for this one',
  });
  await service.waitForStatus(id, 'bounced');
  await service.send({ to: 'other@simulator.test' });
  await page.goto(HOME);
  await rowOf(page, 'other@simulator.test').waitFor();

  await page.keyboard.press('/');
  await page.keyboard.type('bounced+found@simulator.test');
  await page.keyboard.press('Enter');
  await page.waitForURL(/\?q=to/);
  await waitFor(async () => (await rowOf(page, '@simulator.test').count()) === 1, {
    what: 'one row',
  });
  await rowOf(page, 'bounced+found@simulator.test').click();
  await page.getByRole('heading', { name: 'Not for this one' }).waitFor();
  await page.getByRole('heading', { name: 'Bounced: the mailbox does not exist' }).waitFor();
  await page.getByText('550 5.1.1').first().waitFor();
  await page.getByRole('button', { name: 'SMTP dialogue' }).click();
  const dialogue = page.getByRole('dialog', { name: 'SMTP dialogue, attempt 1' });
  await dialogue.locator('[aria-current]').getByText('550 5.1.1').waitFor();
  await page.keyboard.press('Escape');
  await page.waitForURL(({ href }) => href.includes(id));
  assert.deepEqual(open.complaints, []);
  assert.deepEqual(open.strangers, []);
});

test('the page of an email updates as it is sent, and cancels it', async () => {
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  const scheduled_at = new Date(Date.now() + 3_600_000).toISOString();
  const id = await service.send({ to: 'later@simulator.test', subject: 'Later', scheduled_at });
  await page.goto(`${screens}/emails/${id}`);
  await page.getByRole('button', { name: 'More actions' }).click();
  await page.getByRole('menuitem', { name: 'Cancel email' }).click();
  await page.getByRole('button', { name: 'Cancel email' }).click();
  await page.getByRole('heading', { name: 'Canceled', exact: true }).waitFor();
  assert.equal((await service.email(id)).status, 'canceled');
});

const PAYLOAD = `<img src=x onerror="parent.pwned=1;window.pwned=1"><script>window.pwned=1</script>`;
const pwned = (page: Page) => page.evaluate(() => (globalThis as { pwned?: number }).pwned);

test('content of strangers runs nothing, and loads nothing from elsewhere until the member requests it', async () => {
  await using open = await takePage(browser, service, { cookies });
  const { page, strangers } = open;
  const remote = 'https://tracker.invalid/pixel.png';
  const id = await service.send({
    to: `${encodeURIComponent('"><svg')}@simulator.test`,
    subject: PAYLOAD,
    html: `${PAYLOAD}<form action="https://tracker.invalid/"><input></form><img src="${remote}"><p>A harmless part</p>`,
    tags: [{ name: 'x', value: 'y' }],
    metadata: { note: PAYLOAD },
  });
  await service.waitForStatus(id, 'delivered');
  await page.goto(`${screens}/emails`);
  await rowOf(page, PAYLOAD).waitFor();
  await page.goto(`${screens}/emails/${id}`);
  await page.getByRole('heading', { name: PAYLOAD }).waitFor();
  await page.getByRole('link', { name: 'Preview' }).click();
  const frame = page.frameLocator('iframe[title="Preview of the email"]');
  await frame.getByText('A harmless part').waitFor();
  assert.equal(strangers.length, 0);
  assert.equal(await pwned(page), undefined);

  await page.getByRole('button', { name: 'Show remote images' }).click();
  await waitFor(() => strangers.includes(remote), { what: 'the image to be asked for' });
  assert.ok(strangers.every((url) => url === remote));
  assert.equal(await pwned(page), undefined);

  // The payload works where nothing protects.
  await page.goto('about:blank');
  await page.setContent(PAYLOAD);
  await waitFor(async () => (await pwned(page)) === 1, { what: 'the payload to run' });
});

test('the figures are drawn also where the browser has no valid language', async () => {
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await using _ = await page.addInitScript(
    `Object.defineProperty(navigator, 'language', { value: 'en-US@posix', configurable: true })`,
  );
  await page.goto(`${screens}/overview`);
  await page.getByRole('img', { name: /^Recipients in the period Last 24 hours/ }).waitFor();
  assert.deepEqual(open.complaints, []);
});

test('the overview warns when the project stores 80 % of what it may, and leads to its limits', async () => {
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  // Each worker returns the few MB within a minute that it has reserved for emails of earlier tests.
  await service.sql(`update projects set storage_bytes_max = 100 * 1024 ^ 3`);
  await service.sql(
    `insert into storage (project_id, bytes) select id, 85 * 1024 ^ 3 from projects
     on conflict (project_id) do update set bytes = excluded.bytes`,
  );
  await page.goto(`${screens}/overview`);
  await page.getByText(/This project stores 8[67],\d+ MB of 102,400 MB/).waitFor();
  await page.getByRole('link', { name: 'Show limits' }).click();
  await page.getByText(/8[67],\d+ MB used/).waitFor();
  await service.sql('update storage set bytes = 0');
  await service.sql('update projects set storage_bytes_max = null');
  assert.deepEqual(open.complaints, []);
});

test('keyboard shortcuts lead everywhere', async () => {
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  const first = await service.send({ to: 'first@simulator.test', subject: 'Keys one' });
  await service.send({ to: 'second@simulator.test', subject: 'Keys two' });
  const emails = `${screens}/emails`;
  await page.goto(emails);
  await rowOf(page, 'Keys two').waitFor();
  await page.keyboard.press('j');
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.waitForURL(`**/emails/${first}`);
  await page.getByRole('heading', { name: 'Keys one' }).waitFor();
  await page.keyboard.press('k');
  await page.getByRole('heading', { name: 'Keys two' }).waitFor();
  await page.keyboard.press('Escape');
  await page.waitForURL(emails);
  await page.getByRole('heading', { name: 'Keys two' }).waitFor({ state: 'detached' });
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.getByRole('heading', { name: 'Keys one' }).waitFor();
  await page.keyboard.press('Escape');
  await page.waitForURL(emails);
  await page.getByRole('heading', { name: 'Keys one' }).waitFor({ state: 'detached' });
  await page.keyboard.press('?');
  await page
    .getByRole('dialog', { name: 'Keyboard shortcuts' })
    .getByText('Search emails')
    .waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.keyboard.press('Control+k');
  const palette = page.getByRole('dialog', { name: 'Commands' });
  await palette.getByRole('combobox').fill('second@simulator.test');
  await page.keyboard.press('Enter');
  await page.waitForURL(/\?q=to/);
  await rowOf(page, 'Keys two').waitFor();

  await page.goto(`${screens}/members`);
  await page.getByRole('heading', { name: 'Members' }).waitFor();
  await page.keyboard.press('/');
  await page.waitForURL(emails);
  await page.locator('[aria-label="Search emails"]:focus').waitFor();
  await page.keyboard.type('first@simulator.test');
  await page.keyboard.press('Enter');
  await rowOf(page, 'Keys one').waitFor();
});

test('screens are accessible and fit a phone, light and dark', async () => {
  const id = await service.send({ to: 'blocked@simulator.test' });
  await service.waitForStatus(id, 'bounced');
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  for (const [path, shown] of [
    ['emails', 'blocked@simulator.test'],
    ['emails?q=to:nobody@simulator.test', 'No matching emails'],
    [`emails/${id}`, 'SMTP dialogue'],
    [`emails/${id}?tab=events`, 'Attempt 1, '],
    [`emails/${id}?tab=preview`, 'Show remote images'],
    ['overview', '95% delivered within'],
    ['api-keys', 'First test key'],
    ['domains', 'acme.test'],
    ['webhooks', 'No webhooks yet'],
    ['suppressions', 'bounced+found@simulator.test'],
    ['members', OWNER.email],
    ['audit-log', 'Created the owner'],
  ] as const) {
    await visit(page, `${screens}/${path}`, shown);
    await assertGoodInAllThemes(page);
  }
});

const WRITING =
  /^(Add|Cancel|Check now|Create|Export|Import|Invite|Remove|Reschedule|Revoke|Role|Send|Share|Copy as curl|More actions for)/;

/** Asserts that these buttons, and no others, change or reveal something. */
async function assertOffered(page: Page, names: string[]): Promise<void> {
  const buttons = page.getByRole('main').getByRole('button', { name: WRITING });
  await eventually(async () => assert.deepEqual(await buttons.allTextContents(), names));
}

test('an invited member joins by the link, and has the rights of the role', async () => {
  await using open = await takePage(browser, service, { cookies });
  await open.page.goto(`${screens}/members`);
  await open.page.getByRole('button', { name: 'Invite' }).click();
  await open.page.getByLabel('Email').fill('vera@acme.test');
  await open.page.getByLabel('Role').selectOption('viewer');
  await open.page.getByRole('button', { name: 'Create link' }).click();
  const link = (await open.page.getByText(/#invitation=/).textContent())!;

  await using other = await takePage(browser, service);
  const { page } = other;
  await page.goto(link);
  await page.getByLabel('Name').fill('Vera Viewer');
  await page.getByLabel('Password').fill(OWNER.password);
  await page.getByRole('button', { name: 'Create account' }).click();
  await rowOf(page, 'live@simulator.test').click();
  await page.getByRole('link', { name: 'Preview' }).click();
  await page.frameLocator('iframe[title="Preview of the email"]').locator('body').waitFor();
  await assertOffered(page, []);

  for (const [path, shown] of [
    ['webhooks', 'No webhooks yet'],
    ['domains', 'acme.test'],
    ['suppressions', 'bounced+found@simulator.test'],
    ['members', 'vera@acme.test'],
    ['api-keys', 'Only developers, admins and owners can open this page'],
    ['audit-log', `You are a viewer. Ask ${OWNER.name} (${OWNER.email}) to make you an admin.`],
  ] as const) {
    await visit(page, `${screens}/${path}`, shown);
    await assertOffered(page, []);
    await assertAccessible(page, path);
  }
  const links = page.getByRole('navigation', { name: 'Screens' });
  await links.getByRole('link', { name: 'Overview' }).waitFor();
  assert.equal(await links.getByRole('link', { name: 'Audit log' }).count(), 0);

  await open.page.reload();
  await chooseForRow(open.page, 'Vera Viewer', 'Change the role');
  await open.page.getByLabel('Access to').selectOption('some');
  await open.page.getByLabel(/^Role in /).selectOption('developer');
  await open.page.getByRole('button', { name: 'Change', exact: true }).click();
  await open.page.getByText(/^Vera Viewer is now developer in /).waitFor();
  // Loads the page again, because an open one reads the role once a minute.
  await page.goto(`${screens}/api-keys`);
  await page.getByText('First test key').filter({ visible: true }).first().waitFor();
  await visit(page, `${screens}/audit-log`, 'You are a viewer.');
  await chooseForRow(open.page, 'Vera Viewer', 'Remove');
  await open.page.getByRole('button', { name: 'Remove', exact: true }).click();
  await open.page.getByText('vera@acme.test').waitFor({ state: 'detached' });
  await page.goto(HOME);
  await page.getByRole('heading', { name: 'Sign in' }).waitFor();
});

test('a domain is added, and says which records are missing until they are found', async () => {
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(`${screens}/domains`);
  await page.getByRole('button', { name: 'Add a domain' }).click();
  // In the test environment the records of this domain are never found.
  await page.getByLabel('Domain', { exact: true }).fill('shop.invalid');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.getByRole('heading', { name: 'shop.invalid' }).waitFor();
  await page.getByRole('button', { name: 'Check now' }).click();
  const spf = page.getByRole('listitem', { name: 'SPF record send.shop.invalid' });
  await spf.getByText('missing').waitFor();
  await assertAccessible(page);
  await page.getByRole('button', { name: 'More actions' }).click();
  await page.getByRole('menuitem', { name: 'Remove domain' }).click();
  await page.getByLabel('Type shop.invalid').fill('shop.invalid');
  await page.getByRole('button', { name: 'Remove domain' }).click();
  await page.getByRole('link', { name: 'acme.test' }).waitFor();
  await page.getByRole('link', { name: 'shop.invalid' }).waitFor({ state: 'detached' });
});

test('an address is suppressed, found and gets mail again', async () => {
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(`${screens}/suppressions`);
  await page.getByRole('button', { name: 'Add an address' }).click();
  await page.getByLabel('Email address', { exact: true }).fill('jo@simulator.test');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.getByRole('cell', { name: 'jo@simulator.test', exact: true }).waitFor();
  await page.getByLabel('Search suppressions').fill('JO@simulator.test');
  await page.keyboard.press('Enter');
  await page.waitForURL(/\?address=/);
  await page.getByRole('button', { name: 'Remove jo@simulator.test' }).click();
  await page.getByRole('button', { name: 'Remove', exact: true }).click();
  await page.getByRole('heading', { name: 'This address is not suppressed' }).waitFor();
  await page.getByRole('status').getByRole('button', { name: 'Undo' }).click();
  await page.getByRole('cell', { name: 'jo@simulator.test', exact: true }).waitFor();
  const { body } = await service.request('GET', '/v1/suppressions/jo@simulator.test');
  assert.equal(body.reason, 'manual');
});

test('a webhook is added with its secret, and a test event is among its deliveries', async () => {
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(`${screens}/webhooks`);
  await page.getByRole('button', { name: 'Add a webhook' }).click();
  await page.getByLabel('URL').fill('https://hooks.example.org/email');
  await page.getByRole('button', { name: 'Add', exact: true }).click();
  await page.getByText(/^whsec_/).waitFor();
  await page.getByRole('button', { name: 'Close' }).click();
  await page.getByRole('link', { name: 'https://hooks.example.org/email' }).click();
  await page.getByRole('button', { name: 'Send a test event' }).click();
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await page.getByRole('dialog').getByText('no response').waitFor();
  await page.getByRole('button', { name: 'Close' }).click();
  await page
    .getByRole('region', { name: 'List of deliveries' })
    .getByRole('button')
    .first()
    .click();
  await page.getByRole('dialog', { name: 'Delivery' }).getByText('"created_at"').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'More actions' }).click();
  await page.getByRole('menuitem', { name: 'Remove' }).click();
  await page.getByRole('button', { name: 'Remove webhook' }).click();
  await page.getByRole('heading', { name: 'No webhooks yet' }).waitFor();
});

test('a member with a second factor enters a code after the right password', async () => {
  const owner = new ApiBrowser(service);
  await owner.signIn(OWNER);
  const { password } = OWNER;
  const { secret } = (await owner.post('/v1/session/totp', { password })).body;
  const code = await currentCode(service, secret);
  const confirmed = await owner.post('/v1/session/totp/confirm', { code });
  const [recovery] = confirmed.body.recovery_codes;

  await using open = await takePage(browser, service);
  const { page } = open;
  await page.goto(HOME);
  await page.getByLabel('Email').fill(OWNER.email);
  await page.getByLabel('Password').fill(password);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByLabel('Code').fill(recovery);
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('heading', { name: 'Emails' }).waitFor();
  await owner.request('DELETE', '/v1/session/totp', { body: { password } });
});

/** Returns the files that the browser loads until the list of emails is there. */
async function assetsOfFirstScreen(): Promise<string[]> {
  await using open = await takePage(browser, service, { cookies });
  await open.page.goto(HOME);
  await open.page.getByRole('heading', { name: 'Emails' }).waitFor();
  // The heading is there before the font in which it is drawn.
  await open.page.evaluate('document.fonts.ready.then(() => {})');
  const loaded = await open.page.evaluate<string[]>(
    `performance.getEntriesByType('resource').map(({ name }) => new URL(name).pathname)`,
  );
  return loaded.filter((path) => path.startsWith('/dashboard/assets/'));
}

const isFont = (path: string): boolean => path.endsWith('.woff2');

test('the files are cached by their names, and the page that names them is not', async () => {
  const get = (path: string, headers: Record<string, string> = {}) =>
    service.request('GET', path, { key: null, headers: { 'accept-encoding': 'br', ...headers } });
  const page = await get('/dashboard/');
  assert.equal(page.status, 200);
  assert.equal(page.headers.get('cache-control'), 'no-store');
  assert.match(
    page.headers.get('content-security-policy')!,
    /script-src 'self';.*frame-ancestors 'none'/,
  );
  assert.equal((await get('/dashboard/any/where/else')).text, page.text);
  assert.equal((await get('/', { accept: 'text/html,*/*' })).text, page.text);
  assertFailure(await get('/'), 404, 'not_found');
  assert.equal((await get('/sign-in')).text, page.text, 'the link of the first start leads to it');

  const paths = await assetsOfFirstScreen();
  const files = await Promise.all(paths.map((path) => get(path)));
  for (const [index, { status, headers, text }] of files.entries()) {
    assert.equal(status, 200, paths[index] ?? '');
    assert.equal(headers.get('cache-control'), 'public, max-age=31536000, immutable');
    assert.equal(headers.get('x-content-type-options'), 'nosniff');
    // The smallest gain nothing by it, and fonts are compressed already.
    if (text.length > 200 && !isFont(paths[index] ?? '')) {
      assert.equal(headers.get('content-encoding'), 'br');
    }
  }
  // As they are sent, compressed.
  const sizeOf = (ending: string): number =>
    files
      .filter((_, index) => paths[index]!.endsWith(ending))
      .reduce((sum, { headers }) => sum + Number(headers.get('content-length')), 0);
  const [js, css] = [sizeOf('.js'), sizeOf('.css')];
  assert.ok(js > 10_000 && js <= 200_000, `${js} bytes of JavaScript`);
  assert.ok(css > 1_000 && css <= 30_000, `${css} bytes of CSS`);
  const font = sizeOf('.woff2');
  assert.ok(font > 10_000 && font <= 40_000, `${font} bytes of fonts`);

  const one = paths[0] ?? '';
  const etag = files[0]!.headers.get('etag')!;
  assert.equal((await get(one, { 'if-none-match': etag })).status, 304);
  const plain = await get(one, { 'accept-encoding': 'br;q=0, identity' });
  assert.equal(plain.headers.get('content-encoding'), null);
  assert.equal(plain.text, files[0]!.text);
  const head = await service.request('HEAD', one, { key: null });
  assert.deepEqual([head.status, head.text], [200, '']);
});

test('a path of the dashboard leads to none of the other files', async () => {
  for (const path of [
    '..%2f..%2fpackage.json',
    '%2e%2e/%2e%2e/package.json',
    'none.js',
    'index.js.br',
  ]) {
    const response = await service.request('GET', `/dashboard/assets/${path}`, { key: null });
    assertFailure(response, 404, 'not_found');
  }
  assertFailure(
    await service.request('POST', '/dashboard/', { key: null }),
    405,
    'method_not_allowed',
  );
});
