/** `letterhaus queue`: shows waiting mail, and retries, holds, releases and drops it. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

// Delivers nothing: what is accepted waits in the table.
const service = await startService({ args: ['--only', 'api', '--workers', '1'] });
after(() => service[Symbol.asyncDispose]());

const NO_EMAIL = '019abcde-0000-7000-8000-000000000000';

async function recipient(id: string) {
  return (await service.email(id)).recipients[0];
}

const isDue = ({ next_attempt_at: at }: { next_attempt_at: string | null }): boolean =>
  at !== null && Date.parse(at) <= Date.now();

test('the queue is shown by provider, longest first', async () => {
  await service.send();
  await service.send({ to: ['a@simulator.test', 'b@simulator.test'] });
  const { providers, has_more: hasMore } = await service.cliJson('queue');
  assert.equal(hasMore, false);
  const [{ provider, waiting, due, held }] = providers;
  assert.deepEqual([provider, waiting, due, held], ['simulator', 3, 3, 0]);
  const { stdout, code } = await service.cli('queue', '--limit', '5');
  assert.equal(code, 0);
  assert.match(stdout, /^PROVIDER .*\nsimulator +3 +3 /);
});

test('mail on hold has no next attempt until it is released', async () => {
  const id = await service.send({ to: 'kim@held.test' });
  assert.equal((await service.cliJson('queue', 'hold', '--domain', 'HELD.test')).changed, 1);
  assert.equal((await recipient(id)).next_attempt_at, null);
  const [provider] = (await service.cliJson('queue')).providers;
  assert.equal(provider.held, 1);
  assert.equal((await service.cliJson('queue', 'retry', '--email', id)).changed, 0);
  assert.equal((await service.cliJson('queue', 'release', '--email', id)).changed, 1);
  assert.ok(isDue(await recipient(id)));
});

test('mail on hold that is not released fails when it expires', async () => {
  const id = await service.send({ to: 'kim@forgotten.test', expires_in: 3600 });
  await service.cliJson('queue', 'hold', '--email', id);
  const [row] = await service.sql(
    `select queue.due_at = emails.expires_at as "atExpiry" from queue
       join emails on emails.id = queue.email_id
      where emails.id = $1`,
    [id],
  );
  assert.equal(row.atExpiry, true);
});

test('queue retry sends deferred mail now', async () => {
  const id = await service.send({ to: 'kim@later.test' });
  await service.sql(`update queue set due_at = app_now() + interval '1 hour' where email_id = $1`, [
    id,
  ]);
  assert.ok(!isDue(await recipient(id)));
  assert.equal((await service.cliJson('queue', 'retry', '--domain', 'later.test')).changed, 1);
  assert.ok(isDue(await recipient(id)));
});

test('dropped mail ends as canceled, with its event, unless the drop is undone', async () => {
  const id = await service.send({ to: ['kim@drop.test', 'lee@stay.test'] });
  const undone = await service.cliJson('queue', 'drop', '--domain', 'stay.test', '--yes');
  assert.equal((await service.cliJson('queue', 'undo', undone.id)).changed, 1);
  const { stdout } = await service.cli('queue', 'drop', '--domain', 'drop.test', '--yes');
  assert.match(
    stdout,
    /^1 of 1 waiting recipients will be dropped at .*\nTo undo the drop before then:\n.*queue undo/,
  );
  await service.sql(`update queue_drops set drops_at = app_now() - interval '1 second'`);
  await service.waitForStatus(id, 'queued');
  const isCanceled = async () => (await service.email(id)).recipients[0].status === 'canceled';
  await waitFor(isCanceled, { what: 'the drop to be carried out' });
  const { status, recipients } = await service.email(id);
  assert.equal(status, 'queued');
  assert.deepEqual(
    recipients.map((one: { status: string }) => one.status),
    ['canceled', 'queued'],
  );
  const { body } = await service.request('GET', `/v1/emails/${id}/events`);
  const last = body.data.at(-1);
  assert.deepEqual([last.type, last.data.recipient], ['email.canceled', 'kim@drop.test']);
  assert.match(last.data.reason.advice, /dropped from the queue/);
});

test('mail that a worker is sending is not changed, and reported', async () => {
  const id = await service.send({ to: 'kim@busy.test' });
  await service.sql(`update queue set holder = (select id from nodes) where email_id = $1`, [id]);
  for (const change of ['hold', 'drop']) {
    const args = ['queue', change, '--email', id, ...(change === 'drop' ? ['--yes'] : [])];
    const { found, busy, changed } = await service.cliJson(...args);
    assert.deepEqual([found, busy, changed], [1, 1, 0]);
  }
});

test('thousands of recipients are changed in steps, and only those of the given project', async () => {
  await service.cliJson('projects', 'create', 'Other');
  const { key } = await service.cliJson(
    'keys',
    'create',
    '--environment',
    'test',
    '--project',
    'Other',
  );
  const id = await service.send({ to: 'kim@many.test' });
  await service.sql(
    `insert into queue (project_id, email_id, position, environment, destination, provider, due_at)
     select project_id, email_id, number, environment, destination, provider, app_now()
       from queue, generate_series(1, 5000) number where email_id = $1 and position = 0`,
    [id],
  );
  await service.sql(
    `insert into domains select (jsonb_populate_record(domains, jsonb_build_object(
       'id', gen_random_uuid(), 'project_id', projects.id))).*
       from domains, projects where domains.name = 'acme.test' and projects.name = 'Other'`,
  );
  await service.send({ to: 'kim@many.test' }, { key });
  const hold = ['queue', 'hold', '--domain', 'many.test'];
  assert.equal((await service.cliJson(...hold, '--project', 'Other')).changed, 1);
  assert.equal((await service.cliJson(...hold)).changed, 5_001);
  const { stderr, stdout } = await service.cli('queue', 'release', '--all');
  assert.match(stdout, /^5\d+ of 5\d+ waiting recipients released/, stderr);
});

const WRONG: Record<string, readonly string[]> = {
  'nothing is selected': ['retry'],
  'everything and something is selected': ['hold', '--all', '--domain', 'a.test'],
  'the id is none': ['release', '--email', 'x'],
  'the domain is none': ['drop', '--yes', '--domain', 'not a domain'],
  'there is no such project': ['retry', '--project', 'Nobody'],
  'nobody can be asked for confirmation': ['drop', '--all'],
};

for (const [what, args] of Object.entries(WRONG)) {
  test(`when ${what} the command reports it and changes nothing`, async () => {
    const { code, stdout, stderr } = await service.cli('queue', ...args);
    assert.equal(code, 2, stderr);
    assert.equal(stdout, '');
    assert.notEqual(stderr, '');
  });
}

test('an email without queued recipients is not found', async () => {
  const { code, stderr } = await service.cli('queue', 'retry', '--email', NO_EMAIL);
  assert.equal(code, 1);
  assert.match(stderr, /No recipient of email/);
});
