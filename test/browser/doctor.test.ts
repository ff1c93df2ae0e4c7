/** The doctor in the dashboard: findings by severity with their remedies, and a run on request with its progress. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { memberOf, ownerOf } from '../support/browser.ts';
import { startBrowser } from '../support/chromium.ts';
import {
  assertAccessible,
  assertGoodInAllThemes,
  buildDashboard,
  copyBy,
  signedIn,
  takePage,
} from '../support/dashboard.ts';
import { LAB_HOST, startLabDns } from '../support/doctor-lab.ts';
import { startService } from '../support/service.ts';

await buildDashboard();
const dns = await startLabDns();
const [service, browser] = await Promise.all([
  startService({
    dns,
    args: ['--only', 'api', '--workers', '1'],
    // Nothing listens there: mail cannot leave.
    env: {
      LETTERHAUS_HOSTNAME: LAB_HOST,
      LETTERHAUS_SOURCE_IPS: '127.0.0.1',
      LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1',
      LETTERHAUS_MX_PORT: '9',
    },
  }),
  startBrowser(),
]);
after(async () => {
  await browser[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
  await dns[Symbol.asyncDispose]();
});

const owner = await ownerOf(service);
const project = (await owner.get('/v1/session')).body.projects[0].id as string;
const DOCTOR = `${service.url}/dashboard/${project}/test/doctor`;

test('an owner runs the doctor, sees its progress, and reads what to do with the command to copy', async () => {
  await using open = await takePage(browser, service, { cookies: signedIn(service, owner) });
  const { page } = open;
  await page.context().grantPermissions(['clipboard-read', 'clipboard-write']);
  await page.goto(DOCTOR);
  await page.getByRole('heading', { name: 'The doctor has not run yet' }).waitFor();
  await assertAccessible(page);
  // The run waits for this answer.
  dns.setFailure('gmail.com', 'timeout');
  await Promise.all([
    page.getByText(/^\d+ of \d+ checks have ended$/).waitFor(),
    page.getByRole('button', { name: 'Running' }).waitFor(),
    page.getByRole('button', { name: 'Run the doctor' }).click(),
  ]);
  await assertAccessible(page);
  dns.setFailure('gmail.com', null);
  await page.getByRole('button', { name: 'Run again' }).waitFor({ timeout: 120_000 });

  const red = page.getByRole('region', { name: /^Stops or loses mail/ });
  await red.getByText(/Connections to port 9 are refused/).waitFor();
  await red
    .getByText(/^Ask the hosting company|firewall/)
    .first()
    .waitFor();
  const checks = page.getByRole('list', { name: 'Checks' });
  for (const count of [
    /^\d+ stops? mail$/,
    /^\d+ hurts? delivery$/,
    /^\d+ no problems$/,
    /^Checked /,
  ])
    await checks.getByRole('listitem').filter({ hasText: count }).waitFor();
  const [command] = await page.getByLabel('command', { exact: true }).allTextContents();
  await copyBy(page.getByRole('button', { name: 'Copy the command' }).first());
  assert.equal(await page.evaluate('navigator.clipboard.readText()'), command);
  const handbook = page.getByRole('link', { name: 'handbook: bounces' });
  assert.equal(await handbook.getAttribute('href'), '/docs/bounces');
  await page.locator('summary', { hasText: 'No problems' }).click();
  await page.getByText(/says lab\.mx\.test, and that name leads back to it/).waitFor();
  await assertGoodInAllThemes(page);

  // The report is as old as what came before took, which may be a minute.
  await service.sql('update doctor_reports set finished_at = app_now()');
  await page.getByRole('button', { name: 'Run again' }).click();
  await page
    .getByRole('alert')
    .getByText(/ran less than 60 seconds ago/)
    .waitFor();
  assert.deepEqual(
    open.complaints.filter((complaint) => !complaint.includes('429')),
    [],
  );
});

test('other members do not see the page in the navigation, and its address says who may', async () => {
  const admin = await memberOf(service, owner, 'admin');
  await using open = await takePage(browser, service, { cookies: signedIn(service, admin) });
  const { page } = open;
  await page.goto(DOCTOR);
  await page.getByText('Only owners can open this page').waitFor();
  assert.equal(await page.getByRole('link', { name: 'Doctor' }).count(), 0);
});
