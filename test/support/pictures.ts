/**
 * Pictures of screens that come out the same every time: the same mail, one font, no moving parts, and nothing in them
 * that depends on the time or on chance.
 *
 * `npm run pictures` keeps them in test/browser/pictures; test/browser/pictures.test.ts compares.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';
import { PNG } from 'pngjs';
import { memberOf, OWNER, ownerOf } from './browser.ts';
import type { TestBrowser } from './chromium.ts';
import { openPage, signedIn } from './dashboard.ts';
import { type FullService, startFullService } from './full-service.ts';
import { storePastDeliveries } from './past-deliveries.ts';
import { removeReport, storeReport } from './pictured-doctor.ts';
import { type Service, startService } from './service.ts';
import { eventually } from './wait.ts';
import { startReceiver } from './webhook-receiver.ts';

export type Picture = { name: string; png: Buffer };

/** Delivers nothing, so that mail waits, and knows nothing of the machine. */
const WAITING = {
  database: 'own',
  args: ['--only', 'api', '--workers', '1'],
  env: { LETTERHAUS_HOSTNAME: 'mail.acme.test', LETTERHAUS_STORAGE_MAX_MB: '10000' },
} as const;

const SIZES = {
  desk: { width: 1440, height: 900 },
  phone: { width: 390, height: 844 },
} as const;

/** On a phone in the dark: what covers the page there. */
const DARK_PHONE = 'palette,account-menu,dialog';

type Look = { size: keyof typeof SIZES; theme: 'light' | 'dark' };

const DARK = 'queue,domain,templates,template,sign-in,emails,email,recipient,overview,webhook';
const PHONE =
  'queue,domain,doctor-report,api-keys,template,members,sign-in,emails,email,recipients,overview,webhook,audit-log';

/** In the light every screen is pictured on a desk; the dark and the phone have those with the most parts. */
const LOOKS: readonly (Look & { only?: string })[] = [
  { size: 'desk', theme: 'light' },
  { size: 'desk', theme: 'dark', only: DARK },
  { size: 'phone', theme: 'light', only: PHONE },
  { size: 'phone', theme: 'dark', only: DARK_PHONE },
];

/** Arguments of Chromium with which text is drawn alike on all machines. */
export const DRAWN_ALIKE = [
  '--font-render-hinting=none',
  '--disable-lcd-text',
  '--force-color-profile=srgb',
  '--hide-scrollbars',
];

type Screens = Record<string, readonly [path: string, shown: string, options?: ScreenOptions]>;

type ScreenOptions = {
  /** Called before the page is opened. */
  prepare?: (page: Page) => Promise<unknown>;
  /** Called when the page is complete. */
  act?: (page: Page) => Promise<unknown>;
  /** Undoes both. */
  restore?: (page: Page) => Promise<unknown>;
  isLoading?: true;
};

type Cookies = ReturnType<typeof signedIn>;

/** A service, and its screens by name: the path within the environment, and text of the complete screen. */
type Part = {
  service: Service;
  project: string;
  cookies: Cookies;
  screens: Screens;
};

type WaitingContext = {
  service: Service;
  domain: string;
  template: string;
  viewer: Cookies;
  owner: Cookies;
};

const screensOfWaiting = ({
  service,
  domain,
  template,
  viewer,
  owner,
}: WaitingContext): Screens => ({
  queue: ['queue', 'In delivery'],
  provider: ['queue?provider=mail.harbour.example', 'Settings in effect'],
  domains: ['domains', 'acme.test'],
  domain: [`domains/${domain}`, 'DNS records'],
  'api-keys': ['api-keys', 'Newsletter'],
  members: ['members', 'Second factor'],
  suppressions: ['suppressions', 'kim@lagoon.example'],
  'api-log': ['api-log', '/v1/emails'],
  projects: ['projects', 'Limits in'],
  templates: ['templates', 'Password reset'],
  template: [`templates/${template}`, 'Publish version 2', { act: previewShown }],
  'no-templates': ['templates?q=nothing', 'No matching templates'],
  doctor: ['doctor', 'The doctor has not run yet'],
  'doctor-report': [
    'doctor',
    'Outgoing port 25',
    { prepare: () => storeReport(service), restore: () => removeReport(service) },
  ],
  dialog: [
    'suppressions',
    'kim@lagoon.example',
    {
      act: async (page) => {
        await page.getByRole('button', { name: 'Add an address' }).click();
        await page.getByRole('dialog').getByLabel('Email address').waitFor();
      },
    },
  ],
  forbidden: [
    'doctor',
    'to make you an owner',
    { prepare: (page) => signInAs(page, viewer), restore: (page) => signInAs(page, owner) },
  ],
});

async function signInAs(page: Page, cookies: Cookies): Promise<void> {
  await page.context().clearCookies();
  await page.context().addCookies(cookies);
}

/** Text of the list of emails that is read on its own, after the rows. */
const COUNTED = 'All 3';

const screensOfFull = ({ email, webhook }: FullService, delivery: string): Screens => ({
  emails: ['emails', COUNTED],
  email: [`emails/${email}`, 'SMTP dialogue'],
  recipients: ['recipients', 'delivered@simulator.test'],
  recipient: ['recipients/bounced@simulator.test', 'Requests refused'],
  webhooks: ['webhooks', 'Enabled'],
  webhook: [`webhooks/${webhook}`, 'Failures by response', { act: keepStatistics, restore }],
  delivery: [
    `webhooks/${webhook}?delivery=${delivery}`,
    'Payload',
    { act: keepStatistics, restore },
  ],
  setup: ['setup', 'First email, in test'],
  settings: ['settings', 'Sessions'],
  installation: ['settings?tab=installation', 'LETTERHAUS_HOSTNAME'],
  'audit-log': ['audit-log', 'Created the owner'],
  'test-inbox': ['test-inbox', 'Your receipt from Acme'],
  missing: ['nothing-here', 'Page not found'],
  palette: [
    'emails',
    COUNTED,
    {
      act: async (page) => {
        await page.keyboard.press('ControlOrMeta+k');
        await page.getByRole('option', { name: /^Send a test email/ }).waitFor();
      },
    },
  ],
  'account-menu': ['emails', COUNTED, { act: openAccountMenu }],
  loading: [
    'emails',
    COUNTED,
    {
      prepare: (page) => page.route('**/v1/emails?**', () => {}),
      restore,
      isLoading: true,
    },
  ],
  offline: [
    'emails',
    COUNTED,
    {
      act: async (page) => {
        await page.context().setOffline(true);
        await page.getByText('You have been offline since').waitFor();
      },
      restore: (page) => page.context().setOffline(false),
    },
  ],
  // The last one, because it stops the clock of the page.
  overview: ['overview', '95% delivered within'],
});

const restore = (page: Page): Promise<void> => page.unrouteAll();

/** The page reads them every 10 seconds, and would write the times of the chart again. */
const keepStatistics = (page: Page): Promise<unknown> =>
  page.route('**/v1/webhooks/*/statistics*', () => {});

async function openAccountMenu(page: Page): Promise<void> {
  const navigation = page.getByRole('button', { name: 'Navigation' });
  if (await navigation.isVisible()) await navigation.click();
  await page.getByRole('button', { name: OWNER.name }).filter({ visible: true }).click();
  await page.getByRole('menuitem', { name: 'Sign out' }).waitFor();
}

/** Waits for the editor, which loads after the page, and for the preview, which the service renders. */
async function previewShown(page: Page): Promise<void> {
  await page.locator('.cm-content').waitFor();
  await page.frameLocator('iframe').getByRole('heading').waitFor();
}

/** A picture that is not right may show a page that was being drawn. It is then taken again, this often at most. */
const TRIES = 5;

type IsRight = (picture: Picture) => boolean;

/** Starts the services, fills them, and pictures their screens. */
export async function takePictures(
  browser: TestBrowser,
  isRight: IsRight = () => true,
): Promise<Picture[]> {
  await using receiver = await startReceiver({ status: 200, body: '{"received":true}' });
  await using waiting = await startService(WAITING);
  await using full = await startFullService({
    mail: STILL_MAIL,
    historyUntil: PICTURED_AT,
    webhookUrl: `${receiver.url}/email`,
  });
  await holdStill(full);
  const delivery = await storePastDeliveries(full.service, full.webhook);
  const parts = [
    await fill(waiting),
    {
      service: full.service,
      project: full.project,
      cookies: signedIn(full.service, full.owner),
      screens: screensOfFull(full, delivery),
    },
  ];
  const pictures: Picture[] = [];
  for (const look of LOOKS) {
    for (const part of parts)
      pictures.push(...(await takeLook(browser, part, { ...look, isRight })));
  }
  return pictures;
}

async function takeLook(
  browser: TestBrowser,
  { service, project, cookies, screens }: Part,
  { size, theme, only, isRight }: (typeof LOOKS)[number] & { isRight: IsRight },
): Promise<Picture[]> {
  const pictures: Picture[] = [];
  await using open = await openPage(browser, service, {
    viewport: SIZES[size],
    colorScheme: theme,
    reducedMotion: 'reduce',
    timezoneId: 'UTC',
  });
  const { page } = open;
  const isTaken = (name: string): boolean => only === undefined || only.split(',').includes(name);
  const take = async (screen: string): Promise<void> => {
    const name = `${screen}-${size}-${theme}`;
    for (let tries = 1; ; tries += 1) {
      await settle(page);
      const png = small(await page.screenshot({ animations: 'disabled', caret: 'hide' }));
      if (tries < TRIES && !isRight({ name, png })) continue;
      pictures.push({ name, png });
      return;
    }
  };
  if ('queue' in screens && isTaken('sign-in')) {
    await page.goto(`${service.url}/dashboard/sign-in`);
    await page.getByLabel('Email').waitFor();
    await take('sign-in');
  }
  await page.context().addCookies(cookies);
  for (const [name, [path, shown, options = {}]] of Object.entries(screens)) {
    if (!isTaken(name)) continue;
    if (name === 'overview') await fixClock(page);
    await options.prepare?.(page);
    await page.goto(`${service.url}/dashboard/${project}/test/${path}`);
    await page.getByText(shown).filter({ visible: true }).first().waitFor();
    const state = options.isLoading ? 'visible' : 'detached';
    await page.locator('.skeleton').first().waitFor({ state });
    await options.act?.(page);
    await take(name);
    await options.restore?.(page);
  }
  return pictures;
}

const DAY_MS = 86_400_000;
/** Half past noon of yesterday: figures of an hour of the day have their place, and all of them are in the past. */
const PICTURED_AT = new Date(Math.floor(Date.now() / DAY_MS) * DAY_MS - DAY_MS / 2 + DAY_MS / 48);

/** The page shows the figures of PICTURED_AT. It takes the time of the service from a header of its responses. */
async function fixClock(page: Page): Promise<void> {
  await page.clock.setFixedTime(PICTURED_AT);
  await page.addInitScript({
    content: `{
      const { get } = Headers.prototype;
      Headers.prototype.get = function (name) {
        return name.toLowerCase() === 'date' ? null : get.call(this, name);
      };
    }`,
  });
}

/** Mail that has ended. What is tried again later would differ from run to run. */
const STILL_MAIL = [
  ['delivered@simulator.test', 'Your receipt from Acme'],
  ['complained@simulator.test', 'News of November'],
  ['bounced@simulator.test', 'Reset your password'],
] as const;

/** Waits until mail and webhooks have ended, and gives all attempts the same duration. */
async function holdStill({ service, webhook }: FullService): Promise<void> {
  await eventually(async () => {
    const { body } = await service.request('GET', '/v1/emails/counts?status=complained');
    assert.equal(body.total, 1);
    const path = `/v1/webhooks/${webhook}/deliveries?status=pending`;
    assert.deepEqual((await service.request('GET', path)).body.data, []);
  });
  await service.sql(
    `update events set attempt = (attempt::jsonb || jsonb_build_object('duration_ms', 40, 'started_at',
                                    emails.created_at + interval '10 milliseconds'))::json
       from emails where emails.id = events.subject_id and events.attempt is not null`,
  );
}

/** The browser writes quickly, and a fifth more. */
function small(png: Buffer): Buffer {
  return PNG.sync.write(PNG.sync.read(png), {
    deflateLevel: 9,
    deflateStrategy: 0,
    filterType: 0,
    colorType: 2,
  });
}

/** The monospaced font of the service is that of the system, so pictures have one of their own. */
const MONO_FILE = import.meta
  .resolve('@fontsource-variable/geist-mono/files/geist-mono-latin-wght-normal.woff2');
const MONO = readFileSync(new URL(MONO_FILE)).toString('base64');

/** Waits for fonts, then replaces what differs from run to run. */
async function settle(page: Page): Promise<void> {
  await page.evaluate(`(async () => {
    const mono = new FontFace('Pictured Mono', Uint8Array.fromBase64('${MONO}'), { weight: '100 900' });
    document.fonts.add(await mono.load());
    await document.fonts.ready;
  })()`);
  await page.evaluate(`(() => {
    const style = new CSSStyleSheet();
    style.replaceSync(':root { --font-mono: "Pictured Mono" !important } code, pre, .font-mono { font-family: "Pictured Mono" !important }');
    document.adoptedStyleSheets = [style];
    for (const copy of document.querySelectorAll('time[data-copy]')) copy.remove();
    for (const time of document.querySelectorAll('time')) {
      time.hidden = false;
      // The page writes the present time into the element that it made, and may remove it, but not a copy.
      const copy = time.cloneNode();
      const text = time.textContent;
      copy.textContent = text === 'due now' ? text : text.startsWith('in ') ? 'in 5 min' : '5 min ago';
      copy.dataset.copy = '';
      time.before(copy);
      time.hidden = true;
    }
    for (const version of document.querySelectorAll('[data-version]')) version.textContent = '1.0.0';
    if (!document.activeElement?.closest('[role="dialog"] form')) document.activeElement?.blur();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const patterns = [
      [/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, '01990000-0000-7000-8000-000000000000'],
      [/\\d{4}-\\d\\d-\\d\\dT[\\d:.]+Z/g, '2026-11-21T09:14:00.000Z'],
      [/lh_(live|test)_\\S+/g, 'lh_$1_…0000'],
      [/\\S+\\/letterhaus-test-\\w+/g, '/var/lib/letterhaus'],
      [/127\\.0\\.0\\.1:\\d+/g, '127.0.0.1:8080'],
      [/p=[A-Za-z0-9+\\/=]{40,}/g, 'p=MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A'],
      [/\\d+ left, resets in [\\w ]+/g, '79 left, resets in 1 min'],
      [/another \\d+ (s|min|h)/g, 'another 60 min'],
      [/start in \\d+ (s|min)/g, 'start in 60 min'],
      [/lh(\\d)-[0-9a-f]{8}/g, 'lh$1-00000000'],
      [/\\d+ (KB|MB) used/g, '4 MB used'],
      [/\\d{1,2}:\\d\\d(:\\d\\d)?\\s[AP]M/g, '09:14 AM'],
      [/(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\\s\\d{1,2}\\b/g, 'Nov 21'],
      [/\\b\\d+(\\.\\d)? (ms|s)\\b/g, '40 ms'],
    ];
    while (walker.nextNode()) {
      const node = walker.currentNode;
      // These durations are settings, which stay the same.
      if (node.parentElement?.closest('[aria-label="Settings in effect"]')) continue;
      for (const [pattern, fixed] of patterns) {
        if (pattern.test(node.nodeValue)) node.nodeValue = node.nodeValue.replace(pattern, fixed);
      }
    }
  })()`);
}

/** Mail that waits, and at least one row for every screen. */
async function fill(service: Service): Promise<Part> {
  const owner = await ownerOf(service);
  const viewer = await memberOf(service, owner, 'viewer');
  await owner.post('/v1/invitations', { email: 'sam@acme.test', role: 'developer' });
  const project = String((await owner.get('/v1/session')).body.projects[0].id);
  await fillQueue(service);
  const make = (path: string, body: unknown) => service.request('POST', path, { body });
  for (const [address, reason] of [
    ['jo@harbour.example', 'hard_bounce'],
    ['kim@lagoon.example', 'complaint'],
    ['lea@quay.example', 'unsubscribe'],
    ['max@pier.example', 'manual'],
  ] as const) {
    await make('/v1/suppressions', { address, reason });
  }
  for (const name of ['Order shipped', 'Password reset']) {
    const made = await make('/v1/templates', { name, subject: name, html: `<p>${name}</p>` });
    if (name === 'Order shipped') await make(`/v1/templates/${made.body.id}/publish`, {});
  }
  const template = await makeTemplate(service);
  await make('/v1/emails', { from: 'nobody' });
  await make('/v1/emails', { from: 'shop@elsewhere.example', to: 'jo@harbour.example', text: 'x' });
  const scope = { 'letterhaus-project': project, 'letterhaus-environment': 'test' };
  await owner.post(
    '/v1/api-keys',
    { name: 'Newsletter', permission: 'sending_access', allowed_recipients: ['acme.test'] },
    scope,
  );
  const domain = await make('/v1/domains', { name: 'news.example' });
  const cookies = signedIn(service, owner);
  const screens = screensOfWaiting({
    service,
    domain: String(domain.body.id),
    template,
    viewer: signedIn(service, viewer),
    owner: cookies,
  });
  return { service, project, screens, cookies };
}

/**
 * A template with variables, a published version and changes that are not published. The preview is drawn in the font
 * of the system, so it is small: a machine with another font then makes no difference that is found.
 */
async function makeTemplate(service: Service): Promise<string> {
  const html = `<h1 style="font-size: 18px">Your receipt</h1>
<p>Hello {{ name }},</p>
{% if total %}
<p>You have paid {{ total }}.</p>
{% endif %}`;
  const variables = [
    { name: 'name', type: 'string', default: 'Ada' },
    { name: 'total', type: 'number', default: 12 },
  ];
  const body = { name: 'Receipt', alias: 'receipt', subject: 'Your receipt', html, variables };
  const { id } = (await service.request('POST', '/v1/templates', { body })).body;
  await service.request('POST', `/v1/templates/${id}/publish`, { body: {} });
  const changed = { subject: 'Your receipt, {{ name }}' };
  await service.request('PATCH', `/v1/templates/${id}`, { body: changed });
  return String(id);
}

const QUEUED: readonly (readonly [provider: string, count: number, state: string])[] = [
  ['mail.harbour.example', 9, 'open'],
  ['mail.lagoon.example', 5, 'suspended'],
  ['mx.quay.example', 4, 'slowed'],
  ['mx.pier.example', 3, 'full'],
];

async function fillQueue(service: Service): Promise<void> {
  for (const [provider, count, state] of QUEUED) {
    for (let index = 0; index < count; index += 1) {
      const id = await service.send({ to: `reader${index}@${provider}` });
      await service.sql(`update queue set provider = $2 where email_id = $1`, [id, provider]);
    }
    await service.sql(
      `insert into providers (node, provider, state, until, connections_max, connections_open, updated_at)
       select id, $1, $2, app_now() + interval '1 hour', $3::int, $4::int, app_now() from nodes
           on conflict do nothing`,
      [provider, state, state === 'slowed' ? 5 : 20, { slowed: 5, full: 20 }[state] ?? 0],
    );
  }
  // Until mail is late, its time says how long it has been due.
  await service.sql(`update queue set due_at = due_at - interval '5 minutes'`);
  const hold = { provider: 'mail.harbour.example' };
  await service.request('POST', '/v1/queue/hold', { body: hold });
}
