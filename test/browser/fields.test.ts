/**
 * Fields and forms of the dashboard: text that is typed is seen, also characters below the line, and stays whatever
 * happens to the form. A refusal stands beside its field.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Locator, Page, Route } from 'playwright-core';
import { OWNER, ownerOf } from '../support/browser.ts';
import { startBrowser } from '../support/chromium.ts';
import {
  buildDashboard,
  openPage,
  type OpenPage,
  signedIn,
  takePage,
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
const template = await service.request('POST', '/v1/templates', {
  body: {
    name: 'Receipt',
    alias: 'receipt',
    subject: 'Receipt',
    text: 'Hello',
    variables: [{ name: 'name' }],
  },
});

/** Asserts that the pixels of an underscore differ from those of a space. */
async function assertSeen(page: Page, field: Locator, where: string): Promise<void> {
  const shown = async (text: string): Promise<Buffer> => {
    await field.fill(text);
    // A cursor blinks.
    await page.evaluate('document.activeElement.blur()');
    return field.screenshot({ animations: 'disabled' });
  };
  // A dialog that has just opened may still move, and its text is drawn a little differently meanwhile. It stands still
  // when the same text looks the same before and after.
  const [space, underscore] = await waitFor(
    async () => {
      const before = await shown('order id');
      const between = await shown('order_id');
      return before.equals(await shown('order id')) && ([before, between] as const);
    },
    { what: `two equal pictures of one text: ${where}` },
  );
  assert.ok(!space.equals(underscore), `${where}: the underscore is not seen`);
}

for (const deviceScaleFactor of [1, 1.25]) {
  test(`an underscore is seen in fields, at ${deviceScaleFactor * 100} %`, async () => {
    await using open = await openPage(browser, service, { deviceScaleFactor });
    const { page } = open;
    await page.context().addCookies(signedIn(service, owner));
    const home = `${service.url}/dashboard/${project}/test`;
    await page.goto(`${home}/emails`);
    await assertSeen(page, page.getByLabel('Search emails').first(), 'search');
    await page.goto(`${home}/api-keys`);
    await page.getByRole('button', { name: 'Create a key' }).first().click();
    const dialog = page.getByRole('dialog');
    await assertSeen(page, dialog.getByRole('textbox', { name: 'Name' }), 'dialog');
    await page.goto(`${home}/templates/${template.body.id}?part=variables`);
    const names = page.getByRole('textbox', { name: /name/i });
    await assertSeen(page, names.first(), 'a variable');
  });
}

async function openSignedIn(path: string): Promise<OpenPage> {
  const cookies = signedIn(service, owner);
  const opened = await takePage(browser, service, { cookies });
  await opened.page.goto(`${service.url}/dashboard/${project}/test/${path}`);
  return opened;
}

const press = (page: Page, name: string): Promise<void> =>
  page.getByRole('button', { name, exact: true }).first().click();
const choose = async (page: Page, action: string): Promise<void> => {
  await press(page, 'More actions');
  await page.getByRole('menuitem', { name: action }).click();
};
const scheduled = await service.send({
  scheduled_at: new Date(Date.now() + 86_400_000).toISOString(),
});

type Refused = {
  what: string;
  path: string;
  open: (page: Page) => Promise<void>;
  /** Labels of fields, and what is typed into them. */
  typed: Readonly<Record<string, string>>;
  action: string;
  /** The label of the refused field. */
  field: string;
  problem: RegExp;
};

const REFUSED: readonly Refused[] = [
  {
    what: 'a network of an API key',
    path: 'api-keys',
    open: (page) => press(page, 'Create a key'),
    typed: { Name: 'Shop', 'Used only from networks': '203.0.113.0/24, nowhere' },
    action: 'Create',
    field: 'Used only from networks',
    problem: /is not an IP address or a network/,
  },
  {
    what: 'an alias that another template has',
    path: 'templates',
    open: (page) => press(page, 'Create a template'),
    typed: { Name: 'Other receipt', Alias: 'receipt' },
    action: 'Create',
    field: 'Alias',
    problem: /The alias receipt is taken/,
  },
  {
    what: 'the address of a member, who is invited again',
    path: 'members',
    open: (page) => press(page, 'Invite'),
    typed: { Email: OWNER.email },
    action: 'Create link',
    field: 'Email',
    problem: /signs in with this address already/,
  },
  {
    what: 'a member without a role in any project',
    path: 'members',
    open: async (page) => {
      await press(page, 'Invite');
      await page.getByLabel('Access to').selectOption('some');
    },
    typed: { Email: 'new@acme.test' },
    action: 'Create link',
    field: 'Access to',
    problem: /Choose a role in at least one project/,
  },
  {
    what: 'a domain whose queued mail is put on hold',
    path: 'queue',
    open: (page) => choose(page, 'Hold'),
    typed: { Domain: 'not a domain' },
    action: 'Hold',
    field: 'Domain',
    problem: /is not a domain name/,
  },
  {
    what: 'a time that is too far ahead',
    path: `emails/${scheduled}`,
    open: (page) => choose(page, 'Reschedule'),
    typed: { 'New time (your time zone)': '2099-01-01T00:00' },
    action: 'Reschedule',
    field: 'New time (your time zone)',
    problem: /is more than 30 days ahead/,
  },
  {
    what: 'a threshold of the reputation alert',
    path: 'projects',
    open: (page) => press(page, 'Change the alert'),
    typed: { Bounces: '4%', Complaints: 'many' },
    action: 'Save',
    field: 'Complaints',
    problem: /must be a share/,
  },
];

for (const { what, path, open: openForm, typed, action, field, problem } of REFUSED) {
  test(`${what}: the refusal stands beside its field, which has the focus, and the rest stays typed`, async () => {
    await using opened = await openSignedIn(path);
    const { page } = opened;
    await openForm(page);
    const dialog = page.getByRole('dialog');
    const fieldOf = (label: string): Locator => dialog.getByLabel(label, { exact: true });
    for (const [label, text] of Object.entries(typed)) await fieldOf(label).fill(text);
    await page.keyboard.press('Enter');
    const refused = fieldOf(field);
    await dialog.getByRole('alert').filter({ hasText: problem }).waitFor();
    await refused.and(page.locator(':focus')).waitFor();
    const about = await refused.getAttribute('aria-describedby');
    const texts = await Promise.all(
      (about ?? '').split(' ').map((id) => page.locator(`[id="${id}"]`).textContent()),
    );
    assert.match(texts.join(' '), problem);
    assert.equal(await dialog.getByRole('alert').count(), 1);
    for (const [label, text] of Object.entries(typed)) {
      assert.equal(await fieldOf(label).inputValue(), text);
    }
    assert.ok(await dialog.getByRole('button', { name: action, exact: true }).isEnabled());
  });
}

test('a webhook without any event is refused beside the events', async () => {
  await using opened = await openSignedIn('webhooks');
  const { page } = opened;
  await press(page, 'Add a webhook');
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('URL').fill('https://hooks.acme.com/a');
  await dialog.getByLabel('Selected events').check();
  await dialog.getByRole('button', { name: 'Add', exact: true }).click();
  const events = dialog.getByRole('group', { name: 'Events' });
  await events.getByText('Select at least one event, or all.').waitFor();
  assert.equal(await dialog.getByLabel('URL').inputValue(), 'https://hooks.acme.com/a');
});

test('a form is sent once, says when that failed, and keeps what was typed and the focus', async () => {
  await using opened = await openSignedIn('suppressions');
  const { page } = opened;
  await press(page, 'Add an address');
  const dialog = page.getByRole('dialog');
  const address = dialog.getByLabel('Email address', { exact: true });
  await address.fill('jo@example.org');
  const held = Promise.withResolvers<Route>();
  let sent = 0;
  await page.route('**/v1/suppressions', (route) => {
    if (route.request().method() !== 'POST') return route.continue();
    sent += 1;
    held.resolve(route);
    return undefined;
  });
  const add = dialog.getByRole('button', { name: 'Add', exact: true });
  await add.focus();
  await page.keyboard.press('Enter');
  await page.keyboard.press('Enter');
  await add.dblclick({ force: true });
  await address.press('Enter');
  await add.focus();
  const error = { code: 'internal_error', message: 'It failed here.' };
  await (await held.promise).fulfill({ status: 500, json: { error } });
  await dialog.getByRole('alert').filter({ hasText: 'It failed here.' }).waitFor();
  assert.equal(sent, 1);
  assert.equal(await address.inputValue(), 'jo@example.org');
  await add.and(page.locator(':focus')).waitFor();
  await page.unroute('**/v1/suppressions');
  await page.keyboard.press('Enter');
  await dialog.waitFor({ state: 'detached' });
  await page.getByText('jo@example.org').first().waitFor();
});

test('a click beside a dialog closes it only while nothing was typed', async () => {
  await using opened = await openSignedIn('suppressions');
  const { page } = opened;
  const dialog = page.getByRole('dialog');
  const address = dialog.getByLabel('Email address', { exact: true });
  await press(page, 'Add an address');
  await address.fill('kept@example.org');
  await page.mouse.click(5, 5);
  await address.fill('');
  await page.mouse.click(5, 5);
  await dialog.waitFor({ state: 'detached' });
  await press(page, 'Add an address');
  await address.fill('kept@example.org');
  await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
});

test('a sender that is typed before the domains are read stays', async () => {
  await using opened = await openSignedIn(`templates/${template.body.id}`);
  const { page } = opened;
  const typed = Promise.withResolvers<void>();
  await page.route('**/v1/domains?**', async (route) => {
    await typed.promise;
    await route.continue();
  });
  await press(page, 'Send a test');
  const dialog = page.getByRole('dialog');
  const from = dialog.getByLabel('From', { exact: true });
  await from.fill('me@acme.test');
  const read = page.waitForResponse(/\/v1\/domains\?/);
  typed.resolve();
  await read;
  // The response is drawn.
  await page.evaluate(
    'new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))',
  );
  assert.equal(await from.inputValue(), 'me@acme.test');
  await page.unroute('**/v1/domains?**');
});
