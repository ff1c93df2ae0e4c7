/** `letterhaus log --to` shows the history of an address in all projects. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { declareVerified } from '../support/api-client.ts';
import { asOwner } from '../support/postgres.ts';
import { startService } from '../support/service.ts';

const service = await startService();
after(() => service[Symbol.asyncDispose]());

const TO = 'Bounced+jo@simulator.test';

type Entry = { type: string; email_id: string | null; project: string; message: string | null };
const typesOf = (entries: Entry[]): string[] => entries.map(({ type }) => type);

/** A second project that may send from other.test. @returns its key */
async function otherKey(): Promise<string> {
  await service.cliJson('projects', 'create', 'Other');
  const { key } = await service.cliJson(
    'keys',
    'create',
    '--project',
    'Other',
    '--environment',
    'test',
  );
  const added = await service.request('POST', '/v1/domains', { key, body: { name: 'other.test' } });
  await asOwner(service.address(), (db) => declareVerified(db, added.body.id));
  return key;
}

test('the log has the history of an address in all projects: its emails, their replies, its suppressions', async () => {
  const first = await service.send({ to: TO });
  await service.waitForStatus(first, 'bounced');
  const key = await otherKey();
  const second = await service.send(
    { from: 'us@other.test', to: ['delivered@simulator.test', TO] },
    { key },
  );
  const isOver = { key };
  await service.waitForStatus(second, 'bounced', isOver);
  const found = await service.cliJson('log', '--to', TO.toLowerCase());
  assert.deepEqual(await service.cliJson('log', TO.toLowerCase()), found, 'with or without --to');
  const entries: Entry[] = found.data;
  const ofFirst = entries.filter(({ email_id: id }) => id === first);
  assert.deepEqual(typesOf(ofFirst).toSorted(), [
    'email.bounced',
    'email.queued',
    'suppression.added',
  ]);
  const ofSecond = entries.filter(({ email_id: id }) => id === second);
  assert.ok(typesOf(ofSecond).includes('email.bounced'));
  assert.ok(!typesOf(ofSecond).includes('email.delivered'), 'the other recipient is left out');
  assert.deepEqual([...new Set(ofSecond.map(({ project }) => project))], ['Other']);
  const bounced = ofFirst.find(({ type }) => type === 'email.bounced');
  assert.match(bounced?.message ?? '', /\w/);
  const times = found.data.map(({ at }: { at: string }) => at);
  assert.deepEqual(times, times.toSorted().toReversed(), 'newest first');
  assert.equal(found.suppressed.length, 2);
  const [{ reason, simulated }] = found.suppressed;
  assert.deepEqual([reason, simulated], ['hard_bounce', true]);

  const { stdout } = await service.cli('log', '--to', TO);
  assert.match(
    stdout,
    /is suppressed in Other \(test\): hard_bounce, since .*\. It is a simulator address/,
  );
  assert.match(stdout, new RegExp(`test +${first} +email\\.bounced +mailbox: 550 .*`));
});

test('the log can be limited to a project, to an environment and to a number of lines', async () => {
  const other = await service.cliJson('log', '--to', TO, '--project', 'other');
  assert.deepEqual([...new Set(other.data.map(({ project }: Entry) => project))], ['Other']);
  const live = await service.cli('log', '--to', TO, '--environment', 'live', '--json');
  assert.deepEqual([live.code, JSON.parse(live.stdout).data], [1, []]);
  const few = await service.cliJson('log', '--to', TO, '--limit', '2');
  assert.deepEqual([few.data.length, few.has_more], [2, true]);
});

test('an unknown address gets a sentence and the exit code 1', async () => {
  const { code, stdout } = await service.cli('log', '--to', 'nobody@simulator.test');
  assert.equal(code, 1);
  assert.match(stdout, /^Nothing is known of nobody@simulator\.test: no email .* kept for 90 days/);
});

test('a mistake in the address, the project or the limit is reported, and nothing is searched', async () => {
  const saying = async (...args: string[]) => {
    const { code, stderr } = await service.cli('log', ...args);
    assert.equal(code, 2, stderr);
    return stderr;
  };
  assert.match(await saying('--to', 'jo'), /--to <address>/);
  assert.match(await saying(), /--to <address>/);
  assert.match(await saying('jo'), /'address'.*it has no @/);
  assert.match(await saying(TO, '--to', 'jo@simulator.test'), /^letterhaus: Name one address/);
  assert.match(await saying('--to', TO, '--limit', '0'), /a number from 1 to 1000/);
  assert.match(await saying('--to', TO, '--project', 'Othr'), /did you mean Other\?/);
});
