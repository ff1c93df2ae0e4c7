/** Signing in with an identity provider and with passkeys on the pages, in a real browser. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { OWNER, ownerOf, currentCode, tokenOf } from '../support/browser.ts';
import type { Page } from 'playwright-core';
import { startBrowser } from '../support/chromium.ts';
import { assertAccessible, buildDashboard, openPage, signedIn } from '../support/dashboard.ts';
import { startIdentityProvider } from '../support/identity-provider.ts';
import { startService } from '../support/service.ts';

await buildDashboard();
const idp = await startIdentityProvider();
const [service, browser] = await Promise.all([
  startService({ env: { ...idp.env, HOST: 'localhost' } }),
  startBrowser(),
]);
after(async () => {
  await browser[Symbol.asyncDispose]();
  await service[Symbol.asyncDispose]();
  await idp[Symbol.asyncDispose]();
});
idp.serve(service.url);
const owner = await ownerOf(service);
const project: string = (await owner.get('/v1/session')).body.projects[0].id;
const SETTINGS = `${service.url}/dashboard/${project}/test/settings`;
const BUTTON = 'Sign in with Acme Login';

async function signIn(page: Page): Promise<void> {
  await page.getByLabel('Email', { exact: true }).fill(OWNER.email);
  await page.getByLabel('Password').fill(OWNER.password);
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
}

function account(login: string, email: string): void {
  idp.accounts.set(login, { email, email_verified: true, name: 'Jo Doe' });
  idp.signInAs(login);
}

test('a member signs in with the provider and gets the page that was asked for', async () => {
  account('olga', OWNER.email);
  await using open = await openPage(browser, service);
  const { page } = open;
  await page.goto(SETTINGS);
  await page.getByRole('button', { name: BUTTON }).waitFor();
  await assertAccessible(page);
  await page.getByRole('button', { name: BUTTON }).click();
  await page.getByText('this session').waitFor();
  assert.equal(page.url(), SETTINGS);
});

test('an invited person accepts with the provider, has no password, and adds a second factor', async () => {
  const { body } = await owner.post('/v1/invitations', { email: 'jo@acme.test', role: 'viewer' });
  account('jo', 'jo@acme.test');
  await using open = await openPage(browser, service);
  const { page } = open;
  await page.goto(`${service.url}/sign-in#invitation=${tokenOf(body.url)}`);
  await page.getByRole('button', { name: BUTTON }).click();
  await page.getByRole('heading', { name: 'Setup', exact: true }).waitFor();
  await page.goto(SETTINGS);
  await page.getByText('this session').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Change password' }).count(), 0);
  await page.getByRole('button', { name: 'Switch on' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByText('a recent sign-in confirms this').waitFor();
  await dialog.getByRole('button', { name: 'Continue' }).click();
  const secret = (await dialog.getByLabel('secret', { exact: true }).textContent())!;
  await dialog.getByLabel('Code from the app').fill(await currentCode(service, secret));
  await dialog.getByRole('button', { name: 'Switch on' }).click();
  await dialog.getByRole('button', { name: 'I have saved them' }).click();

  await page.context().clearCookies();
  await page.goto(SETTINGS);
  await page.getByRole('button', { name: BUTTON }).click();
  await page.getByLabel('Code').fill('000000x');
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByRole('alert').getByText('This code is wrong').waitFor();
  await assertAccessible(page);
  await service.clock.advance({ seconds: 60 });
  await page.getByLabel('Code').fill(await currentCode(service, secret));
  await page.getByRole('button', { name: 'Sign in', exact: true }).click();
  await page.getByText('this session').waitFor();
  assert.equal(page.url(), SETTINGS);
});

/** Gives the page an authenticator of its own, as if somebody touched it at once. */
async function addAuthenticator(page: Page): Promise<void> {
  const client = await page.context().newCDPSession(page);
  await client.send('WebAuthn.enable');
  await client.send('WebAuthn.addVirtualAuthenticator', {
    options: {
      protocol: 'ctap2',
      transport: 'internal',
      hasResidentKey: true,
      hasUserVerification: true,
      isUserVerified: true,
      automaticPresenceSimulation: true,
    },
  });
}

test('a member adds a passkey, signs in with it, and removes it', async () => {
  await using open = await openPage(browser, service);
  const { page } = open;
  await addAuthenticator(page);
  await page.goto(SETTINGS);
  await signIn(page);
  await page.getByRole('button', { name: 'Add a passkey' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill('Laptop');
  await dialog.getByLabel('Password').fill(OWNER.password);
  await assertAccessible(page);
  await dialog.getByRole('button', { name: 'Continue' }).click();
  const row = page.getByRole('row').filter({ hasText: 'Laptop' });
  await row.getByText('never').waitFor();

  await page.context().clearCookies();
  await page.goto(SETTINGS);
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click();
  await page.getByRole('button', { name: 'Remove the passkey Laptop' }).click();
  assert.equal(page.url(), SETTINGS);
  await dialog.getByLabel('Password').fill(OWNER.password);
  await dialog.getByRole('button', { name: 'Remove' }).click();
  // While the dialog is open, the rest of the page has no roles.
  await dialog.waitFor({ state: 'detached' });
  await row.waitFor({ state: 'detached' });

  await page.context().clearCookies();
  await page.goto(SETTINGS);
  await page.getByRole('button', { name: 'Sign in with a passkey' }).click();
  await page.getByRole('alert').getByText('This passkey is not known here').waitFor();
});

test('an owner requires a second factor; a member without one adds a passkey and continues', async () => {
  const { body } = await owner.post('/v1/session/totp', { password: OWNER.password });
  const code = await currentCode(service, body.secret);
  assert.equal((await owner.post('/v1/session/totp/confirm', { code })).status, 200);
  await using own = await openPage(browser, service);
  await own.page.context().addCookies(signedIn(service, owner));
  await own.page.goto(SETTINGS.replace('settings', 'members'));
  await own.page.getByRole('button', { name: 'Require a second factor' }).click();
  await assertAccessible(own.page);
  await own.page.getByRole('dialog').getByRole('button', { name: 'Require', exact: true }).click();
  await own.page.getByText('Every member needs an authenticator app or a passkey.').waitFor();

  const invited = await owner.post('/v1/invitations', { email: 'kim@acme.test', role: 'viewer' });
  await using open = await openPage(browser, service);
  const { page } = open;
  await addAuthenticator(page);
  await page.goto(`${service.url}/sign-in#invitation=${tokenOf(invited.body.url)}`);
  await page.getByLabel('Name').fill('Kim');
  await page.getByLabel('Password').fill(OWNER.password);
  await page.getByRole('button', { name: 'Create account' }).click();
  await page.getByRole('heading', { name: 'Set up a second factor' }).waitFor();
  await assertAccessible(page);
  await page.getByRole('button', { name: 'Add a passkey' }).click();
  const dialog = page.getByRole('dialog');
  await dialog.getByLabel('Name').fill('Phone');
  await dialog.getByLabel('Password').fill(OWNER.password);
  await dialog.getByRole('button', { name: 'Continue' }).click();
  await page.getByRole('heading', { name: 'Setup', exact: true }).waitFor();
});

test('a person without an invitation, and a provider that is down, get a sentence and a way back', async () => {
  account('stranger', 'stranger@acme.test');
  await using open = await openPage(browser, service);
  const { page } = open;
  await page.goto(`${service.url}/dashboard/sign-in`);
  await page.getByRole('button', { name: BUTTON }).click();
  await page.getByRole('alert').getByText('ask for an invitation').waitFor();
  await assertAccessible(page);
  await page.getByRole('link', { name: 'Back to sign-in' }).click();
  await page.getByRole('button', { name: BUTTON }).waitFor();
  await service.restart();
  idp.isDown = true;
  await page.goto(`${service.url}/dashboard/sign-in`);
  await page.getByRole('button', { name: BUTTON }).click();
  await page.getByRole('alert').getByText('Acme Login does not respond').waitFor();
});
