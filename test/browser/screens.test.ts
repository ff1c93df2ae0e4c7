/**
 * Every screen of the navigation, and the pages below them, with data: axe finds nothing, in both themes, on a desk, on
 * phones and with letters of double size, and nothing is wider than the window.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Page } from 'playwright-core';
import { startBrowser } from '../support/chromium.ts';
import {
  assertFlawless,
  assertFits,
  buildDashboard,
  OF_COLORS,
  openPage,
  signedIn,
} from '../support/dashboard.ts';
import { startFullService } from '../support/full-service.ts';

await buildDashboard();
const [full, browser] = await Promise.all([startFullService(), startBrowser()]);
after(async () => {
  await browser[Symbol.asyncDispose]();
  await full[Symbol.asyncDispose]();
});
const { service, owner, project, email, template, webhook, domain } = full;
const HOME = `${service.url}/dashboard/${project}/test`;

/**
 * From the smallest, in which each page is loaded. At 200 % a window of 1440 pixels has half as many for the page. The
 * themes differ in colors, so all rules run in both themes in one window, and those of colors in the others.
 */
const WINDOWS = [
  { name: '320 px', width: 320, height: 640, scale: 1, darkRules: OF_COLORS },
  { name: '390 px', width: 390, height: 844, scale: 1, darkRules: OF_COLORS },
  { name: '1440 px at 200 %', width: 720, height: 450, scale: 2, darkRules: OF_COLORS },
  { name: '1440 px', width: 1440, height: 900, scale: 1, darkRules: null },
] as const;

/** Pages that the navigation does not have: their path, and text of their content. */
const BELOW: readonly (readonly [path: string, shown: string])[] = [
  [`emails/${email}`, 'Attempts'],
  [`emails/${email}?tab=events`, 'Attempt 1, '],
  [`emails/${email}?tab=headers`, 'Message-ID'],
  [`recipients/bounced@simulator.test`, 'Emails and requests'],
  ['recipients?show=suppressed', 'Spam complaint'],
  [`test-inbox/${email}`, 'Reset your password'],
  [`templates/${template}`, 'Subject'],
  [`templates/${template}/versions`, 'Version 1'],
  [`webhooks/${webhook}`, 'Deliveries, 24 hours'],
  [`domains/${domain}`, 'DNS records'],
  ['queue?provider=simulator', 'Settings in effect'],
  ['settings?tab=installation', 'Variables'],
];

/** Returns the paths of the screens in the navigation. */
async function screensOf(page: Page): Promise<string[]> {
  await page.goto(`${HOME}/emails`);
  const links = page.getByRole('navigation', { name: 'Screens' }).getByRole('link');
  await links.first().waitFor();
  const paths = await Promise.all((await links.all()).map((link) => link.getAttribute('href')));
  return paths.map((path) => path?.split('/').at(-1) ?? '');
}

async function settled(page: Page, shown: string | null): Promise<void> {
  await page.locator('h1').first().waitFor();
  await page.locator('.skeleton').first().waitFor({ state: 'detached' });
  if (shown !== null) await page.getByText(shown).filter({ visible: true }).first().waitFor();
}

/** Opens each page once and then widens the window: loading it again in each window takes more time than axe. */
async function assertGoodInAllWindows(
  pathsOf: (page: Page) => Promise<readonly (readonly [path: string, shown: string | null])[]>,
): Promise<void> {
  await using open = await openPage(browser, service, { reducedMotion: 'reduce' });
  const { page } = open;
  await page.context().addCookies(signedIn(service, owner));
  const devTools = await page.context().newCDPSession(page);
  for (const [path, shown] of await pathsOf(page)) {
    for (const [index, { name, width, height, scale, darkRules }] of WINDOWS.entries()) {
      const size = { width, height, deviceScaleFactor: scale, mobile: false };
      await devTools.send('Emulation.setDeviceMetricsOverride', size);
      if (index === 0) await page.goto(`${HOME}/${path}`);
      await settled(page, shown);
      await page.emulateMedia({ colorScheme: 'light' });
      await assertFlawless(page, `${path}, light, ${name}`);
      await page.emulateMedia({ colorScheme: 'dark' });
      await assertFlawless(page, `${path}, dark, ${name}`, darkRules);
      await assertFits(page);
    }
  }
  assert.deepEqual(open.complaints, []);
}

test('every screen of the navigation is accessible and fits, light and dark, in every window', async () => {
  await assertGoodInAllWindows(async (page) => {
    const screens = await screensOf(page);
    assert.ok(screens.length > 15, `${screens.length} screens`);
    return screens.map((path) => [path, null] as const);
  });
});

test('every page below a screen is accessible and fits, light and dark, in every window', async () => {
  await assertGoodInAllWindows(async () => BELOW);
});
