/**
 * Two members change one object: whatever form the second has open, it shows what the first has stored, and by whom,
 * before it stores anything; what was typed stays. test/tidy/shared-changes.ts lists the changes that need it.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { Locator, Page } from 'playwright-core';
import { memberOf, OWNER, ownerOf } from '../support/browser.ts';
import { startBrowser } from '../support/chromium.ts';
import {
  assertAccessible,
  assertFits,
  buildDashboard,
  chooseForRow,
  signedIn,
  takePage,
} from '../support/dashboard.ts';
import { type ApiResponse, startService } from '../support/service.ts';
import { eventually } from '../support/wait.ts';

await buildDashboard();
const [service, browser] = await Promise.all([
  startService({ env: { LETTERHAUS_LIMIT_AUTH: '1000/60' } }),
  startBrowser(),
]);
after(async () => {
  await browser[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
});
const owner = await ownerOf(service);
const cookies = signedIn(service, owner);
const project = String((await owner.get('/v1/session')).body.projects[0].id);
const SCOPE = { 'letterhaus-project': project, 'letterhaus-environment': 'test' };
const HOME = `${service.url}/dashboard/${project}/test`;

/** A change by the other member. */
async function theirs(method: string, path: string, body?: object): Promise<ApiResponse['body']> {
  const response = await owner.request(method, path, { headers: SCOPE, ...(body && { body }) });
  assert.ok(response.status < 300, `${method} ${path}: ${response.text}`);
  return response.body;
}

const make = async (path: string, body: object): Promise<string> =>
  (await theirs('POST', path, body)).id;
const press = (page: Page, name: string | RegExp): Promise<void> =>
  page.getByRole('button', { name, exact: true }).click();
const choose = async (page: Page, action: string): Promise<void> => {
  await press(page, 'More actions');
  await page.getByRole('menuitem', { name: action }).click();
};
const dialogOf = (page: Page): Locator => page.getByRole('dialog');

type Case = {
  name: string;
  /** The page of the second member. */
  path: string;
  /** Opens the form, and fills it. */
  open: (page: Page) => Promise<void>;
  theirs: () => Promise<unknown>;
  action: string;
  /** Texts of the other change that the form shows. */
  shows: readonly string[];
  goOn: string;
  isStored: () => Promise<boolean>;
};

const key = await make('/v1/api-keys', { name: 'Shop' });
const revoked = await make('/v1/api-keys', { name: 'Old shop' });
const domain = await make('/v1/domains', { name: 'shared.acme.test' });
const removedDomain = await make('/v1/domains', { name: 'removed.acme.test' });
const webhook = await make('/v1/webhooks', { url: 'https://hooks.acme.com/a' });
const disabled = await make('/v1/webhooks', { url: 'https://hooks.acme.com/b' });
const removedWebhook = await make('/v1/webhooks', { url: 'https://hooks.acme.com/c' });
const ADDRESS = 'jo@example.org';
const suppression = `/v1/suppressions/${ADDRESS}`;
await theirs('POST', '/v1/suppressions', { address: ADDRESS, reason: 'manual' });
const content = { subject: 'Receipt', html: '<p>Seen</p>' };
const template = await make('/v1/templates', { name: 'Receipt', alias: 'receipt', ...content });
const removedTemplate = await make('/v1/templates', { name: 'Old receipt', ...content });
const versioned = await make('/v1/templates', { name: 'Two versions', ...content });
await theirs('POST', `/v1/templates/${versioned}/publish`, {});
await theirs('PATCH', `/v1/templates/${versioned}`, { html: '<p>Second</p>' });
const email = await service.send({
  scheduled_at: new Date(Date.now() + 86_400_000).toISOString(),
});
await memberOf(service, owner, 'developer');
await memberOf(service, owner, 'viewer');
const memberWith = async (role: string): Promise<string> => {
  const { data } = await theirs('GET', '/v1/members');
  return data.find((one: { role: string }) => one.role === role).id;
};
const [developer, viewer] = [await memberWith('developer'), await memberWith('viewer')];
const settings = `/v1/operator/projects/${project}`;

const has = async (path: string, part: object): Promise<boolean> => {
  const body = await theirs('GET', path);
  return Object.entries(part).every(
    ([name, value]) => JSON.stringify(body[name]) === JSON.stringify(value),
  );
};
const isGone = async (path: string): Promise<boolean> =>
  (await owner.request('GET', path, { headers: SCOPE })).status === 404;
const inList = async (path: string, id: string): Promise<ApiResponse['body']> =>
  (await theirs('GET', path)).data.find((one: { id: string }) => one.id === id);

const CASES: readonly Case[] = [
  {
    name: 'a changed API key',
    path: 'api-keys',
    open: async (page) => {
      await chooseForRow(page, 'Shop', 'Change');
      await dialogOf(page).getByRole('textbox', { name: 'Name' }).fill('Shop of mine');
    },
    theirs: () =>
      theirs('PATCH', `/v1/api-keys/${key}`, {
        name: 'Shop of theirs',
        allowed_recipients: ['acme.com'],
      }),
    action: 'Save',
    shows: ['Shop of theirs', 'Shop of mine', 'acme.com', 'unchanged by you'],
    goOn: 'Save mine',
    isStored: async () => {
      const { name, allowed_recipients: recipients } = await inList('/v1/api-keys', key);
      return name === 'Shop of mine' && recipients[0] === 'acme.com';
    },
  },
  {
    name: 'a revoked API key',
    path: 'api-keys',
    open: (page) => chooseForRow(page, 'Old shop', 'Revoke'),
    theirs: () => theirs('PATCH', `/v1/api-keys/${revoked}`, { name: 'New shop' }),
    action: 'Revoke',
    shows: ['Old shop', 'New shop'],
    goOn: 'Revoke anyway',
    isStored: async () => (await inList('/v1/api-keys', revoked)) === undefined,
  },
  {
    name: 'the settings of a domain',
    path: `domains/${domain}`,
    open: async (page) => {
      await press(page, 'Change settings');
      await dialogOf(page).getByRole('checkbox', { name: 'opens' }).check();
    },
    theirs: () =>
      theirs('PATCH', `/v1/domains/${domain}`, { tracking: { clicks: true }, tls: 'enforced' }),
    action: 'Save',
    shows: ['Required, with a valid certificate', 'unchanged by you', 'clicks', 'opens'],
    goOn: 'Save mine',
    isStored: () =>
      has(`/v1/domains/${domain}`, { tls: 'enforced', tracking: { opens: true, clicks: false } }),
  },
  {
    name: 'a removed domain',
    path: `domains/${removedDomain}`,
    open: async (page) => {
      await choose(page, 'Remove domain…');
      await dialogOf(page).getByLabel('to confirm').fill('removed.acme.test');
    },
    theirs: () => theirs('PATCH', `/v1/domains/${removedDomain}`, { tls: 'enforced' }),
    action: 'Remove domain',
    shows: ['If the mail server offers it', 'Required, with a valid certificate'],
    goOn: 'Remove domain anyway',
    isStored: () => isGone(`/v1/domains/${removedDomain}`),
  },
  {
    name: 'a changed webhook',
    path: `webhooks/${webhook}`,
    open: async (page) => {
      await choose(page, 'Edit');
      await dialogOf(page).getByLabel('URL').fill('https://hooks.acme.com/mine');
    },
    theirs: () =>
      theirs('PATCH', `/v1/webhooks/${webhook}`, { url: 'https://hooks.acme.com/theirs' }),
    action: 'Save',
    shows: ['https://hooks.acme.com/theirs', 'https://hooks.acme.com/mine'],
    goOn: 'Save mine',
    isStored: () => has(`/v1/webhooks/${webhook}`, { url: 'https://hooks.acme.com/mine' }),
  },
  {
    name: 'a disabled webhook',
    path: `webhooks/${disabled}`,
    open: (page) => choose(page, 'Disable'),
    theirs: () => theirs('PATCH', `/v1/webhooks/${disabled}`, { events: ['email.bounced'] }),
    action: 'Disable',
    shows: ['all', 'email.bounced'],
    goOn: 'Disable anyway',
    isStored: () => has(`/v1/webhooks/${disabled}`, { status: 'disabled' }),
  },
  {
    name: 'a removed webhook',
    path: `webhooks/${removedWebhook}`,
    open: (page) => choose(page, 'Remove'),
    theirs: () => theirs('PATCH', `/v1/webhooks/${removedWebhook}`, { status: 'disabled' }),
    action: 'Remove webhook',
    shows: ['enabled', 'disabled'],
    goOn: 'Remove webhook anyway',
    isStored: () => isGone(`/v1/webhooks/${removedWebhook}`),
  },
  {
    name: 'a removed suppression',
    path: 'suppressions',
    open: (page) => press(page, `Remove ${ADDRESS}`),
    theirs: async () => {
      await theirs('DELETE', suppression);
      await theirs('POST', '/v1/suppressions', { address: ADDRESS, reason: 'complaint' });
    },
    action: 'Remove',
    shows: ['manual', 'complaint'],
    goOn: 'Remove anyway',
    isStored: () => isGone(suppression),
  },
  {
    name: 'the name of a project',
    path: 'projects',
    open: async (page) => {
      await press(page, /^Rename /);
      await dialogOf(page).getByRole('textbox', { name: 'Name' }).fill('Mine');
    },
    theirs: () => theirs('PATCH', `/v1/projects/${project}`, { name: 'Theirs' }),
    action: 'Rename',
    shows: ['Theirs', 'Mine'],
    goOn: 'Save mine',
    isStored: async () => (await inList('/v1/projects', project)).name === 'Mine',
  },
  {
    name: 'a limit of a project',
    path: 'projects',
    open: async (page) => {
      await press(page, 'Change domains');
      await dialogOf(page).getByLabel('Domains in each environment').fill('12');
    },
    theirs: () => theirs('PATCH', settings, { domains_max: 34 }),
    action: 'Save',
    shows: ['34', '12'],
    goOn: 'Save mine',
    isStored: () => has(settings, { domains_max: 12 }),
  },
  {
    name: 'the reputation alert',
    path: 'projects',
    open: async (page) => {
      await press(page, 'Change the alert');
      await dialogOf(page).getByLabel('Bounces').fill('7%');
    },
    theirs: () => theirs('PATCH', settings, { reputation_alert: { bounces: '6%', min: 77 } }),
    action: 'Save',
    shows: ['6%', '7%', '77', 'unchanged by you'],
    goOn: 'Save mine',
    isStored: async () => {
      const { reputation_alert: rule } = await theirs('GET', settings);
      return rule.bounces === '7%' && rule.min === 77;
    },
  },
  {
    name: 'the role of a member',
    path: 'members',
    open: async (page) => {
      await chooseForRow(page, 'developer 1', 'Change the role');
      await dialogOf(page).getByLabel('Role', { exact: true }).selectOption('viewer');
    },
    theirs: () => theirs('PATCH', `/v1/members/${developer}`, { role: 'admin' }),
    action: 'Change',
    shows: ['admin', 'viewer'],
    goOn: 'Save mine',
    isStored: async () => (await inList('/v1/members', developer)).role === 'viewer',
  },
  {
    name: 'a removed member',
    path: 'members',
    open: (page) => chooseForRow(page, 'viewer 2', 'Remove'),
    theirs: () => theirs('PATCH', `/v1/members/${viewer}`, { role: 'admin' }),
    action: 'Remove',
    shows: ['viewer', 'admin'],
    goOn: 'Remove anyway',
    isStored: async () => (await inList('/v1/members', viewer)) === undefined,
  },
  {
    name: 'the time of a scheduled email',
    path: `emails/${email}`,
    open: async (page) => {
      await choose(page, 'Reschedule');
      await dialogOf(page).getByLabel('New time').fill(localMinute(3));
    },
    theirs: () =>
      theirs('PATCH', `/v1/emails/${email}`, {
        scheduled_at: new Date(Date.now() + 2 * 86_400_000).toISOString(),
      }),
    action: 'Reschedule',
    shows: ['Time'],
    goOn: 'Save mine',
    isStored: async () =>
      (await theirs('GET', `/v1/emails/${email}`)).scheduled_at ===
      new Date(localMinute(3)).toISOString(),
  },
  {
    name: 'the host for bounces',
    path: 'settings?tab=installation',
    open: async (page) => {
      await press(page, 'Change the host');
      await dialogOf(page).getByLabel('Host').fill('mine.acme.test');
    },
    theirs: () => theirs('PUT', '/v1/operator/return-path-host', { name: 'theirs.acme.test' }),
    action: 'Save',
    shows: ['theirs.acme.test', 'mine.acme.test'],
    goOn: 'Save mine',
    isStored: () => has('/v1/operator/return-path-host', { name: 'mine.acme.test' }),
  },
  {
    name: 'the name of a template',
    path: `templates/${template}`,
    open: async (page) => {
      await choose(page, 'Rename');
      await dialogOf(page).getByLabel('Name').fill('Mine');
    },
    theirs: () => theirs('PATCH', `/v1/templates/${template}`, { name: 'Theirs' }),
    action: 'Save',
    shows: ['Theirs', 'Mine'],
    goOn: 'Save mine',
    isStored: () => has(`/v1/templates/${template}`, { name: 'Mine' }),
  },
  {
    name: 'a template that is published',
    path: `templates/${template}`,
    open: (page) => page.getByRole('button', { name: 'Publish version 1' }).waitFor(),
    theirs: () => theirs('PATCH', `/v1/templates/${template}`, { html: '<p>Unseen</p>' }),
    action: 'Publish version 1',
    shows: ['- <p>Seen</p>', '+ <p>Unseen</p>'],
    goOn: 'Publish version 1 anyway',
    isStored: () => has(`/v1/templates/${template}`, { published_version: 1 }),
  },
  {
    name: 'a restored version of a template',
    path: `templates/${versioned}/versions?version=1`,
    open: (page) => press(page, 'Restore'),
    theirs: () => theirs('PATCH', `/v1/templates/${versioned}`, { html: '<p>Unseen</p>' }),
    action: 'Restore',
    shows: ['- <p>Second</p>', '+ <p>Unseen</p>'],
    goOn: 'Restore anyway',
    isStored: () => has(`/v1/templates/${versioned}`, { html: '<p>Seen</p>' }),
  },
  {
    name: 'a published version of a template',
    path: `templates/${versioned}/versions?version=2`,
    open: (page) => press(page, 'Publish'),
    theirs: () => theirs('PATCH', `/v1/templates/${versioned}`, { html: '<p>Third</p>' }),
    action: 'Publish',
    shows: ['- <p>Seen</p>', '+ <p>Third</p>'],
    goOn: 'Publish anyway',
    isStored: () => has(`/v1/templates/${versioned}`, { published_version: 2 }),
  },
  {
    name: 'a deleted template',
    path: `templates/${removedTemplate}`,
    open: (page) => choose(page, 'Delete'),
    theirs: () => theirs('PATCH', `/v1/templates/${removedTemplate}`, { html: '<p>Unseen</p>' }),
    action: 'Delete template',
    shows: ['- <p>Seen</p>', '+ <p>Unseen</p>'],
    goOn: 'Delete template anyway',
    isStored: () => isGone(`/v1/templates/${removedTemplate}`),
  },
];

function localMinute(inDays: number): string {
  const at = new Date(Date.now() + inDays * 86_400_000);
  const pad = (value: number): string => String(value).padStart(2, '0');
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}T09:30`;
}

for (const one of CASES) {
  test(`${one.name}: what another member has changed meanwhile is shown first`, async () => {
    await using opened = await takePage(browser, service, { cookies });
    const { page } = opened;
    await page.goto(`${HOME}/${one.path}`);
    await one.open(page);
    // By an event the page may read the object again. The open form is still about what the member has seen.
    await one.theirs();
    const dialog = dialogOf(page);
    const form = (await dialog.isVisible()) ? dialog : page;
    await form.getByRole('button', { name: one.action, exact: true }).click();
    await dialog.getByText('Changed meanwhile').waitFor();
    await dialog.getByText(`by ${OWNER.name}`).waitFor();
    for (const text of one.shows) {
      await dialog.getByText(text).filter({ visible: true }).first().waitFor();
    }
    assert.equal(await one.isStored(), false, 'it was stored unseen');
    await assertAccessible(page);
    await page.setViewportSize({ width: 390, height: 800 });
    await assertFits(page);
    await dialog.getByRole('button', { name: one.goOn }).click();
    await dialog.waitFor({ state: 'detached' });
    await eventually(async () => assert.ok(await one.isStored(), 'it is not stored'));
  });
}

test('an undo of a role that was changed again is refused, and the page shows the role that is stored', async () => {
  await memberOf(service, owner, 'developer');
  const { data } = await theirs('GET', '/v1/members');
  const {
    id,
    name,
    email: address,
  } = data.find((one: { name: string }) => one.name === 'developer 3');
  await using opened = await takePage(browser, service, { cookies });
  const { page } = opened;
  await page.goto(`${HOME}/members`);
  await chooseForRow(page, name, 'Change the role');
  await dialogOf(page).getByLabel('Role', { exact: true }).selectOption('viewer');
  await press(page, 'Change');
  await page.getByText('is now viewer').waitFor();
  await theirs('PATCH', `/v1/members/${id}`, { role: 'admin' });
  await press(page, 'Undo');
  await page.getByText('so the change was not undone').waitFor();
  await page.getByRole('row').filter({ hasText: address }).getByText('Admin').waitFor();
});
