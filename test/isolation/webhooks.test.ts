/**
 * Tests that 350 unanswered webhooks of other projects do not delay the webhook of a project whose endpoint answers.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';
import { startReceiver } from '../support/webhook-receiver.ts';

const PROJECTS = 7;
/** Maximum of endpoints in a project. */
const ENDPOINTS = 50;
/** Emails of each project. Each has two events, so each endpoint always has more due than it may have under way. */
const EMAILS = 3;
/** Milliseconds for a webhook on a loaded machine. The guarantee is 2 s. */
const SOON_MS = 5_000;

const service = await startService({
  env: { LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1', LETTERHAUS_LOG: 'warn' },
});
after(() => service[Symbol.asyncDispose]());

async function register(url: string, key: string): Promise<void> {
  const response = await service.request('POST', '/v1/webhooks', { key, body: { url } });
  assert.equal(response.status, 201, response.text);
}

type Sender = { key: string; from: string };

async function newProject(name: string): Promise<Sender> {
  const { id } = await service.cliJson('projects', 'create', name);
  const { key } = await service.cliJson('keys', 'create', '--project', id, '--environment', 'test');
  const domain = { name: `${name}.example` };
  const { body } = await service.request('POST', '/v1/domains', { key, body: domain });
  await service.sql(
    `update domains set status = 'verified', verified_at = app_now() where id = $1`,
    [body.id],
  );
  return { key, from: `us@${domain.name}` };
}

function send({ key, from }: Sender): Promise<string> {
  return service.send({ from, to: 'delivered@simulator.test' }, { key });
}

test('webhooks that do not answer delay no webhook of another project, nor one of their own that answers quickly', async (t) => {
  const slow = await startReceiver('hang');
  const quick = await startReceiver();
  t.after(() => Promise.all([slow, quick].map((one) => one[Symbol.asyncDispose]())));
  const small: Sender = { key: service.testKey, from: 'us@acme.test' };
  await register(`${quick.url}/other`, small.key);
  await send(small);
  await quick.waitForCount(2);

  const large: Sender[] = [];
  for (let project = 0; project < PROJECTS; project += 1) {
    large.push(await newProject(`large${project}`));
  }
  for (const [project, { key }] of large.entries()) {
    const count = project === 0 ? ENDPOINTS - 1 : ENDPOINTS;
    const urls = Array.from({ length: count }, (_, index) => `${slow.url}/${project}/${index}`);
    await Promise.all(urls.map((url) => register(url, key)));
  }
  await register(`${quick.url}/own`, large[0]!.key);
  for (const sender of large) {
    for (let email = 0; email < EMAILS; email += 1) await send(sender);
  }
  await waitFor(() => slow.received.length >= 256, {
    what: 'more webhooks without a response than are sent at once',
    timeoutMs: 30_000,
  });

  const came = (path: string, id: string): boolean =>
    quick.received.some((one) => one.path === path && one.event.data.email_id === id);
  for (let round = 0; round < 3; round += 1) {
    const [other, own] = [await send(small), await send(large[0]!)];
    const sinceMs = performance.now();
    await waitFor(() => came('/other', other), { what: 'the webhook', timeoutMs: SOON_MS });
    t.diagnostic(`another project's: ${Math.round(performance.now() - sinceMs)} ms`);
    await waitFor(() => came('/own', own), { what: 'that of a slow project', timeoutMs: SOON_MS });
    t.diagnostic(`of a slow project: ${Math.round(performance.now() - sinceMs)} ms`);
  }
});
