/**
 * The dashboard while its connection fails: offline, a restart, a laptop that slept, tabs in the background, a slow
 * network. It keeps what it shows, says so, and is true again by itself. And what an open page costs the service.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Page, Route } from 'playwright-core';
import { memberOf, ownerOf } from '../support/browser.ts';
import { startBrowser } from '../support/chromium.ts';
import {
  assertAccessible,
  buildDashboard,
  goToLive,
  isOfEvents,
  openPage,
  signedIn,
  type OpenPage,
} from '../support/dashboard.ts';
import { startService } from '../support/service.ts';
import { startTcpProxy } from '../support/tcp-proxy.ts';
import { eventually, waitFor } from '../support/wait.ts';

await buildDashboard();
const [service, browser] = await Promise.all([
  startService({ env: { LETTERHAUS_LIMIT_SENDING: '10000/60' } }),
  startBrowser(),
]);
after(async () => {
  await browser[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
});
// It starts again at the same address.
service.env['PORT'] = new URL(service.url).port;
const owner = await ownerOf(service);
const project: string = (await owner.get('/v1/session')).body.projects[0].id;
const PATH = `/dashboard/${project}/test`;
const HOME = service.url + PATH;

async function openSignedIn(): Promise<OpenPage> {
  const open = await openPage(browser, service);
  await open.page.context().addCookies(signedIn(service, owner));
  return open;
}

const send = (subject: string) => service.send({ to: 'delivered@simulator.test', subject });

async function addDomain(name: string): Promise<void> {
  const response = await service.request('POST', '/v1/domains', { body: { name } });
  assert.equal(response.status, 201, response.text);
}

const connectionOf = (page: Page) => page.getByRole('status', { name: 'Connection' });

/** Records what the page says about its connection, because some of it passes. @returns reads it */
async function recordConnection(page: Page): Promise<() => Promise<string[]>> {
  await page.evaluate(`(() => {
    const line = document.querySelector('[role=status][aria-label=Connection]');
    globalThis.said = [];
    const note = () => said.push(line.textContent);
    new MutationObserver(note).observe(line, { childList: true, subtree: true, characterData: true });
  })()`);
  return () => page.evaluate<string[]>('said');
}

test('a table stays while the network is away, says of when it is, and is true again by itself', async () => {
  await addDomain('before.acme.test');
  await using open = await openSignedIn();
  const { page } = open;
  await goToLive(page, `${HOME}/domains`);
  const domains = page.getByRole('region', { name: /domains/i });
  await domains.getByText('before.acme.test').waitFor();
  const said = await recordConnection(page);
  await page.context().setOffline(true);
  await connectionOf(page)
    .getByText(/^You have been offline since .+\. The page was last updated at .+\d/)
    .waitFor();
  await assertAccessible(page);
  // A tab that is shown again reads its data again, which fails.
  await page.evaluate(`dispatchEvent(new Event('visibilitychange'))`);
  await addDomain('meanwhile.acme.test');
  await domains.getByText('before.acme.test').waitFor();
  assert.equal(await domains.getByText('meanwhile.acme.test').count(), 0);
  await page.context().setOffline(false);
  await domains.getByText('meanwhile.acme.test').waitFor();
  await domains.getByText('before.acme.test').waitFor();
  await eventually(async () => assert.equal(await connectionOf(page).textContent(), ''));
  assert.ok((await said()).some((text) => text.startsWith('Connected again.')));
});

test('events that were under way do not end an outage', async () => {
  await using there = await openSignedIn();
  await using away = await openSignedIn();
  await goToLive(there.page, `${HOME}/domains`);
  await goToLive(away.page, `${HOME}/domains`);
  const connection = connectionOf(away.page);
  const saidBy = await recordConnection(away.page);
  await away.page.context().setOffline(true);
  await connection.getByText(/^You have been offline since/).waitFor();
  // The browser cuts no open connection when its network is switched off, so the event would still arrive.
  await addDomain('under-way.acme.test');
  await there.page.getByText('under-way.acme.test').waitFor();
  const said = await saidBy();
  assert.ok(said.length > 0);
  for (const text of said) assert.match(text, /^You have been offline since/);
});

test('a response that was under way when the network went away does not hide that it is away', async () => {
  await addDomain('held.acme.test');
  await using open = await openSignedIn();
  const { page } = open;
  const held = Promise.withResolvers<() => Promise<void>>();
  await page.route('**/v1/queue?**', async (route) => {
    const response = await route.fetch();
    held.resolve(() => route.fulfill({ response }));
  });
  await goToLive(page, `${HOME}/domains`);
  await page.getByText('held.acme.test').waitFor();
  const release = await held.promise;
  const said = await recordConnection(page);
  await page.context().setOffline(true);
  const offline = connectionOf(page).getByText('You have been offline since');
  await offline.waitFor();
  // The page takes it as a reason to read again, which fails.
  const failed = page.waitForEvent('requestfailed', (request) =>
    request.url().includes('/v1/domains'),
  );
  await release();
  await failed;
  assert.equal(await offline.count(), 1);
  assert.equal((await said()).filter((text) => text.startsWith('Connected again.')).length, 0);
  await page.unroute('**/v1/queue?**');
  await page.context().setOffline(false);
  await offline.waitFor({ state: 'detached' });
});

test('a service on the same machine is followed while the browser has no network', async () => {
  await using open = await openSignedIn();
  const { page } = open;
  await page.addInitScript(`Object.defineProperty(navigator, 'onLine', { get: () => false })`);
  await goToLive(page, `${HOME}/suppressions`);
  await page.getByRole('heading', { name: 'Suppressions' }).waitFor();
  await page.evaluate(`dispatchEvent(new Event('offline'))`);
  await connectionOf(page).getByText('You have been offline since').waitFor();
  const address = 'nearby@example.org';
  await service.request('POST', '/v1/suppressions', { body: { address } });
  await page.getByText(address).first().waitFor();
  await connectionOf(page).getByText('You are offline').waitFor({ state: 'detached' });
  await service.request('DELETE', `/v1/suppressions/${address}`);
  await page.getByText(address).first().waitFor({ state: 'detached' });
});

test('objects that others change are read again on every screen that shows them', async () => {
  await using open = await openSignedIn();
  const { page } = open;
  await goToLive(page, `${HOME}/suppressions`);
  const address = 'blocked@example.org';
  await service.request('POST', '/v1/suppressions', { body: { address } });
  await page.getByText(address).first().waitFor();
  await service.request('DELETE', `/v1/suppressions/${address}`);
  await page.getByText(address).first().waitFor({ state: 'detached' });
});

test('a page survives a restart of the service: it says so, and shows what has happened since', async () => {
  await send('Before the restart');
  await using open = await openSignedIn();
  const { page } = open;
  await goToLive(page, `${HOME}/emails`);
  await page.getByText('Before the restart').waitFor();
  await service.stop();
  await connectionOf(page)
    .getByText(/^The service has not responded since .+ The page was last updated at/)
    .waitFor();
  await page.getByText('Before the restart').waitFor();
  await service.restart();
  await send('After the restart');
  await page.getByText('After the restart').waitFor();
  await eventually(async () => assert.equal(await connectionOf(page).textContent(), ''));
});

test('a connection that has died silently, as in the sleep of a laptop, is replaced', async () => {
  const { hostname, port } = new URL(service.url);
  await using proxy = await startTcpProxy({ host: hostname, port: Number(port) });
  await using open = await openSignedIn();
  const { page } = open;
  await page.clock.install();
  for (const [slept, subject] of [
    ['01:00', 'A minute of sleep'],
    ['08:00:00', 'A night of sleep'],
  ] as const) {
    await goToLive(page, `http://127.0.0.1:${proxy.port}${PATH}/emails`);
    await page.getByRole('list', { name: 'Emails' }).getByRole('link').first().waitFor();
    proxy.forget();
    await send(subject);
    await page.clock.fastForward(slept);
    // Requests on dead connections end after half a minute.
    await eventually(async () => {
      await page.clock.fastForward('00:31');
      assert.equal(await page.getByText(subject).count(), 1);
    });
  }
});

const setHidden = (page: Page, isHidden: boolean) =>
  page.evaluate(`
    Object.defineProperty(document, 'hidden', { configurable: true, get: () => ${isHidden} });
    document.dispatchEvent(new Event('visibilitychange'));`);

test('tabs in the background hold no connection, so that many can be open, and are up to date when shown', async () => {
  await using open = await openSignedIn();
  const { page } = open;
  await page.clock.install();
  await goToLive(page, `${HOME}/emails`);
  const ended = page.waitForEvent('requestfailed', isOfEvents);
  await setHidden(page, true);
  await page.clock.fastForward('00:11');
  await ended;
  // A browser opens six connections to a host, for all its tabs.
  const others = await Promise.all(
    Array.from({ length: 8 }, async () => {
      const other = await page.context().newPage();
      await other.addInitScript(
        `Object.defineProperty(document, 'hidden', { configurable: true, get: () => true })`,
      );
      await other.goto(`${HOME}/emails`);
      return other;
    }),
  );
  await Promise.all(others.map((other) => other.getByText('Before the restart').waitFor()));
  await send('While hidden');
  for (const shown of [page, others.at(-1)!]) {
    await setHidden(shown, false);
    await shown.getByText('While hidden').waitFor();
  }
});

const VIRTUAL_STEPS = 24;

test('an open overview costs at most a request in five seconds, however much mail flows', async () => {
  await using open = await openSignedIn();
  const { page } = open;
  await page.clock.install();
  const requests: string[] = [];
  await goToLive(page, `${HOME}/overview`);
  await page.getByRole('heading', { name: 'Overview' }).waitFor();
  await page.waitForLoadState('load');
  const nowMs = () => page.evaluate<number>('performance.now()');
  const read = page.waitForResponse((response) => response.url().includes('/v1/stats'));
  await send('The first');
  await read;
  const begunMs = await nowMs();
  page.on('request', (request) => {
    const { pathname } = new URL(request.url());
    if (pathname.startsWith('/v1/') && !isOfEvents(request)) requests.push(pathname);
  });
  for (let step = 0; step < VIRTUAL_STEPS; step += 1) {
    const emails = Array.from({ length: 20 }, (_, index) => ({
      from: 'hello@acme.test',
      to: 'delivered@simulator.test',
      subject: `Traffic ${step} ${index}`,
      text: 'Hello',
    }));
    const sent = await service.request('POST', '/v1/emails/batch', { body: emails });
    assert.equal(sent.status, 202, sent.text);
    await page.clock.runFor(5_000);
  }
  const seconds = ((await nowMs()) - begunMs) / 1_000;
  assert.ok(seconds >= VIRTUAL_STEPS * 5, `${seconds} s`);
  // The first refresh is at once.
  const allowed = seconds * 0.2 + 8;
  assert.ok(
    requests.length <= allowed,
    `${requests.length} in ${seconds} s: ${requests.join(' ')}`,
  );
  assert.ok(
    requests.some((path) => path === '/v1/stats'),
    'the figures were never read again',
  );
});

test('the outline of the page is there before its scripts, and goes with the first screen', async () => {
  await using open = await openSignedIn();
  const { page } = open;
  const stopped: Route[] = [];
  let isStopped = true;
  await page.route('**/assets/*.js', (route) => {
    if (isStopped) stopped.push(route);
    else void route.continue();
  });
  await page.goto(`${HOME}/emails`, { waitUntil: 'commit' });
  const outline = page.locator('#first-screen');
  await outline.waitFor();
  await waitFor(() => stopped.length > 0, { what: 'the scripts to be requested' });
  await outline.getByText('Letterhaus').filter({ visible: true }).waitFor();
  const { width, height } = (await outline.locator('i').last().boundingBox())!;
  assert.ok(width > 100 && height > 5, `${width} x ${height}`);
  isStopped = false;
  await Promise.all(stopped.map((route) => route.continue()));
  await page.getByRole('list', { name: 'Emails' }).waitFor();
  await outline.waitFor({ state: 'detached' });
});

test('the page of a member who was removed shows no more, and asks to sign in', async () => {
  const member = await memberOf(service, owner, 'developer');
  await using open = await openPage(browser, service);
  const { page } = open;
  await page.context().addCookies(signedIn(service, member));
  await goToLive(page, `${HOME}/emails`);
  const { data } = (await owner.get('/v1/members')).body;
  const { id } = data.find(({ role }: { role: string }) => role === 'developer');
  assert.equal((await owner.request('DELETE', `/v1/members/${id}`)).status, 200);
  await page.getByRole('dialog', { name: 'Sign in again' }).waitFor();
});
