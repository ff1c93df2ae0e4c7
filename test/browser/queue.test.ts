/** The queue in the dashboard, on a service that delivers nothing, so that accepted mail waits. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Page } from 'playwright-core';
import type { NewCondition } from '../../src/core/operator-events.ts';
import { raiseCondition } from '../../src/operator/condition-store.ts';
import { memberOf, OWNER, ownerOf } from '../support/browser.ts';
import { startBrowser } from '../support/chromium.ts';
import {
  assertAccessible,
  assertGoodInAllThemes,
  buildDashboard,
  signedIn,
  takePage,
} from '../support/dashboard.ts';
import { asOwner } from '../support/postgres.ts';
import { startService } from '../support/service.ts';

await buildDashboard();
const [service, browser] = await Promise.all([
  startService({ args: ['--only', 'api', '--workers', '1'] }),
  startBrowser(),
]);
after(async () => {
  await browser[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
});

const owner = await ownerOf(service);
const cookies = signedIn(service, owner);
const project = (await owner.get('/v1/session')).body.projects[0].id as string;
const QUEUE = `${service.url}/dashboard/${project}/test/queue`;

const rowOf = (page: Page, provider: string) =>
  page.getByRole('region', { name: 'Providers' }).getByRole('row').filter({ hasText: provider });

test('the page says when the queue is empty, and mail appears as it is accepted', async () => {
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(`${service.url}/dashboard/`);
  await page.getByRole('heading', { name: 'Setup', exact: true }).waitFor();
  // Without a wait between them: after a second the first is forgotten.
  await Promise.all([page.keyboard.press('g'), page.keyboard.press('q')]);
  await page.getByRole('heading', { name: 'The queue is empty' }).waitFor();
  await service.send({ to: 'jo@waiting.test' });
  await rowOf(page, 'simulator').getByText('open').waitFor();
  await page.getByRole('definition').filter({ hasText: 'for 1 provider' }).waitFor();
  await service.sql(`update queue set due_at = due_at - interval '5 minutes'`);
  await page.reload();
  // The steps before may have taken a minute.
  await rowOf(page, 'simulator')
    .getByText(/^[5-8] min ago$/)
    .waitFor();
  await page.getByRole('definition').filter({ hasText: 'Due now' }).waitFor();
  assert.deepEqual(open.complaints, []);
});

test('emails to a provider are put on hold and released, and their limit says so', async () => {
  const id = await service.send({ to: 'jo@hoster.test' });
  await service.sql(`update queue set provider = 'hoster.example' where email_id = $1`, [id]);
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(QUEUE);
  await rowOf(page, 'hoster.example').getByRole('link').click();
  await page.getByRole('heading', { name: 'hoster.example' }).waitFor();
  await page.getByRole('cell', { name: 'Concurrent connections' }).waitFor();
  await page.getByRole('button', { name: 'Hold' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Hold' }).click();
  await page.getByText('All recipients are on hold').waitFor();
  assert.equal((await service.email(id)).recipients[0].next_attempt_at, null);
  await page.getByRole('button', { name: 'Release' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Release' }).click();
  await page.getByText('1 recipient released.').waitFor();
  assert.notEqual((await service.email(id)).recipients[0].next_attempt_at, null);
});

test('the page of an email says why it waits, and leads to the queue of its provider', async () => {
  const id = await service.send({ to: 'jo@held.test', subject: 'Held for a while' });
  await service.request('POST', '/v1/queue/hold', { body: { email_id: id } });
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(`${service.url}/dashboard/${project}/test/emails/${id}`);
  await page.getByRole('heading', { name: 'Queued: on hold' }).waitFor();
  await page.getByText('No attempt has been made yet.').waitFor();
  await assertAccessible(page);
  await page.getByRole('link', { name: 'Show the queue of the simulator' }).click();
  await page.getByRole('heading', { name: 'simulator' }).waitFor();
  await page.getByText('Test emails are simulated').waitFor();
});

test('the overview shows what is queued, and which provider is suspended', async () => {
  const id = await service.send({ to: 'jo@closed.test' });
  await service.sql(`update queue set provider = 'closed.example' where email_id = $1`, [id]);
  await service.sql(
    `insert into providers (node, provider, state, until, connections_max, connections_open, updated_at)
     select id, 'closed.example', 'suspended', app_now() + interval '1 hour', 1, 0, app_now() from nodes
         on conflict do nothing`,
  );
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(QUEUE.replace('/queue', '/overview'));
  await page.getByText(/\d recipients? queued, \d+ due/).waitFor();
  await page.getByText('Delivery to closed.example is suspended. 1 recipient is queued.').waitFor();
  await page.getByRole('link', { name: 'Show why' }).click();
  await page.getByRole('heading', { name: 'closed.example' }).waitFor();
});

test('a drop can be undone, also after the page was loaded again', async () => {
  const id = await service.send({ to: 'jo@dropped.test' });
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  await page.goto(QUEUE);
  await page.getByRole('button', { name: 'More actions', exact: true }).click();
  await page.getByRole('menuitem', { name: 'Drop' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Select by').selectOption('domain');
  await dialog.getByLabel('Domain', { exact: true }).fill('dropped.test');
  await dialog.getByRole('button', { name: 'Drop' }).click();
  const drops = page.getByRole('list', { name: 'Drops' });
  await drops.getByText('1 recipient will be dropped in').waitFor();
  // The minute must not end during this test, on however slow a machine.
  await service.sql(`update queue_drops set drops_at = app_now() + interval '1 hour'`);
  await page.reload();
  await drops.getByText('domain:dropped.test').waitFor();
  await drops.getByRole('button', { name: 'Undo' }).click();
  await drops.waitFor({ state: 'detached' });
  const [one] = (await service.email(id)).recipients;
  assert.equal(one.status, 'queued');
  assert.notEqual(one.next_attempt_at, null);
});

test('a viewer sees the queue and is offered no changes', async () => {
  const viewer = await memberOf(service, owner, 'viewer');
  await using open = await takePage(browser, service, { cookies: signedIn(service, viewer) });
  const { page } = open;
  await page.goto(QUEUE);
  await rowOf(page, 'simulator').waitFor();
  for (const name of ['Hold', 'Release', 'Retry now', 'Drop']) {
    assert.equal(await page.getByRole('button', { name }).count(), 0, name);
  }
  assert.equal(await page.getByRole('button', { name: 'More actions' }).count(), 0);
});

test('the queue is accessible and fits a phone, light and dark', async () => {
  await service.sql(
    `insert into providers (node, provider, state, until, connections_max, connections_open, updated_at)
     select id, 'hoster.example', 'suspended', app_now() + interval '1 hour', 1, 0, app_now() from nodes
         on conflict do nothing`,
  );
  const dropped = await service.send({ to: 'jo@phone.test' });
  await service.request('POST', '/v1/queue/drop', { body: { email_id: dropped } });
  await service.sql(`update queue_drops set drops_at = app_now() + interval '1 hour'`);
  await using open = await takePage(browser, service, { cookies });
  const { page } = open;
  for (const [address, shown] of [
    [QUEUE, 'suspended'],
    [`${QUEUE}?scope=organization`, OWNER.name],
    [`${QUEUE}?provider=hoster.example`, 'Settings in effect'],
  ] as const) {
    await page.goto(address);
    await page.getByText(shown).first().waitFor();
    await page.getByRole('list', { name: 'Drops' }).waitFor();
    await assertGoodInAllThemes(page);
  }
});

test('the overview shows only admins the open conditions and that all mail is accounted for', async () => {
  const condition: NewCondition = {
    type: 'disk.low',
    subject: 'mail1',
    message: 'The disk of the database has 412 MB left; emails are refused.',
    remedy: 'Make room on it.',
  };
  await asOwner(service.address(), (db) => raiseCondition(db, condition));
  await service.sql(
    `update reconciliation set first_day = '2026-11-01', through = '2026-11-14', finished_at = app_now()`,
  );
  const accountedFor = 'All mail accepted from 2026-11-01 to 2026-11-14 (UTC) is accounted for.';
  const overview = `${service.url}/dashboard/${project}/test/overview`;
  await using open = await takePage(browser, service, { cookies });
  await open.page.goto(overview);
  const item = open.page.getByRole('listitem').filter({ hasText: condition.message });
  await item.getByText(condition.remedy).waitFor();
  await open.page.getByText(accountedFor).waitFor();
  await assertAccessible(open.page);
  assert.deepEqual(open.complaints, []);

  const viewer = await memberOf(service, owner, 'viewer');
  await using other = await takePage(browser, service, { cookies: signedIn(service, viewer) });
  await other.page.goto(overview);
  await other.page
    .getByText('Nothing needs attention.')
    .or(
      other.page
        .getByRole('listitem')
        .filter({ hasText: 'Delivery to closed.example is suspended' }),
    )
    .first()
    .waitFor();
  assert.equal(await other.page.getByText(condition.message).count(), 0);
  assert.equal(await other.page.getByText(accountedFor).count(), 0);
  assert.deepEqual(other.complaints, []);
});

test('the overview of a restored service says that it is on hold', async () => {
  await service.sql('update installation set on_hold_since = app_now()');
  await service.restart();
  await using open = await takePage(browser, service, { cookies: signedIn(service, owner) });
  const { page } = open;
  await page.goto(`${service.url}/dashboard/${project}/test/overview`);
  await page.getByText(/was restored from a backup and is on hold/).waitFor();
  await service.cli('release');
  assert.deepEqual(open.complaints, []);
});
