/**
 * `npm run screenshots -- FOLDER`: a picture of every screen of the dashboard, in both themes, on a desk and on
 * a phone, from a service that has some mail.
 */
import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Page } from 'playwright-core';
import { type Browser as ApiBrowser, OWNER, ownerOf } from '../test/support/browser.ts';
import { startBrowser } from '../test/support/chromium.ts';
import { buildDashboard, openPage } from '../test/support/dashboard.ts';
import { type Service, startService } from '../test/support/service.ts';

const SCREENS = [
  'overview',
  'emails',
  'test-inbox',
  'templates',
  'queue',
  'setup',
  'domains',
  'api-keys',
  'webhooks',
  'suppressions',
  'members',
  'audit-log',
  'api-log',
  'projects',
  'doctor',
  'settings',
];
const TABS = ['preview', 'checks', 'headers'];
const SIZES = { desk: { width: 1440, height: 900 }, phone: { width: 375, height: 812 } };
const MAIL: [to: string, subject: string][] = [
  ['delivered@simulator.test', 'Your receipt from Acme'],
  ['complained@simulator.test', 'News of November'],
  ['deferred@simulator.test', 'Your login code is 482913'],
  ['bounced@simulator.test', 'Reset your password'],
];

/** Stores the mail of eight days by hour, more by day than by night. */
const HISTORY = `
insert into stats (project_id, environment, granularity, dimension, period, value, emails, recipients,
                   sent, delivered, deferred, bounced, failed, suppressed, canceled, complained, opened,
                   clicked, latencies)
select $1::uuid, 'test', 'hour', series.dimension, period.at, series.value, emails, emails, 0,
       emails - emails / 40, emails / 15, emails / 40, 0, 0, 0, emails / 2000, 0, 0,
       array[0, emails - emails / 40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
  from generate_series(1, 191) hours
 cross join lateral (select date_trunc('hour', now(), 'UTC') - hours * interval '1 hour' as at) period
 cross join (values ('total', '', 1.0), ('domain', 'acme.com', 0.7), ('domain', 'shop.example', 0.3),
                    ('provider', 'Google', 0.6), ('provider', 'Microsoft', 0.4))
            series(dimension, value, share)
 cross join lateral (
    select round(series.share * (900 - 600 * cos(extract(hour from period.at) * pi() / 12)) + hours * 7 % 90)::int
             as emails) counted
on conflict do nothing`;

const folder = resolve(process.argv[2] ?? 'data/screenshots');
mkdirSync(folder, { recursive: true });
await buildDashboard();
await using service = await startService({ database: 'own' });
await using browser = await startBrowser();
const owner: ApiBrowser = await ownerOf(service);
const shown = await sendMail(service);
const template = await makeTemplate(service);
const webhook = await makeWebhook(service);
const project = String((await owner.get('/v1/session')).body.projects[0].id);
await service.sql(HISTORY, [project]);

for (const colorScheme of ['light', 'dark'] as const) {
  for (const [size, viewport] of Object.entries(SIZES)) {
    await using open = await openPage(browser, service, { colorScheme, viewport });
    const { page } = open;
    await page.goto(`${service.url}/dashboard/`);
    await page.getByLabel('Email').fill(OWNER.email);
    await page.getByLabel('Password').fill(OWNER.password);
    await page.screenshot({ path: join(folder, `sign-in-${size}-${colorScheme}.png`) });
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('heading', { name: 'Emails' }).waitFor();
    for (const screen of [
      ...SCREENS,
      'recipients/bounced@simulator.test',
      `emails/${shown}`,
      ...TABS.map((tab) => `emails/${shown}?tab=${tab}`),
      `test-inbox/${shown}`,
      `templates/${template}`,
      `webhooks/${webhook}`,
    ]) {
      await page.goto(`${service.url}/dashboard/${project}/test/${screen}`);
      await waitForContent(page, screen);
      const ids = [shown, template, webhook];
      const name = ids.reduce((text, id) => text.replace(id, 'one'), screen);
      await page.screenshot({
        path: join(folder, `${name.replaceAll(/[/?]/g, '-')}-${size}-${colorScheme}.png`),
      });
    }
  }
}
process.stdout.write(`The pictures are in ${folder}.\n`);

async function waitForContent(page: Page, screen: string): Promise<void> {
  await page.locator('h1').first().waitFor();
  await page.locator('.skeleton').first().waitFor({ state: 'detached' });
  if (screen === 'overview') await page.getByRole('img', { name: /^Outcomes/ }).waitFor();
}

/** @returns its id; it has one delivery */
async function makeWebhook(of: Service): Promise<string> {
  const body = { url: 'https://hooks.example.org/email' };
  const id = String((await of.request('POST', '/v1/webhooks', { body })).body.id);
  await of.request('POST', `/v1/webhooks/${id}/test`);
  return id;
}

/** @returns the id of the last email */
async function sendMail(to: Service): Promise<string> {
  let id = '';
  for (const [address, subject] of MAIL) id = await to.send({ to: address, subject });
  await to.waitForStatus(id, 'bounced');
  return id;
}

/** @returns its id; its second version is a draft */
async function makeTemplate(of: Service): Promise<string> {
  const body = {
    name: 'Receipt',
    alias: 'receipt',
    subject: 'Your receipt, {{ name }}',
    html: '<h1>Thank you, {{ name }}</h1>\n{% for item in items %}<p>{{ item }}</p>{% endfor %}',
    variables: [{ name: 'name' }, { name: 'items', type: 'list', default: ['Tea', 'Cups'] }],
  };
  const id = String((await of.request('POST', '/v1/templates', { body })).body.id);
  await of.request('POST', `/v1/templates/${id}/publish`, { body: {} });
  await of.request('PATCH', `/v1/templates/${id}`, { body: { subject: 'Thank you, {{ name }}' } });
  return id;
}
