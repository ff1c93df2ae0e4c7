/**
 * The dashboard follows what happens while it is open. One service and browser for all tests.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Page } from 'playwright-core';
import { ownerOf } from '../support/browser.ts';
import { startBrowser } from '../support/chromium.ts';
import { buildDashboard, goToLive, signedIn, takePage } from '../support/dashboard.ts';
import { startService } from '../support/service.ts';
import { eventually } from '../support/wait.ts';

await buildDashboard();
const [service, browser] = await Promise.all([
  startService({ env: { LETTERHAUS_LIMIT_SENDING: '10000/60' } }),
  startBrowser(),
]);
after(async () => {
  await browser[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
});
const owner = await ownerOf(service);
const project: string = (await owner.get('/v1/session')).body.projects[0].id;
const HOME = `${service.url}/dashboard/${project}/test`;

async function sendMany(subject: string, count: number): Promise<void> {
  for (let sent = 0; sent < count; sent += 100) {
    const emails = Array.from({ length: Math.min(100, count - sent) }, (_, index) => ({
      from: 'hello@acme.test',
      to: 'delivered@simulator.test',
      subject: `${subject} ${sent + index + 1}`,
      text: 'Hello',
    }));
    const response = await service.request('POST', '/v1/emails/batch', { body: emails });
    assert.equal(response.status, 202, response.text);
  }
}

const ROW_PX = 36;

/** Scrolls through the whole list. @returns how often each subject was found */
async function subjectsIn(page: Page): Promise<string[]> {
  return page.evaluate(`(async () => {
    const list = document.querySelector('ul[aria-label="Emails"]');
    const frame = list.parentElement;
    const found = new Map();
    for (let top = 0; top < list.offsetHeight; top += 300) {
      frame.scrollTop = top;
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      for (const row of list.querySelectorAll('a')) found.set(row.href, row.children[2].textContent);
    }
    return [...found.values()];
  })()`);
}

test('a list that is open while a burst arrives has every email, and counts them rightly', async () => {
  const scheduled_at = new Date(Date.now() + 3_600_000).toISOString();
  const oldest = await service.send({
    to: 'later@simulator.test',
    subject: 'Oldest',
    scheduled_at,
  });
  await sendMany('Before', 60);
  await using open = await takePage(browser, service, { cookies: signedIn(service, owner) });
  const { page } = open;
  await goToLive(page, `${HOME}/emails`);
  const list = page.getByRole('list', { name: 'Emails' });
  const heightOf = (rows: number) =>
    eventually(async () => assert.equal((await list.boundingBox())?.height, rows * ROW_PX));
  await list.getByText('Before').first().waitFor();
  await page.mouse.move(600, 400);
  await page.mouse.wheel(0, 1_000);
  await heightOf(61);
  const newRows = page.getByRole('button', { name: / new$/ });

  await sendMany('Burst', 130);
  await newRows.filter({ hasText: /^130 new$/ }).click();
  await heightOf(191);
  await eventually(async () => {
    const subjects = await subjectsIn(page);
    const missing = ['Oldest', ...numbered('Before', 60), ...numbered('Burst', 130)].filter(
      (subject) => !subjects.includes(subject),
    );
    assert.deepEqual(missing, []);
  });

  // A row far below the newest follows its email.
  const last = list.getByRole('link').filter({ hasText: 'Oldest' });
  await last.getByText('scheduled').waitFor();
  const canceled = await service.request('POST', `/v1/emails/${oldest}/cancel`, { body: {} });
  assert.equal(canceled.status, 200, canceled.text);
  await last.getByText('canceled').waitFor();
  assert.deepEqual(open.complaints, []);
});

const numbered = (name: string, count: number): string[] =>
  Array.from({ length: count }, (_, index) => `${name} ${index + 1}`);
