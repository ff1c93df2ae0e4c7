/** The overview in a real browser: periods, what their parts open, findings and their snoozes. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { memberOf, ownerOf } from '../support/browser.ts';
import { startBrowser } from '../support/chromium.ts';
import {
  assertGoodInAllThemes,
  buildDashboard,
  type OpenPage,
  openPage,
  signedIn,
} from '../support/dashboard.ts';
import { startService } from '../support/service.ts';
import { eventually } from '../support/wait.ts';

await buildDashboard();
const service = await startService({ database: 'own' });
const browser = await startBrowser();
after(async () => {
  await browser[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
});
const owner = await ownerOf(service);
const project = String((await owner.get('/v1/session')).body.projects[0].id);
const OVERVIEW = `${service.url}/dashboard/${project}/test/overview`;

/** Four days by hour: 10 recipients an hour, of which 2 bounced yesterday and 1 the day before. */
await service.sql(
  `insert into stats (project_id, environment, granularity, dimension, period, value, emails, recipients, sent,
                      delivered, deferred, bounced, failed, suppressed, canceled, complained, opened, clicked, latencies)
   select $1::uuid, 'test', 'hour', series.dimension, date_trunc('hour', now()) - hours * interval '1 hour', series.value,
          10, 10, 0, 10 - bounces, 1, bounces, 0, 0, 0, 0, 0, 0, array[10 - bounces, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
     from generate_series(0, 96) hours
    cross join (values ('total', ''), ('domain', 'acme.test'), ('reason', 'mailbox')) series(dimension, value)
    cross join lateral (
      select case date_trunc('day', now(), 'UTC')::date - date_trunc('day', now() - hours * interval '1 hour', 'UTC')::date
                  when 1 then 2 when 2 then 1 else 0 end as bounces) counted`,
  [project],
);

/** Days begin in UTC, as those of the stored counts. */
async function openInUtc(who = owner): Promise<OpenPage> {
  const open = await openPage(browser, service, { timezoneId: 'UTC' });
  await open.page.context().addCookies(signedIn(service, who));
  return open;
}

test('two clicks show yesterday against the day before', async () => {
  await using open = await openInUtc();
  const { page } = open;
  await page.goto(OVERVIEW);
  await page.getByRole('button', { name: /^Period: Last 24 hours/ }).click();
  await page.getByRole('button', { name: 'Yesterday', exact: true }).click();
  await page.waitForURL(/range=yesterday/);
  await page.getByRole('button', { name: /^Compare with: Compare Day before/ }).waitFor();
  const figures = page.getByLabel('Figures of the period');
  await figures.getByText('20%').waitFor();
  await figures.getByText('+10.0 pts').waitFor();
  await page
    .getByRole('img', { name: /^Recipients in the period Yesterday: 240 in all; Day before: 240/ })
    .waitFor();
  await assertGoodInAllThemes(page);
  assert.deepEqual(open.complaints, []);
});

test('a part of the chart opens its emails, by the pointer and by the keyboard, and the table has its figures', async () => {
  await using open = await openInUtc();
  const { page } = open;
  await page.goto(`${OVERVIEW}?range=yesterday`);
  const slider = page.getByRole('slider', { name: /^Part of the period/ });
  await slider.focus();
  await page.keyboard.press('Home');
  // The last part, which is chosen before the first, ends at the same hour.
  await eventually(async () => {
    const value = (await slider.getAttribute('aria-valuetext')) ?? '';
    assert.match(value, /, (00:00|12:00.AM) – .*: 8 delivered, 2 bounced; 1 deferred attempts$/);
  });
  await page.keyboard.press('Enter');
  await page.waitForURL(/emails\?q=after/);
  const day = new Date(Date.now() - 86_400_000).toISOString().slice(0, 10);
  assert.match(
    decodeURIComponent(page.url()),
    new RegExp(`after:${day}T00:00Z.before:${day}T01:00Z`),
  );
  await page.goBack();
  await page.getByRole('button', { name: 'Show table' }).click();
  const table = page.getByRole('region', { name: 'Recipients in the period' });
  await table.getByRole('row').nth(24).waitFor();
  await assertGoodInAllThemes(page);
  await page.getByRole('link', { name: 'Bounced', exact: true }).click();
  await page.waitForURL(/emails\?q=status/);
});

test('the figures are broken down by reason, and any days can be chosen', async () => {
  await using open = await openInUtc();
  const { page } = open;
  await page.goto(`${OVERVIEW}?range=yesterday`);
  await page
    .getByRole('navigation', { name: 'Break down by' })
    .getByRole('link', { name: 'Reason' })
    .click();
  await page.getByRole('cell', { name: 'The mailbox does not exist or is disabled' }).waitFor();
  await page.getByRole('button', { name: /^Period/ }).click();
  const menu = page.getByRole('dialog', { name: 'Period' });
  const day = (ago: number) => new Date(Date.now() - ago * 86_400_000).toISOString().slice(0, 10);
  await menu.getByLabel('First day').fill(day(2));
  await menu.getByLabel('Last day').fill(day(1));
  await menu.getByRole('button', { name: 'Show these days' }).click();
  await page.waitForURL(new RegExp(`range=${day(2)}\\.\\.${day(1)}`));
  await page.getByRole('img', { name: /: 480 in all/ }).waitFor();
  await page.getByRole('link', { name: 'The mailbox does not exist or is disabled' }).click();
  await page.waitForURL(/emails\?q=reason/);
  await page.getByText('reason: mailbox').waitFor();
});

async function makeFailingWebhook(url: string): Promise<void> {
  const { body } = await service.request('POST', '/v1/webhooks', { body: { url } });
  await service.sql(`update webhook_endpoints set failing_since = now() where id = $1`, [body.id]);
}

test('a finding is snoozed for all members, and shown again', async () => {
  // A single finding would have no card.
  await makeFailingWebhook('https://hooks.example.org/in');
  await makeFailingWebhook('https://other.example.org/in');
  await using open = await openInUtc();
  const { page } = open;
  await page.goto(OVERVIEW);
  const title = 'Deliveries to the webhook at hooks.example.org fail.';
  const card = page
    .getByRole('listitem')
    .filter({ has: page.getByRole('heading', { name: title }) });
  await card.getByRole('link', { name: 'Show deliveries' }).waitFor();
  await assertGoodInAllThemes(page);
  await card.getByRole('button', { name: `Snooze: ${title}` }).click();
  await page.getByRole('menuitem', { name: 'Snooze for a week' }).click();
  await card.waitFor({ state: 'detached' });
  await page.getByText('1 snoozed finding').click();
  await page.getByText(/Snoozed by .* until/).waitFor();
  await assertGoodInAllThemes(page);

  const viewer = await memberOf(service, owner, 'viewer');
  await using other = await openInUtc(viewer);
  await other.page.goto(OVERVIEW);
  await other.page.getByText('1 snoozed finding').click();
  await other.page.getByText(/Snoozed by .* until/).waitFor();
  assert.equal(await other.page.getByRole('button', { name: 'Show again' }).count(), 0);

  await page.getByRole('button', { name: 'Show again' }).click();
  await card.waitFor();
});

test('a single finding stands in the verdict alone, with its action and its snooze', async () => {
  const name = 'Only a domain';
  const { body } = await owner.post('/v1/projects', { name });
  const scope = { 'letterhaus-project': body.id, 'letterhaus-environment': 'test' };
  await owner.post('/v1/domains', { name: 'alone.example' }, scope);
  await using open = await openInUtc();
  const { page } = open;
  await page.goto(OVERVIEW.replace(project, String(body.id)));
  const title = 'Needs attention: alone.example is not verified';
  const verdict = page.getByRole('region', { name: title });
  await verdict.getByText('You cannot send from this domain.').waitFor();
  await assertGoodInAllThemes(page);
  await verdict.getByRole('button', { name: 'Snooze: alone.example is not verified yet.' }).click();
  await page.getByRole('menuitem', { name: 'Snooze for a week' }).click();
  await page.getByRole('heading', { name: 'All is well' }).waitFor();
  await page.getByRole('button', { name: 'Undo' }).click();
  await verdict.getByRole('link', { name: 'Show records' }).click();
  await page.getByRole('heading', { name: 'alone.example' }).waitFor();
});
