/** The templates of the dashboard in a real browser, on a real service: one of each for all tests. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { FrameLocator, Locator, Page } from 'playwright-core';
import { memberOf, OWNER, ownerOf } from '../support/browser.ts';
import { startBrowser } from '../support/chromium.ts';
import {
  assertGoodInAllThemes,
  buildDashboard,
  type OpenPage,
  signedIn,
  sourceEditor,
  takePage,
  visit,
  writeSource,
} from '../support/dashboard.ts';
import { type ApiResponse, startService } from '../support/service.ts';
import { eventually, waitFor } from '../support/wait.ts';

await buildDashboard();
const [service, browser] = await Promise.all([startService(), startBrowser()]);
after(async () => {
  await browser[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
});

const owner = await ownerOf(service);
const project = String((await owner.get('/v1/session')).body.projects[0].id);
const HOME = `${service.url}/dashboard/${project}/test`;

async function make(template: object): Promise<ApiResponse['body']> {
  const body = { name: 'A template', subject: 'Hello', html: '<p>Hello</p>', ...template };
  const response = await service.request('POST', '/v1/templates', { body });
  assert.equal(response.status, 201, response.text);
  return response.body;
}

const stored = async (id: string): Promise<ApiResponse['body']> =>
  (await service.request('GET', `/v1/templates/${id}`)).body;

async function open(path: string, options: object = {}): Promise<OpenPage> {
  const cookies = signedIn(service, owner);
  const opened = await takePage(browser, service, { cookies, ...options });
  await opened.page.goto(`${HOME}/${path}`);
  return opened;
}

const previewOf = (page: Page): FrameLocator =>
  page.frameLocator('iframe[title="Preview of the template"]');
const hasValue = (field: Locator, value: string): Promise<void> =>
  eventually(async () => assert.equal(await field.inputValue(), value));
const press = (page: Page, name: string): Promise<void> =>
  page.getByRole('button', { name, exact: true }).click();

const choose = async (page: Page, action: string): Promise<void> => {
  await page.getByRole('button', { name: 'More actions' }).click();
  await page.getByRole('menuitem', { name: action }).click();
};

test('a template is made, typed beside its preview, saved, published and sent as a test', async () => {
  await using opened = await open('templates');
  const { page } = opened;
  await page.getByRole('heading', { name: 'No templates yet' }).waitFor();
  await press(page, 'Create a template');
  await page.getByLabel('Name').fill('Receipt');
  await page.getByLabel('Alias').fill('receipt');
  await press(page, 'Create');
  await previewOf(page).getByRole('heading', { name: 'Hello name' }).waitFor();

  await page.getByLabel('Subject').fill('Your receipt, {{ name }}');
  const html = '<p style="color: rgb(1, 2, 3)">{{ total }} from {{ name }}</p>';
  await writeSource(await sourceEditor(page), html);
  const problems = page.getByRole('alert', { name: 'Problems' });
  await problems.getByText('html: uses total, which is not declared').waitFor();
  await press(page, 'Declare total');
  await problems.waitFor({ state: 'detached' });
  await press(page, 'Variables (2)');
  await page.getByLabel('Type of total').selectOption('number');
  await page.getByLabel('Sample value of total').fill('12.5');
  await page.getByLabel('Sample value of name').fill('<b>Jo</b>');
  const shown = previewOf(page).getByText('12.5 from <b>Jo</b>');
  await shown.waitFor();
  // The frame has a policy of its own: that of the dashboard allows no such style.
  assert.equal(await shown.getAttribute('style'), 'color: rgb(1, 2, 3)');
  await page.getByText('Your receipt, <b>Jo</b>').waitFor();

  await page.keyboard.press('Control+s');
  await press(page, 'Publish version 1');
  await page.getByRole('button', { name: 'Published' }).waitFor();
  const template = await stored('receipt');
  assert.deepEqual([template.published_version, template.html], [1, html]);
  const variables = [
    { name: 'name', type: 'string' },
    { name: 'total', type: 'number' },
  ];
  assert.deepEqual(template.variables, variables);

  await press(page, 'Send a test');
  const from = page.getByLabel('From');
  await hasValue(from, 'test@acme.test');
  const to = page.getByLabel('To', { exact: true });
  await hasValue(to, OWNER.email);
  await to.fill('delivered@simulator.test');
  await press(page, 'Send');
  await page.getByRole('link', { name: 'Show the email' }).click();
  await page.getByRole('heading', { name: 'Your receipt, <b>Jo</b>' }).waitFor();
  // The browser reports the preview that was refused.
  const others = opened.complaints.filter((text) => !text.includes('status of 422'));
  assert.deepEqual(others, []);
  assert.deepEqual(opened.strangers, []);
});

test('templates are found by their names, and renamed', async () => {
  await make({ name: 'Reset of a password', alias: 'reset' });
  await make({ name: 'Newsletter' });
  await using opened = await open('templates');
  const { page } = opened;
  await page.getByLabel('Search templates').fill('RESET');
  await page.keyboard.press('Enter');
  await page.waitForURL(/\?q=RESET/);
  await page.getByRole('link', { name: 'Newsletter' }).waitFor({ state: 'detached' });
  await page.getByRole('link', { name: 'Reset of a password' }).click();
  await choose(page, 'Rename');
  await page.getByLabel('Alias').fill('Not an alias');
  await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
  await page.getByRole('alert').getByText('must be 1-64 of a-z').waitFor();
  await page.getByLabel('Alias').fill('password');
  await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  await page.getByText('password', { exact: true }).waitFor();
  assert.equal((await stored('password')).name, 'Reset of a password');
});

test('leaving an editor with unsaved changes needs a confirmation', async () => {
  const { id } = await make({ name: 'Guarded' });
  await using opened = await open(`templates/${id}`);
  const { page } = opened;
  await page.getByLabel('Subject').fill('Not saved');
  await press(page, 'Text');
  await press(page, 'HTML');
  await page.getByRole('link', { name: 'Domains' }).click();
  const question = page.getByRole('dialog', { name: 'Leave without saving?' });
  await question.getByRole('button', { name: 'Stay' }).click();
  await question.waitFor({ state: 'detached' });
  await hasValue(page.getByLabel('Subject'), 'Not saved');
  await page.getByRole('link', { name: 'Domains' }).click();
  await question.getByRole('button', { name: 'Discard changes' }).click();
  await page.getByRole('heading', { name: 'Domains' }).waitFor();
  assert.equal((await stored(id)).subject, 'Hello');

  await page.goto(`${HOME}/templates/${id}`);
  await page.getByLabel('Subject').fill('Not saved either');
  await press(page, 'Discard changes');
  await hasValue(page.getByLabel('Subject'), 'Hello');
});

test('a change made elsewhere is shown, and never replaces typed text', async () => {
  const { id } = await make({ name: 'Changed by two', variables: [{ name: 'name' }] });
  await using opened = await open(`templates/${id}`);
  const { page } = opened;
  await page.getByLabel('Subject').fill('Typed here');
  await service.request('PATCH', `/v1/templates/${id}`, { body: { subject: 'From elsewhere' } });
  // Renaming reads the template again.
  await choose(page, 'Rename');
  await page.getByRole('dialog').getByRole('button', { name: 'Save' }).click();
  await page.getByText('was changed elsewhere').waitFor();
  await hasValue(page.getByLabel('Subject'), 'Typed here');
  await press(page, 'Discard changes');
  await hasValue(page.getByLabel('Subject'), 'From elsewhere');
});

test('of two who edit one template, the second sees both versions before saving', async () => {
  const { id } = await make({ name: 'Edited by two' });
  await using opened = await open(`templates/${id}`);
  const { page } = opened;
  const subject = page.getByLabel('Subject', { exact: true });
  await subject.fill('Mine');
  await service.request('PATCH', `/v1/templates/${id}`, { body: { subject: 'Theirs' } });
  await press(page, 'Save');
  const dialog = page.getByRole('dialog', { name: 'Changed elsewhere' });
  const changes = dialog.getByLabel('Changes of Subject');
  await changes.getByText('- Theirs').waitFor();
  await changes.getByText('+ Mine').waitFor();
  await assertGoodInAllThemes(page);
  assert.equal((await stored(id)).subject, 'Theirs');

  // A third version is not overwritten either.
  await service.request('PATCH', `/v1/templates/${id}`, { body: { subject: 'Third' } });
  await press(page, 'Save mine');
  await changes.getByText('- Third').waitFor();
  assert.equal((await stored(id)).subject, 'Third');
  await press(page, 'Save mine');
  await dialog.waitFor({ state: 'detached' });
  assert.equal((await stored(id)).subject, 'Mine');

  await subject.fill('Mine again');
  await service.request('PATCH', `/v1/templates/${id}`, { body: { subject: 'Theirs' } });
  await page.keyboard.press('Control+s');
  await dialog.getByRole('button', { name: 'Discard mine' }).click();
  await hasValue(subject, 'Theirs');
});

test('versions show what changed, and an older one is restored or published again', async () => {
  const { id } = await make({ name: 'Versions', html: '<p>One</p>\n<p>Same</p>', text: 'Hi' });
  const path = `/v1/templates/${id}`;
  await service.request('POST', `${path}/publish`, { body: {} });
  const change = { html: '<p>Two</p>\n<p>Same</p>', text: null };
  await service.request('PATCH', path, { body: change });
  await service.request('POST', `${path}/publish`, { body: {} });

  await using opened = await open(`templates/${id}`);
  const { page } = opened;
  await page.getByRole('link', { name: 'Versions' }).click();
  const changes = page.getByLabel('Changes of HTML');
  await changes.getByText('- <p>One</p>').waitFor();
  await changes.getByText('+ <p>Two</p>').waitFor();
  await page.getByLabel('Changes of Text').getByText('- Hi').waitFor();
  await page.getByLabel('Changes of Subject').waitFor({ state: 'detached' });

  await page.getByRole('link', { name: 'Version 1' }).click();
  await page.waitForURL(/version=1/);
  await press(page, 'Preview');
  await previewOf(page).getByText('One').waitFor();
  await press(page, 'Publish');
  await page.getByRole('dialog').getByRole('button', { name: 'Publish' }).click();
  await page.getByRole('dialog').waitFor({ state: 'detached' });
  assert.equal((await stored(id)).published_version, 1);

  await press(page, 'Restore');
  await page.getByRole('dialog').getByRole('button', { name: 'Restore' }).click();
  await previewOf(page).getByText('One').waitFor();
  await page.getByRole('button', { name: 'Publish version 3' }).waitFor();
  assert.deepEqual([(await stored(id)).version, (await stored(id)).text], [3, 'Hi']);
});

test('drafts of two members are both kept, with who saved each', async () => {
  const { id } = await make({ name: 'Two drafts', html: '<p>By key</p>' });
  const developer = await memberOf(service, owner, 'developer');
  const scope = { 'letterhaus-project': project, 'letterhaus-environment': 'test' };
  const save = async (member: typeof owner, html: string): Promise<number> => {
    const saved = await member.request('PATCH', `/v1/templates/${id}`, {
      body: { html },
      headers: scope,
    });
    assert.equal(saved.status, 200, saved.text);
    return saved.body.version;
  };
  assert.equal(await save(owner, '<p>Mine</p>'), 1, 'the draft of a key is changed');
  assert.equal(await save(owner, '<p>Mine again</p>'), 1);
  assert.equal(await save(developer, '<p>Theirs</p>'), 2);
  await using opened = await open(`templates/${id}/versions`);
  const { page } = opened;
  const versions = page.getByRole('list', { name: 'Versions' });
  await versions.getByRole('link', { name: `Saved by ${OWNER.email}` }).waitFor();
  assert.equal(await versions.getByText('Saved by').count(), 2);
  await page.getByLabel('Changes of HTML').getByText('- <p>Mine again</p>').waitFor();
  await assertGoodInAllThemes(page);
});

test('any two versions are compared', async () => {
  const { id } = await make({ name: 'Three versions', html: '<p>One</p>' });
  const path = `/v1/templates/${id}`;
  for (const html of ['<p>Two</p>', '<p>Three</p>']) {
    await service.request('POST', `${path}/publish`, { body: {} });
    await service.request('PATCH', path, { body: { html } });
  }
  await using opened = await open(`templates/${id}/versions`);
  const { page } = opened;
  const changes = page.getByLabel('Changes of HTML');
  await changes.getByText('- <p>Two</p>').waitFor();
  await page.getByLabel('Compare with').selectOption('Compared with version 1');
  await changes.getByText('- <p>One</p>').waitFor();
  await changes.getByText('+ <p>Three</p>').waitFor();
});

test('a starter is sent eight clicks after the list of templates', async () => {
  await using opened = await open('templates');
  const { page } = opened;
  let clicks = 0;
  const click = async (target: Locator): Promise<void> => {
    await target.click();
    clicks += 1;
  };
  await click(page.getByRole('button', { name: 'Create a template' }));
  await page.getByLabel('Name').fill('Order');
  await click(page.getByRole('radio', { name: /^Receipt/ }));
  await click(page.getByRole('button', { name: 'Create', exact: true }));
  await previewOf(page).getByText('Tea').waitFor();
  await assertGoodInAllThemes(page);
  await click(page.getByRole('button', { name: 'Send a test' }));
  await click(page.getByRole('button', { name: 'Send', exact: true }));
  await page.getByRole('link', { name: 'Show the email' }).waitFor();
  assert.ok(clicks <= 8, `${clicks} clicks`);
});

test('the editor completes variables and filters by keyboard, and Tab leaves it', async () => {
  const { id } = await make({ html: '<p>Hi</p>', variables: [{ name: 'first_name' }] });
  await using opened = await open(`templates/${id}`);
  const { page } = opened;
  const editor = await sourceEditor(page);
  await editor.focus();
  await page.keyboard.press('Control+End');
  await page.keyboard.type('{{ fir');
  const offered = page.getByRole('listbox').getByRole('option');
  await offered.filter({ hasText: 'first_name' }).waitFor();
  await page.keyboard.press('Enter');
  await page.keyboard.type(' | upc');
  await offered.filter({ hasText: 'upcase' }).waitFor();
  await page.keyboard.press('Tab');
  await previewOf(page).getByText('FIRST NAME').waitFor();
  await page.keyboard.press('Escape');
  await page.keyboard.press('Tab');
  const isInside = 'document.activeElement?.shadowRoot?.activeElement != null';
  await eventually(async () => assert.equal(await page.evaluate(isInside), false));
  await assertGoodInAllThemes(page);
});

test('types of undeclared variables are inferred, and a preview of an earlier text says so', async () => {
  const { id } = await make({ html: '<p>Hello</p>' });
  await using opened = await open(`templates/${id}`);
  const { page } = opened;
  await previewOf(page).getByText('Hello').waitFor();
  const source = '{% for item in items %}{{ item.name }}{% endfor %}{{ price | times: 2 }}';
  await writeSource(await sourceEditor(page), source);
  await page.getByText('The preview shows an earlier text').waitFor();
  await press(page, 'Declare all 2');
  await page.getByText('The preview shows an earlier text').waitFor({ state: 'detached' });
  await press(page, 'Variables (2)');
  await hasValue(page.getByLabel('Type of items'), 'list');
  await hasValue(page.getByLabel('Type of price'), 'number');
});

test('a template is copied to live, and again as a draft of the same alias', async () => {
  const { id } = await make({ name: 'To live', alias: 'to-live', html: '<p>First</p>' });
  await using opened = await open(`templates/${id}`);
  const { page } = opened;
  await choose(page, 'Copy to live');
  await page.getByLabel('Publish it there').check();
  await press(page, 'Copy to live');
  await page.getByRole('status').getByText('Version 1 is published in live.').waitFor();
  await press(page, 'Close');
  // Also at once the next copy replaces this one.
  await choose(page, 'Copy to live');
  await page.getByRole('dialog').getByText('has the same alias').waitFor();
  await press(page, 'Close');
  await service.request('PATCH', `/v1/templates/${id}`, { body: { html: '<p>Second</p>' } });
  await page.reload();
  await choose(page, 'Copy to live');
  await page.getByRole('dialog').getByText('- <p>First</p>').waitFor();
  await assertGoodInAllThemes(page);
  await press(page, 'Copy to live');
  await page.getByRole('status').getByText('Version 2 is a draft in live.').waitFor();
  await page.getByRole('link', { name: 'Show it' }).click();
  await page.waitForURL(/\/live\/templates\//);
  await page.getByRole('button', { name: 'Publish version 2' }).waitFor();
});

test('a template is deleted once that is confirmed', async () => {
  const { id } = await make({ name: 'Short-lived' });
  await using opened = await open(`templates/${id}`);
  const { page } = opened;
  await page.getByLabel('Subject').fill('Not saved, and gone with it');
  await choose(page, 'Delete');
  await press(page, 'Delete template');
  await page.getByRole('heading', { name: 'Templates' }).waitFor();
  await page.getByRole('link', { name: 'Short-lived' }).waitFor({ state: 'detached' });
  assert.equal((await service.request('GET', `/v1/templates/${id}`)).status, 404);
});

test('a viewer looks at templates with other sample values, and is offered no change', async () => {
  const { id } = await make({ html: '<p>Dear {{ name }}</p>', variables: [{ name: 'name' }] });
  const viewer = await memberOf(service, owner, 'viewer');
  await using opened = await open(`templates/${id}?part=variables`, {
    cookies: signedIn(service, viewer),
  });
  const { page } = opened;
  await page.getByLabel('Sample value of name').fill('Vera');
  await previewOf(page).getByText('Dear Vera').waitFor();
  for (const label of ['Subject', 'Variable name']) {
    const field = page.getByLabel(label);
    await eventually(async () => assert.equal(await field.isEditable(), false, label));
  }
  const offered = ['Save', 'Publish', 'More', 'Send', 'Add', 'Create', 'Restore'];
  for (const path of [`templates/${id}`, `templates/${id}/versions`, 'templates']) {
    await page.goto(`${HOME}/${path}`);
    await page.getByRole('heading', { level: 1 }).waitFor();
    for (const name of offered) assert.equal(await page.getByRole('button', { name }).count(), 0);
  }
});

test('html of a template runs nothing, leads nowhere and loads nothing until the member requests it', async () => {
  const remote = 'https://tracker.invalid/pixel.png';
  const html = `<script>parent.pwned=1</script><img src="x" onerror="parent.pwned=1">
    <meta http-equiv="refresh" content="0;url=/dashboard/"><base href="https://tracker.invalid/">
    <img name="documentElement"><img name="URL"><img src="${remote}">
    <a href="/dashboard/" target="_top" style="display:block;height:50px">A link</a>`;
  const { id } = await make({ html });
  await using opened = await open(`templates/${id}`);
  const { page } = opened;
  const link = previewOf(page).getByText('A link');
  await link.click();
  // It is still there to be replaced, although names in it hide properties of its document.
  await writeSource(await sourceEditor(page), `${html}<p>Typed later</p>`);
  await previewOf(page).getByText('Typed later').waitFor();
  await link.click();
  assert.equal(new URL(page.url()).pathname.endsWith(id), true);
  assert.equal(await page.evaluate('globalThis.pwned'), undefined);
  assert.deepEqual(opened.strangers, []);

  await press(page, 'Show remote images');
  await waitFor(() => opened.strangers.includes(remote), { what: 'the image to be asked for' });
  assert.ok(
    opened.strangers.every((url) => url === remote),
    String(opened.strangers),
  );
  assert.equal(await page.evaluate('globalThis.pwned'), undefined);
});

test('a preview that comes while its frame is still empty is shown when the frame has loaded', async () => {
  const { id } = await make({ html: '<p>First</p>' });
  await using opened = await open(`templates/${id}`);
  const { page } = opened;
  await previewOf(page).getByText('First').waitFor();
  // As for a moment after the frame got its page.
  const frame = `document.querySelector('iframe')`;
  await page.evaluate(`${frame}.contentDocument.documentElement.remove()`);
  await writeSource(await sourceEditor(page), '<p>Second</p>');
  await page.getByLabel('Subject').fill('With the second');
  await page.getByText('With the second', { exact: true }).waitFor();
  await page.evaluate(`${frame}.contentWindow.location.reload()`);
  await previewOf(page).getByText('Second').waitFor();
});

test('a preview that was typed while the network is away comes by itself when it is back', async () => {
  const { id } = await make({ name: 'Typed offline', html: '<p>Before</p>' });
  await using opened = await open(`templates/${id}`);
  const { page } = opened;
  await previewOf(page).getByText('Before').waitFor();
  const subject = page.getByLabel('Subject', { exact: true });
  await page.context().setOffline(true);
  await subject.fill('Typed offline');
  await page.getByText('The preview comes when the service can be reached again.').waitFor();
  await page.context().setOffline(false);
  await page.getByText('Subject: Typed offline').waitFor();
  await hasValue(subject, 'Typed offline');
});

test('the preview is shown as a phone and in the dark', async () => {
  const html =
    '<style>@media (prefers-color-scheme: dark) { p { color: rgb(9, 8, 7) } }</style><p>Hi';
  const { id } = await make({ html });
  await using opened = await open(`templates/${id}`, { colorScheme: null });
  const { page } = opened;
  const text = previewOf(page).getByText('Hi');
  await text.waitFor();
  const colour = `getComputedStyle(document.querySelector('iframe').contentDocument.querySelector('p')).color`;
  const isShownAs = (shown: string): Promise<void> =>
    eventually(async () => assert.equal(await page.evaluate(colour), shown));
  await isShownAs('rgb(0, 0, 0)');
  await press(page, 'Dark');
  await isShownAs('rgb(9, 8, 7)');
  await press(page, 'Phone');
  const frame = page.getByTitle('Preview of the template');
  await eventually(async () => assert.equal((await frame.boundingBox())?.width, 375));
});

test('templates are accessible and fit a phone, light and dark', async () => {
  const { id } = await make({
    name: `Accessible-${'x'.repeat(60)}`,
    variables: [{ name: 'name' }],
  });
  await using opened = await takePage(browser, service, { cookies: signedIn(service, owner) });
  const { page } = opened;
  const screens: [string, string][] = [
    ['templates', 'Accessible-'],
    ['templates?q=none', 'No matching templates'],
    [`templates/${id}`, 'Publish version 1'],
    [`templates/${id}?part=variables`, 'Sample value'],
    [`templates/${id}/versions`, 'There is no earlier version'],
    [`templates/${id}/versions?view=preview`, 'Full width'],
  ];
  for (const [path, shown] of screens) {
    await visit(page, `${HOME}/${path}`, shown);
    await assertGoodInAllThemes(page);
  }
});
