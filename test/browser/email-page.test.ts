/** The page of one email: its content, advice about it, and the webhooks that were sent about it. */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { after, test } from 'node:test';
import { memberOf, ownerOf } from '../support/browser.ts';
import { startBrowser } from '../support/chromium.ts';
import {
  assertAccessible,
  assertGood,
  assertGoodInAllThemes,
  buildDashboard,
  goToLive,
  signedIn,
  takePage,
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
const owner = await ownerOf(service);
const cookies = signedIn(service, owner);
const project = String((await owner.get('/v1/session')).body.projects[0].id);
const pathOf = (id: string, tab?: string) =>
  `${service.url}/dashboard/${project}/test/emails/${id}${tab === undefined ? '' : `?tab=${tab}`}`;

const HTML = `<style>@font-face {}</style><h1 style="color: #111">Your receipt</h1>
  <p>Thank you. <a href="http://acme.test/orders">Your order</a></p><img src="https://acme.test/a.png">`;

const send = (change: object = {}) =>
  service.send({
    to: 'delivered@simulator.test',
    subject: 'Your receipt',
    html: HTML,
    attachments: [
      { filename: 'Rechnung für Jo.txt', content: Buffer.from('12,00 €').toString('base64') },
    ],
    ...change,
  });

test('the preview has the attachments, widths, and how a dark program shows it', async () => {
  const id = await send();
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(pathOf(id, 'preview'));
  const frame = page.frameLocator('iframe[title="Preview of the email"]');
  await frame.getByText('Your receipt').waitFor();
  const saved = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Download Rechnung für Jo.txt' }).click();
  const file = await saved;
  assert.equal(file.suggestedFilename(), 'Rechnung für Jo.txt');
  assert.equal(await readFile(await file.path(), 'utf8'), '12,00 €');

  await page.getByRole('button', { name: 'Phone' }).click();
  await page.waitForURL(/width=[^&]*375/);
  const preview = page.getByTitle('Preview of the email');
  await eventually(async () => assert.equal((await preview.boundingBox())?.width, 375));
  await page.getByRole('button', { name: 'Dark' }).click();
  await page.waitForURL(/dark=yes/);
  await page.getByText('Some mail programs invert its colours').waitFor();
  await assertGood(page);
  assert.deepEqual(open.strangers, []);
});

test('checks say what to improve, and headers what they are for, light and dark', async () => {
  const id = await send();
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(pathOf(id));
  await page.getByRole('link', { name: 'Checks' }).click();
  const checks = page.getByRole('list', { name: 'Checks' });
  await checks.getByText('1 link or image is loaded by http').waitFor();
  await checks.getByText('web fonts, which Gmail, Outlook and Yahoo do not support').waitFor();
  await checks.getByText('1 image has no alt text').waitFor();
  await page.getByText('http://acme.test/orders').waitFor();
  await assertGoodInAllThemes(page);

  await page.getByRole('link', { name: 'Headers' }).click();
  await page
    .getByText(/Signed by acme\.test .*The public key is at/)
    .first()
    .waitFor();
  await page
    .getByText(/^DKIM rsa-sha256: .*aligned with From$/)
    .first()
    .waitFor();
  await page.getByText('Identifies this message').waitFor();
  await assertGoodInAllThemes(page);
});

test('the webhooks of an email are on its page, and lead to their delivery', async () => {
  const hook = { url: 'https://hooks.example.org/email', events: ['email.delivered'] };
  const { body: webhook } = await service.request('POST', '/v1/webhooks', { body: hook });
  const id = await send();
  await service.waitForStatus(id, 'delivered');
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(pathOf(id));
  await page.getByRole('heading', { name: 'Webhooks' }).waitFor();
  await assertGood(page);
  await page.getByText(/of 1 received/).waitFor();
  await page.getByText(hook.url).click();
  await page.getByRole('link', { name: 'email.delivered' }).click();
  await page.waitForURL(`**/webhooks/${webhook.id}?delivery=*`);
  const delivery = page.getByRole('dialog', { name: 'Delivery' });
  await delivery.getByText(`"email_id": "${id}"`).waitFor();
  await assertAccessible(page);
  await delivery.getByRole('link', { name: 'Your receipt' }).click();
  await page.getByRole('heading', { name: 'Your receipt' }).waitFor();
  await service.request('DELETE', `/v1/webhooks/${webhook.id}`);
});

test('of a very long text the page shows the beginning, and says so', async () => {
  const html = `<p>${'long '.repeat(60_000)}</p>`;
  const id = await send({ html });
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(pathOf(id, 'html'));
  await page.getByText('These are the first 200,000 of 300,007 characters.').waitFor();
  const shown = await page.getByLabel('html', { exact: true }).textContent();
  assert.equal(shown, html.slice(0, 200_000));
});

test('a viewer sees all of it', async () => {
  const viewer = await memberOf(service, owner, 'viewer');
  const id = await send({ html: '<p>For viewers, too</p>' });
  await using open = await takePage(browser, service, { cookies: signedIn(service, viewer) });
  const { page } = open;
  await page.goto(pathOf(id, 'preview'));
  const frame = page.frameLocator('iframe[title="Preview of the email"]');
  await frame.getByText('For viewers, too').waitFor();
  await page.getByRole('button', { name: 'Download Rechnung für Jo.txt' }).waitFor();
  assert.deepEqual(open.complaints, []);
});

test('a search is completed from existing values, stored under a name, and exported', async () => {
  const tags = [{ name: 'kind', value: 'completion' }];
  const formula = '=1+1, "quoted"';
  await send({ tags, subject: formula });
  await send({ tags, subject: 'Second of two' });
  await send({ subject: 'Without the tag' });
  const figures = () => service.request('GET', '/v1/stats?granularity=day&by=tag');
  await waitFor(
    async () =>
      (await figures()).body.totals.some(
        ({ value }: { value: string }) => value === 'kind:completion',
      ),
    { what: 'the tag in the figures' },
  );
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(`${service.url}/dashboard/${project}/test/emails`);
  const field = page.getByRole('combobox', { name: 'Search emails' });
  const completions = page.getByRole('listbox', { name: 'Completions' });
  await field.pressSequentially('ta');
  await completions.getByRole('option', { name: /^tag:/ }).waitFor();
  await assertGood(page);
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Tab');
  await completions.getByRole('option', { name: 'tag:kind:completion' }).click();
  await page.keyboard.press('Enter');
  await page.waitForURL(/[?]q=tag/);
  const list = page.getByRole('list', { name: 'Emails' });
  await list.getByText('Second of two').waitFor();
  await list.getByText('Without the tag').waitFor({ state: 'detached' });

  await page.getByRole('button', { name: 'Views' }).click();
  await page.getByRole('menuitem', { name: 'Save this search' }).click();
  await page.getByLabel('Name').fill('Completions');
  await page.getByRole('button', { name: 'Save', exact: true }).click();
  await page.getByRole('button', { name: 'Views: Completions' }).waitFor();
  await assertGood(page);

  const saved = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Export' }).click();
  await page.getByRole('menuitem', { name: 'CSV' }).click();
  const csv = await readFile(await (await saved).path(), 'utf8');
  const [title, ...lines] = csv.split('\r\n');
  assert.match(title!, /^id,created_at,status,from,to,/);
  assert.equal(lines.length, 3, csv);
  assert.match(lines[1]!, /,"'=1\+1, ""quoted""",kind:completion,/);
  await page.getByText('2 emails were saved.').waitFor();
  await assertAccessible(page);
  await page.getByRole('button', { name: 'Close' }).click();
  const asJson = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Export' }).click();
  await page.getByRole('menuitem', { name: 'JSON' }).click();
  const rows = JSON.parse(await readFile(await (await asJson).path(), 'utf8')) as {
    to: string[];
  }[];
  assert.equal(rows.length, 2);
  await page.getByRole('button', { name: 'Close' }).click();

  await page.goto(`${service.url}/dashboard/${project}/test/emails`);
  await page.getByText('Without the tag').waitFor();
  await page.getByRole('button', { name: 'Views' }).click();
  await page.getByRole('menuitem', { name: 'Completions', exact: true }).click();
  await page.getByText('Without the tag').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Views: Completions' }).click();
  await page.getByRole('menuitem', { name: 'Delete the view' }).click();
  await page.getByText('The view “Completions” was deleted.').waitFor();
  await page.getByRole('button', { name: 'Undo' }).click();
  await page.getByRole('button', { name: 'Views: Completions' }).waitFor();
});

test('an email is sent again with its attachments', async () => {
  const id = await send({ subject: 'Twice' });
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(pathOf(id));
  await page.getByRole('button', { name: 'Send again' }).click();
  await page.getByLabel('Include the attachment').waitFor();
  await page.getByRole('textbox', { name: 'To' }).fill('delivered+again@simulator.test');
  await page.getByRole('button', { name: 'Send', exact: true }).click();
  await page.waitForURL((url) => /emails\/[\w-]+$/.test(url.pathname) && !url.href.includes(id));
  const copy = new URL(page.url()).pathname.split('/').at(-1);
  const { body } = await service.request('GET', `/v1/emails/${copy}/inspection`);
  assert.deepEqual(
    body.attachments.map(({ filename }: { filename: string }) => filename),
    ['Rechnung für Jo.txt'],
  );
});

test('the preview is light or dark as the member chooses, regardless of the browser', async () => {
  const html = `<style>.dark { display: none } @media (prefers-color-scheme: dark) {
    .dark { display: block } .light { display: none } }</style>
    <p class="light">Light styles</p><p class="dark">Dark styles</p>`;
  const id = await send({ html });
  for (const colorScheme of ['light', 'dark'] as const) {
    await using open = await takePage(browser, service, { cookies, colorScheme });
    const { page } = open;
    await page.goto(pathOf(id, 'preview'));
    const frame = page.frameLocator('iframe[title="Preview of the email"]');
    await frame.getByText('Light styles').waitFor();
    await page.getByRole('button', { name: 'Dark' }).click();
    await page.getByText('This email has its own dark styles.').waitFor();
    await frame.getByText('Dark styles').waitFor();
    await frame.getByText('Light styles').waitFor({ state: 'hidden' });
  }
});

test('the recipients are grouped by reason, and each has its attempts, also for the keyboard', async () => {
  const to = ['delivered@simulator.test', 'bounced+a@simulator.test', 'bounced+b@simulator.test'];
  const id = await send({ to, subject: 'For three', attachments: [] });
  await service.waitForStatus(id, 'bounced');
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(pathOf(id));
  const verdict = { name: 'Bounced for 2 of 3 recipients: the mailbox does not exist' };
  await page.getByRole('heading', verdict).waitFor();
  await page.getByRole('heading', { name: 'Bounced, 2 recipients' }).waitFor();
  await page.getByText('1 of 3 delivered').waitFor();
  await page.getByRole('button', { name: 'delivered@simulator.test', pressed: false }).focus();
  await page.keyboard.press('Enter');
  await page.waitForURL(/recipient=delivered/);
  const attempts = page.getByRole('region', { name: 'Attempts' });
  await attempts.getByText('delivered@simulator.test').waitFor();
  await attempts.getByText(/^250 2/).waitFor();
  await page.keyboard.press('Tab');
  await assertGoodInAllThemes(page);
  await page.getByRole('button', { name: 'SMTP dialogue' }).click();
  const dialogue = page.getByRole('dialog', { name: 'SMTP dialogue, attempt 1' });
  await dialogue.getByText(/^250 2/).waitFor();
  await assertAccessible(page);
  await page.keyboard.press('Escape');
  await dialogue.waitFor({ state: 'detached' });
  assert.deepEqual(open.complaints, []);
});

test('an email that is opened has the focus, and the list has it again afterwards', async () => {
  await send({ subject: 'Focus first' });
  await send({ subject: 'Focus second' });
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(`${service.url}/dashboard/${project}/test/emails`);
  const rows = page.getByRole('list', { name: 'Emails' }).getByRole('link');
  await rows.nth(1).waitFor();
  const focused = page.locator(':focus');
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.getByRole('article', { name: 'Focus second' }).waitFor();
  await eventually(async () =>
    assert.equal(await focused.getAttribute('aria-label'), 'Focus second'),
  );
  await page.keyboard.press('j');
  await page.getByRole('article', { name: 'Focus first' }).waitFor();
  await eventually(async () => assert.equal(await focused.getAttribute('data-row'), '1'));
  await page.keyboard.press('Escape');
  await page.getByRole('article').waitFor({ state: 'detached' });
  await eventually(async () => assert.equal(await focused.getAttribute('data-row'), '1'));
});

test('Enter opens the row that the keys have reached, also when an email has arrived above it', async () => {
  await send({ subject: 'Reached by a key' });
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await goToLive(page, `${service.url}/dashboard/${project}/test/emails`);
  const rows = page.getByRole('list', { name: 'Emails' }).getByRole('link');
  const reached = rows.filter({ hasText: 'Reached by a key' });
  await reached.waitFor();
  await page.keyboard.press('j');
  await eventually(async () =>
    assert.equal(await page.locator(':focus').getAttribute('data-row'), '0'),
  );
  await send({ subject: 'Arrived above it' });
  await rows.filter({ hasText: 'Arrived above it' }).waitFor();
  await page.keyboard.press('Enter');
  await page.getByRole('article', { name: 'Reached by a key' }).waitFor();
  await page.keyboard.press('k');
  await page.getByRole('article', { name: 'Arrived above it' }).waitFor();
});

test('the case file of an email is downloaded, also about one recipient', async () => {
  const to = ['delivered@simulator.test', 'bounced+case@simulator.test'];
  const id = await send({ to, subject: 'Evidence' });
  await service.waitForStatus(id, 'bounced');
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(pathOf(id));
  await page.getByRole('button', { name: 'Download case file' }).click();
  await page.getByLabel('Recipients', { exact: true }).selectOption('bounced+case@simulator.test');
  await assertAccessible(page);
  const saved = page.waitForEvent('download');
  await page.getByRole('button', { name: 'Download', exact: true }).click();
  const file = JSON.parse(await readFile(await (await saved).path(), 'utf8'));
  assert.equal(file.object, 'case_file');
  assert.deepEqual(file.email.to, ['bounced+case@simulator.test']);
});

test('a printed email has its dialogues, and neither list nor navigation', async () => {
  const id = await send({ to: 'bounced+print@simulator.test', subject: 'On paper' });
  await service.waitForStatus(id, 'bounced');
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(pathOf(id));
  await page.getByRole('button', { name: 'SMTP dialogue' }).waitFor();
  await page.emulateMedia({ media: 'print' });
  await page.evaluate(`dispatchEvent(new Event('beforeprint'))`);
  await page.getByRole('heading', { name: 'bounced+print@simulator.test, attempt 1' }).waitFor();
  await page.getByText('550 5.1.1').nth(1).waitFor();
  for (const hidden of ['Screens', 'Parts of the email']) {
    await page.getByRole('navigation', { name: hidden }).waitFor({ state: 'hidden' });
  }
  await page.getByRole('list', { name: 'Emails' }).waitFor({ state: 'hidden' });
  const time = await page.evaluate<string>(
    `getComputedStyle(document.querySelector('main time'), '::after').content`,
  );
  assert.match(time, /\d{4}/, 'paper has the whole time');
  await page.evaluate(`dispatchEvent(new Event('afterprint'))`);
  await page.emulateMedia({ media: null });
});
