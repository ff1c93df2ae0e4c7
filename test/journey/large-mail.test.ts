/**
 * One project sends large emails to mail servers that accept the connection and then stay silent. The workers must
 * still claim the scheduled mail of another project from the queue, and send it meanwhile.
 */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { startJourney } from '../support/journey.ts';
import { waitFor } from '../support/wait.ts';

const MEGABYTES_14 = Buffer.alloc(14 * 1024 * 1024, 'large').toString('base64');
/** Milliseconds well below the time that a silent server is given (300 s). */
const AT_ONCE_MS = 60_000;
const NEVER = { after: new Promise<void>(() => {}), reply: '250 2.0.0 Taken' };
const journey = await startJourney({}, { args: ['--workers', '1'] });
after(() => journey[Symbol.asyncDispose]());
const { service } = journey;
let otherKey = '';

before(async () => {
  otherKey = await otherProject();
});

/**
 * Creates a project with a verified domain.
 * @returns its key
 */
async function otherProject(): Promise<string> {
  const project = await service.cliJson('projects', 'create', 'Other');
  const scope = ['--project', project.id, '--environment', 'live'];
  const { key } = await service.cliJson('keys', 'create', ...scope);
  const body = { name: 'other.example' };
  const added = await service.request('POST', '/v1/domains', { key, body });
  const verify = `update domains set status = 'verified', verified_at = app_now() where id = $1`;
  await service.sql(verify, [added.body.id]);
  return key;
}

/** Sends an email of the second project that is due in a second, so that a worker claims it from the queue table. */
async function sendScheduled(to: string, content: object = {}): Promise<string> {
  const scheduled_at = new Date(Date.now() + 1_000).toISOString();
  const draft = { from: 'us@other.example', to, scheduled_at, ...content };
  return service.send(draft, { key: otherKey });
}

function sendLarge(to: string): Promise<string> {
  const attachments = [{ filename: 'large.txt', content: MEGABYTES_14 }];
  return journey.send({ to, text: 'Attached.', attachments });
}

test('large emails to silent mail servers do not delay scheduled mail of others', async () => {
  const silent = await journey.mailServer('silent.test', { phases: { greeting: NEVER } });
  const good = await journey.mailServer('good.test', {}, { provider: 'good-mail.test' });
  for (const to of ['a', 'b', 'c']) await sendLarge(`${to}@silent.test`);
  await waitFor(() => silent.connections >= 1, { what: 'a connection without a greeting' });
  await sendScheduled('reset@good.test');
  await waitFor(() => good.messages.length === 1, { what: 'the reset', timeoutMs: AT_ONCE_MS });
});

test('large emails to servers that stop after EHLO do not delay mail of others', async () => {
  const stalling = await journey.mailServer(
    'stalling.test',
    { phases: { mail: NEVER } },
    { provider: 'stalling-mail.test' },
  );
  const other = await journey.mailServer('fine.test', {}, { provider: 'fine-mail.test' });
  for (const to of ['a', 'b', 'c']) await sendLarge(`${to}@stalling.test`);
  await waitFor(() => stalling.connections >= 1, { what: 'a stalled session' });
  const attachments = [{ filename: 'ticket.txt', content: MEGABYTES_14.slice(0, 4_000_000) }];
  await sendScheduled('small@fine.test');
  await sendScheduled('large@fine.test', { attachments });
  await waitFor(() => other.messages.length === 2, { what: 'both emails', timeoutMs: AT_ONCE_MS });
  const sizes = other.messages.map(({ raw }) => raw.length).toSorted((a, b) => a - b);
  assert.ok(sizes[0]! < 20_000 && sizes[1]! > 3_000_000, String(sizes));
});
