/** Two projects that send to the same recipients at the same mail servers. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { startJourney } from '../support/journey.ts';

const journey = await startJourney();
after(() => journey[Symbol.asyncDispose]());
const { service } = journey;

/** A second project with a verified domain. @returns a key of it */
async function otherProject(): Promise<string> {
  const project = await service.cliJson('projects', 'create', 'Other');
  const scope = ['--project', project.id, '--environment', 'live'];
  const { key } = await service.cliJson('keys', 'create', ...scope);
  const { body } = await service.request('POST', '/v1/domains', {
    key,
    body: { name: 'other.example' },
  });
  await service.sql(
    `update domains set status = 'verified', verified_at = app_now() where id = $1`,
    [body.id],
  );
  return key;
}

const otherKey = await otherProject();
const sendOther = (to: string) => service.send({ from: 'us@other.example', to }, { key: otherKey });

test('a suppression that one project adds while mail waits does not stop the mail of another', async () => {
  const mx = await journey.mailServer('shared.test', { greylist: 2 });
  const to = 'kim@shared.test';
  const own = await journey.send({ to });
  const other = await sendOther(to);
  await journey.attempted(own);
  await service.waitForStatus(other, 'deferred', { key: otherKey });
  await journey.request('POST', '/v1/suppressions', { address: to });
  mx.set({});
  await journey.pass({ hours: 5 });
  assert.equal((await journey.ended(own)).status, 'suppressed');
  await service.waitForStatus(other, 'delivered', { key: otherKey });
  assert.equal(mx.messages.length, 1);
});

test('two projects have different Feedback-IDs, which name neither', async () => {
  const mx = await journey.mailServer('feedback.test');
  await journey.ended(await journey.send({ to: 'kim@feedback.test' }));
  await service.waitForStatus(await sendOther('kim@feedback.test'), 'delivered', { key: otherKey });
  const ids = mx.messages.map(
    ({ raw }) => /^Feedback-ID: untagged:([0-9a-f]{16}):/m.exec(raw.toString())?.[1],
  );
  assert.equal(new Set(ids).size, 2);
  const projects = await service.sql('select id from projects');
  for (const { id } of projects) {
    for (const { raw } of mx.messages) assert.ok(!raw.includes(id));
  }
});

test('a server that takes one message a session serves both projects', async () => {
  const mx = await journey.mailServer('single.test', {
    sessionLimit: { messages: 1, reply: '554 5.7.0 One message per connection' },
  });
  const own = await Promise.all([1, 2, 3].map((n) => journey.send({ to: `a${n}@single.test` })));
  const other = await Promise.all([1, 2, 3].map((n) => sendOther(`b${n}@single.test`)));
  for (const id of own) assert.equal((await journey.ended(id)).status, 'delivered');
  for (const id of other) await service.waitForStatus(id, 'delivered', { key: otherKey });
  assert.equal(mx.messages.length, 6);
});
