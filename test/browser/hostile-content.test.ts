/**
 * Some hundred payloads in every field that the dashboard shows, as strangers, customers and colleagues could place
 * them: none runs, becomes part of a page, or has a page ask another server.
 */
import assert from 'node:assert/strict';
import { type AddressInfo, createServer } from 'node:net';
import { after, test } from 'node:test';
import type { Frame, Locator, Page } from 'playwright-core';
import { createProject } from '../../src/accounts/projects/project-store.ts';
import { Browser as ApiBrowser, OWNER, ownerOf, tokenOf } from '../support/browser.ts';
import { startBrowser } from '../support/chromium.ts';
import {
  assertFits,
  buildDashboard,
  type OpenPage,
  openPage,
  signedIn,
  sourceEditor,
  takePage,
  visit,
  writeSource,
} from '../support/dashboard.ts';
import { ELSEWHERE, PAYLOADS, unprotectedPage } from '../support/hostile-payloads.ts';
import { asOwner } from '../support/postgres.ts';
import { FROM, liveEnv, newPeers, to } from '../support/scene.ts';
import { startService } from '../support/service.ts';
import { eventually, waitFor } from '../support/wait.ts';
import { startReceiver } from '../support/webhook-receiver.ts';

await buildDashboard();
const TEXTS = PAYLOADS.map(({ text }) => text);
const nameOf = (text: string): string => text.slice(0, 100);
const RECIPIENTS_MAX = 50;
const OWN_PROJECTS = 90;

/** Every recipient is refused in the words of another payload. */
const peers = await newPeers({
  recipients: Object.fromEntries(TEXTS.map((text, index) => [to(index), `550 5.7.1 ${text}`])),
});
const receiver = await startReceiver({ status: 500, body: TEXTS.slice(-40).join(' ') });
const [service, browser] = await Promise.all([
  startService({ dns: peers.dns, env: liveEnv(peers) }),
  startBrowser(),
]);
after(async () => {
  for (const part of [browser, service, receiver, peers]) await part[Symbol.asyncDispose]();
});

const owner = await ownerOf(service);
const [{ id: organization }] = await service.sql('select id from organizations');
const project = String((await owner.get('/v1/session')).body.projects[0].id);
const HOME = `${service.url}/dashboard/${project}`;
const TEST = { 'letterhaus-project': project, 'letterhaus-environment': 'test' };

async function post(path: string, body: unknown): Promise<{ id: string; url: string }> {
  const response = await owner.post(path, body, TEST);
  assert.ok(response.status < 300, response.text);
  return response.body;
}

const quoted = (text: string): string => `"${text.replaceAll(/["\\]/g, String.raw`\$&`)}"`;

/** One email for each payload, which has it in every field that takes it. @returns their ids */
async function sendAll(): Promise<string[]> {
  const emails = TEXTS.map((text) => ({
    from: `${quoted(text)} <hello@acme.test>`,
    to: `${quoted(text)} <delivered@simulator.test>`,
    reply_to: `${quoted(text)} <o'{|}x@acme.test>`,
    subject: text,
    html: text,
    text,
    metadata: { note: text },
    headers: { 'X-Note': text },
    attachments: [{ filename: text, content: 'AAAA' }],
  }));
  const ids: string[] = [];
  for (let from = 0; from < emails.length; from += 60) {
    const part = emails.slice(from, from + 60);
    const { status, body, text } = await service.request('POST', '/v1/emails/batch', {
      body: part,
    });
    assert.equal(status, 202, text);
    ids.push(...body.data.map(({ id }: { id: string }) => id));
  }
  return ids;
}

/** Emails whose recipients are all refused. @returns their ids */
async function sendRefused(): Promise<string[]> {
  await service.addLiveDomain('acme.example.org');
  const key = await service.liveKey();
  const ids: string[] = [];
  for (let from = 0; from < TEXTS.length; from += RECIPIENTS_MAX) {
    const addresses = TEXTS.slice(from, from + RECIPIENTS_MAX).map((_, index) => to(from + index));
    ids.push(await service.send({ from: FROM, to: addresses, subject: 'Refused' }, { key }));
  }
  for (const id of ids) await service.waitForStatus(id, 'bounced', { key, timeoutMs: 60_000 });
  return ids;
}

/** An owner may create 100 projects, and there are more payloads: the operator creates the others. */
async function newProject(name: string, index: number): Promise<void> {
  if (index < OWN_PROJECTS) await post('/v1/projects', { name });
  else await asOwner(service.address(), (db) => createProject(db, organization, name));
}

/**
 * Puts payloads into every name that members choose.
 * @returns ids of a template and of a webhook whose responses are payloads
 */
async function nameAll(): Promise<{ template: string; webhook: string }> {
  const html = `{% raw %}${TEXTS.join('\n')}{% endraw %}`;
  for (const [index, text] of TEXTS.entries()) {
    const name = nameOf(text);
    const subject = `{% raw %}${text}{% endraw %}`;
    const variables = [{ name: 'x', default: text }];
    await Promise.all([
      post('/v1/templates', { name, subject, html: 'x', variables }),
      post('/v1/api-keys', { name }),
      newProject(name, index),
    ]);
  }
  // A project has 50 webhooks at most.
  for (let from = 0; from < TEXTS.length; from += 3) {
    const url = `https://hooks.example.org/?${TEXTS.slice(from, from + 3).join('&')}`;
    await post('/v1/webhooks', { url, events: ['domain.verified'] });
  }
  const { id: template } = await post('/v1/templates', { name: 'Joined', subject: 'x', html });
  const { id: webhook } = await post('/v1/webhooks', { url: receiver.url });
  await post(`/v1/webhooks/${webhook}/test`, {});
  await post('/v1/suppressions', { address: `o'{{x}}|\`$x@simulator.test` });
  return { template, webhook };
}

/** Who signs in with a name and a browser of their own making. */
async function joinAll(): Promise<void> {
  for (const [index, text] of TEXTS.slice(0, 4).entries()) {
    const email = `member${index}@acme.test`;
    const { url } = await post('/v1/invitations', { email, role: 'viewer' });
    const member = new ApiBrowser(service);
    const who = { token: tokenOf(url), name: nameOf(text), password: OWNER.password };
    assert.equal((await member.post('/v1/invitations/accept', who)).status, 200);
    const signedInElsewhere = new ApiBrowser(service, { 'user-agent': text });
    assert.equal((await signedInElsewhere.signIn(OWNER)).status, 200);
  }
}

const [ids, refused, { template, webhook }] = await Promise.all([
  sendAll(),
  sendRefused(),
  nameAll(),
  joinAll(),
]);

/** With what ran, in any frame of the page. */
type WatchedPage = OpenPage & { ran: number[] };

async function watched(open: OpenPage): Promise<WatchedPage> {
  const ran: number[] = [];
  const exposed = await open.page.exposeFunction('ran', (number: number) => ran.push(number));
  return {
    ...open,
    ran,
    async [Symbol.asyncDispose]() {
      await exposed.dispose();
      await open[Symbol.asyncDispose]();
    },
  };
}

async function openDashboard(): Promise<WatchedPage> {
  return watched(await takePage(browser, service, { cookies: signedIn(service, owner) }));
}

/** Elements and attributes that only a payload brings into a page of the dashboard. */
const BROUGHT_IN = `(() => {
  const own = (url) => /^(\\/|https?:|mailto:|#|$)/.test(url);
  const names = 'object,embed,base,frameset,math,video,audio,marquee,animate,set,foreignObject,[http-equiv],style:not([nonce])';
  const isBad = (element) =>
    element.matches(names) ||
    (element.matches('script, iframe') && !/^(\\/dashboard\\/|\\/s\\/)/.test(element.getAttribute('src') ?? '')) ||
    [...element.attributes].some(({ name, value }) =>
      name.startsWith('on') || name === 'srcdoc' ||
      (['href', 'src', 'action', 'formaction', 'xlink:href'].includes(name) && !own(value)));
  return [...document.querySelectorAll('*')].filter(isBad).map((element) => element.outerHTML.slice(0, 200));
})()`;

/** In one step, so that no later rendering of the same text comes between. */
function clickEach(all: unknown[]): number {
  // oxlint-disable-next-line typescript/no-explicit-any
  const { MouseEvent } = globalThis as any;
  // oxlint-disable-next-line typescript/no-explicit-any
  for (const one of all as any[])
    one.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true }));
  return all.length;
}

/** @returns how much there is to click; also in a frame that lets no script of its document run */
function clickAll(frame: Frame): Promise<number> {
  return frame.evaluate<number>(`(() => {
    const all = [...document.querySelectorAll('a, button')];
    for (const one of all) one.dispatchEvent(new MouseEvent('click', { bubbles: true, cancelable: true }));
    return all.length;
  })()`);
}

async function assertUntouched(page: Page, what: string): Promise<void> {
  assert.deepEqual(await page.evaluate(BROUGHT_IN), [], what);
}

test('the payloads work on a page without protection', async () => {
  await using open = await watched(await openPage(browser, service));
  const { page, ran } = open;
  const asked = new Set<number>();
  await page.context().route(`${ELSEWHERE}/**`, (route) => {
    asked.add(Number.parseInt(new URL(route.request().url()).pathname.slice(1), 10));
    return route.abort();
  });
  await page.setContent(unprotectedPage(), { waitUntil: 'commit' });
  const left = (kind: string, done: (number: number) => boolean): string[] =>
    PAYLOADS.filter((one) => one.kind === kind && !done(one.number)).map(({ text }) => text);
  const runsAll = (): boolean => left('runs', (number) => ran.includes(number)).length === 0;
  await waitFor(runsAll, { what: 'all to run' });
  for (const { number, kind } of PAYLOADS) {
    const frame = page.frame(String(number));
    if (frame && (kind === 'clicked' || kind === 'loads')) await clickAll(frame);
  }
  const done = (number: number): boolean => ran.includes(number) || asked.has(number);
  await waitFor(() => left('clicked', done).length === 0, { what: 'clicks to run' });
  await waitFor(() => left('loads', done).length === 0, { what: 'all to ask elsewhere' });
});

/** The whole of a list that is shown page by page. */
async function showAll(page: Page): Promise<void> {
  const isWhole = `(() => {
    const more = [...document.querySelectorAll('button')].find((one) => one.textContent === 'Show more');
    if (more?.disabled === false) more.click();
    return more === undefined;
  })()`;
  await waitFor(async () => page.evaluate<boolean>(isWhole), { what: 'the whole list' });
}

test('no screen runs or embeds the content of its fields', async () => {
  await using open = await openDashboard();
  const { page, complaints, strangers, ran } = open;
  const [first, last] = [TEXTS[0]!, nameOf(TEXTS.at(-1)!)];
  const search = `q=${encodeURIComponent(first)}`;
  const email = `test/emails/${ids[0]}`;
  const code = (what: string) => page.getByLabel(what, { exact: true });
  const attemptAt = (address: string) =>
    page.getByRole('listitem').filter({ hasText: address }).getByText('Attempt 1, ');
  // In an order in which each shows something that the one before does not. Lists of emails are whole when they
  // show the first payload; lists of names begin with the last one, and show the others on demand.
  const screens: [path: string, shown: string | Locator][] = [
    [`test/emails?${search}`, first],
    ['test/overview', 'delivered within'],
    ['test/emails', first],
    [email, 'SMTP dialogue'],
    [`${email}?tab=events`, 'Attempt 1, '],
    [`${email}?tab=headers`, 'X-Note'],
    [`${email}?tab=checks`, 'above 102 KB'],
    [`${email}?tab=text`, code('text')],
    [`${email}?tab=html`, code('html')],
    [`${email}?tab=source`, code('source').getByText('Content-Type')],
    ['test/suppressions', `o'{{x}}|\`$x@simulator.test`],
    ['test/test-inbox', first],
    [`test/test-inbox/${ids[0]}?tab=text`, code('text')],
    ['test/queue', 'The queue is empty'],
    [`test/templates?${search}`, first],
    ['test/templates', last],
    ['test/domains', 'acme.test'],
    [`test/templates/${template}/versions`, first],
    ['test/settings', 'Unknown browser'],
    ['test/api-keys', last],
    [`test/webhooks/${webhook}`, receiver.url],
    ['test/webhooks', 'hooks.example.org'],
    ['test/audit-log', 'Created an API key'],
    ['live/overview', 'delivered within'],
    ['test/members', first],
    ['test/projects', last],
    ...refused.map((id, index): [string, Locator] => [
      `live/emails/${id}?tab=events`,
      attemptAt(to(index * RECIPIENTS_MAX)),
    ]),
  ];
  for (const [path, shown] of screens) {
    // Lists of emails render the rows that fit.
    const isTall = path === 'test/emails' || path === 'test/test-inbox';
    await page.setViewportSize({ width: 1280, height: isTall ? 6_500 : 800 });
    await visit(page, `${HOME}/${path}`, shown);
    await showAll(page);
    await assertUntouched(page, path);
    await page.setViewportSize({ width: 320, height: 640 });
    await page.getByRole('button', { name: 'Navigation' }).waitFor();
    await assertFits(page);
  }
  await page.setViewportSize({ width: 1280, height: 800 });
  await visit(page, `${HOME}/test/webhooks/${webhook}`, receiver.url);
  await page.getByRole('button', { name: 'webhook.test' }).first().click();
  await page.getByRole('dialog').getByText('<plaintext>').first().waitFor();
  await assertUntouched(page, 'the responses to a webhook');
  await page.goto(`${HOME}/live/emails/${refused[0]}?tab=events`);
  const replies = page.getByText(/^S: 550 5\.7\.1/);
  await replies.first().waitFor({ state: 'attached' });
  await assertUntouched(page, 'what a mail server replied');
  assert.deepEqual(ran, []);
  assert.deepEqual(strangers, []);
  assert.deepEqual(complaints, []);
});

test('no preview of an email runs anything, or sends a request to another server', async () => {
  const links = await Promise.all(ids.map((id) => owner.get(`/v1/emails/${id}/preview`, TEST)));
  const pages = links.map(({ body }) => `${new URL(body.url).pathname}?remote=no`);
  await using open = await openDashboard();
  const { page, strangers, ran } = open;
  await page.goto(`${HOME}/test/emails/${ids[0]}?tab=preview`);
  await page.getByTitle('Preview of the email').waitFor();
  // As the dashboard shows one, with its policy; all at once, which is cheaper than a page for each.
  await page.evaluate(async (all) => {
    // oxlint-disable-next-line typescript/no-explicit-any
    const { document } = globalThis as any;
    const frames = all.map((src, number) => {
      const frame = document.createElement('iframe');
      frame.setAttribute('sandbox', '');
      Object.assign(frame, { src, name: `payload-${number}` });
      return new Promise((resolve) => {
        frame.addEventListener('load', resolve);
        document.body.append(frame);
      });
    });
    await Promise.all(frames);
  }, pages);
  for (const { number, kind } of PAYLOADS) {
    if (kind !== 'clicked') continue;
    assert.ok((await clickAll(page.frame(`payload-${number}`)!)) > 0, String(number));
  }
  assert.deepEqual(ran, []);
  assert.deepEqual(strangers, []);
  assert.equal(new URL(page.url()).pathname.endsWith(ids[0]!), true);
});

test('no preview of a template runs anything, or sends a request to another server', async () => {
  // An unclosed element swallows the rest of the page, so each of these has a page of its own.
  const open = TEXTS.filter((text) => /^(<plaintext>|<textarea>|<!--|<frameset.*)$/.test(text));
  const closed = TEXTS.filter((text) => !open.includes(text) && !text.includes('{%'));
  await using opened = await openDashboard();
  const { page, strangers, ran } = opened;
  await page.goto(`${HOME}/test/templates/${template}`);
  const source = await sourceEditor(page);
  for (const [index, payloads] of [closed.join('\n'), ...open].entries()) {
    const html = `<b>Version ${index}</b>${payloads}`;
    await writeSource(source, `{% raw %}${html}{% endraw %}`);
    const frame = page.frameLocator('iframe[title="Preview of the template"]');
    await frame.getByText(`Version ${index}`).waitFor();
    const links = frame.locator('a');
    const clicked = await links.evaluateAll(clickEach);
    assert.ok(index > 0 || clicked > 0, 'there are links to click');
  }
  assert.deepEqual(ran, []);
  assert.deepEqual(strangers, []);
});

/** Markup that may open a connection before a browser applies the page's policy. X: the address. */
const CONNECTING = [
  '<iframe src="X"></iframe>',
  '<IFRAME/src="X"></IFRAME>',
  '<object data="X"></object>',
  '<embed src="X">',
  '<link rel="preconnect" href="X">',
  '<link rel="dns-prefetch" href="X">',
  '<link rel="prefetch" href="X">',
  '<svg><foreignObject><iframe src="X"></iframe></foreignObject></svg>',
];

/** Counts connections, which a browser also makes without a request. */
async function countingServer(): Promise<AsyncDisposable & { url: string; connections: number }> {
  const server = createServer((socket) => {
    counting.connections += 1;
    socket.on('error', () => {}).destroy();
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const counting = {
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    connections: 0,
    async [Symbol.asyncDispose]() {
      await new Promise((resolve) => server.close(resolve));
    },
  };
  return counting;
}

test('no preview has frames or objects, or connects to the host of a sender', async () => {
  await using sender = await countingServer();
  const html = `<p>Read me</p>${CONNECTING.join('\n').replaceAll('X', sender.url)}<p>The end</p>`;
  const email = await service.send({ subject: 'Framed', html });
  const framed = { name: 'Framed', subject: 'x', html: `{% raw %}${html}{% endraw %}` };
  const { id } = await post('/v1/templates', framed);
  await using open = await openDashboard();
  const { page, strangers } = open;
  const previews = [
    [`${HOME}/test/emails/${email}?tab=preview`, 'Preview of the email'],
    [`${HOME}/test/templates/${id}`, 'Preview of the template'],
  ] as const;
  const loadersOf = async (title: string) => {
    const preview = page.frameLocator(`iframe[title="${title}"]`);
    await preview.getByText('The end').waitFor();
    return preview.locator('iframe, frame, object, embed');
  };
  for (const [address, title] of previews) {
    await page.goto(address);
    await (await loadersOf(title)).first().waitFor({ state: 'detached' });
    const links = page.frameLocator(`iframe[title="${title}"]`).locator('link');
    await links.first().waitFor({ state: 'detached' });
  }
  assert.deepEqual([sender.connections, strangers], [0, []]);
  // Stylesheets and images of others are shown then, and frames still not.
  for (const [address, title] of previews) {
    await page.goto(address);
    await page.getByRole('button', { name: 'Show remote images' }).click();
    await page.getByRole('button', { name: 'Remote images are shown' }).waitFor();
    await (await loadersOf(title)).first().waitFor({ state: 'detached' });
  }
});

test('html of 5 MB is shown, and leaves the page usable', async () => {
  const html = `<p>The beginning</p>${`<p>${'Words that fill the page. '.repeat(40)}</p>`.repeat(5_000)}`;
  const id = await service.send({ subject: 'Large', html });
  await using open = await openDashboard();
  const { page } = open;
  await page.goto(`${HOME}/test/test-inbox/${id}`);
  const frame = page.frameLocator('iframe[title="Preview of the email"]');
  await frame.getByText('The beginning').waitFor();
  // The browser lays out a line of 5 MB in one piece. It takes 3 s of CPU time, and answers nothing meanwhile.
  const timeout = 120_000;
  await page.getByRole('link', { name: 'HTML', exact: true }).click({ timeout });
  await page.getByLabel('html', { exact: true }).waitFor({ timeout });
  await page.getByRole('link', { name: 'Domains' }).click({ timeout });
  await page.getByRole('heading', { name: 'Domains' }).waitFor({ timeout });
});

test('text that runs from right to left reverses no text beside it', async () => {
  const name = '\u202Emoc.knab@ofni';
  const id = await service.send({ from: `"${name}" <hello@acme.test>`, subject: `${name} x` });
  await using open = await openDashboard();
  const { page } = open;
  await page.goto(`${HOME}/test/emails/${id}`);
  const head = page.locator('article header');
  const [from, recipient] = [
    head.getByText('hello@acme.test'),
    head.getByRole('link', { name: '@simulator.test' }),
  ];
  await recipient.waitFor();
  await eventually(async () => {
    const [left, right] = [await from.boundingBox(), await recipient.boundingBox()];
    assert.ok(left && right);
    // On the same line or, in a narrow column, on the next one.
    const isAfter = left.x + left.width <= right.x || left.y + left.height <= right.y;
    assert.ok(isAfter, 'the recipient comes after the sender');
  });
});

test('signing in leads to pages of the dashboard only', async () => {
  await using open = await watched(await takePage(browser, service));
  const { page, strangers, ran } = open;
  for (const target of [
    `${ELSEWHERE}/`,
    `//elsewhere.invalid/`,
    '/\\elsewhere.invalid/',
    'javascript:ran(1)',
  ]) {
    await page.context().clearCookies();
    await page.goto(`${service.url}/dashboard/sign-in?to=${encodeURIComponent(target)}`);
    await page.getByLabel('Email').fill(OWNER.email);
    await page.getByLabel('Password').fill(OWNER.password);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.waitForURL((url) => !url.pathname.endsWith('/sign-in'));
    assert.equal(new URL(page.url()).origin, service.url);
    assert.deepEqual([ran, strangers], [[], []]);
  }
});
