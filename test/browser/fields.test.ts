/** Text that is typed is seen: also characters below the line, in every font of the dashboard. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Locator, Page } from 'playwright-core';
import { ownerOf } from '../support/browser.ts';
import { startBrowser } from '../support/chromium.ts';
import { buildDashboard, openPage, signedIn } from '../support/dashboard.ts';
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
  body: { name: 'Receipt', subject: 'Receipt', text: 'Hello', variables: [{ name: 'name' }] },
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
