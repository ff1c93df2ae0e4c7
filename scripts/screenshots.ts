/**
 * `npm run screenshots -- FOLDER`: a picture of every screen of the dashboard, in both themes, on a desk and on
 * a phone, from a service that has some mail.
 */
import { mkdirSync } from 'node:fs';
import { join, resolve } from 'node:path';
import type { Page } from 'playwright-core';
import { OWNER } from '../test/support/browser.ts';
import { startBrowser } from '../test/support/chromium.ts';
import { buildDashboard, openPage } from '../test/support/dashboard.ts';
import { startFullService } from '../test/support/full-service.ts';

const SCREENS = [
  'overview',
  'emails',
  'test-inbox',
  'templates',
  'recipients',
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
const folder = resolve(process.argv[2] ?? 'data/screenshots');
mkdirSync(folder, { recursive: true });
await buildDashboard();
await using full = await startFullService();
await using browser = await startBrowser();
const { service, project, email, template, webhook } = full;

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
      `emails/${email}`,
      ...TABS.map((tab) => `emails/${email}?tab=${tab}`),
      `test-inbox/${email}`,
      `templates/${template}`,
      `webhooks/${webhook}`,
    ]) {
      await page.goto(`${service.url}/dashboard/${project}/test/${screen}`);
      await waitForContent(page, screen);
      const ids = [email, template, webhook];
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
  if (screen === 'overview')
    await page.getByRole('img', { name: /^Recipients in the period/ }).waitFor();
}
