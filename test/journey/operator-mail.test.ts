/** LETTERHAUS_OPERATOR_ADDRESS: conditions of the installation, mailed by the service itself. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import type { ConditionType } from '../../src/core/operator-events.ts';
import { clearCondition, raiseCondition } from '../../src/operator/condition-store.ts';
import { startFakeDns } from '../support/fake-dns.ts';
import { startFakeMx } from '../support/fake-mx.ts';
import { asOwner } from '../support/postgres.ts';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const dns = await startFakeDns({
  'out.letterhaus.example': { A: ['127.0.0.1'] },
  'ops.example': { MX: ['10 mx.ops.example'] },
  'mx.ops.example': { A: ['127.0.1.1'] },
});
const mx = await startFakeMx({}, { address: '127.0.1.1' });
// A worker that accepts such a mail dies right after the commit: each of the first two.
const DEATHS = 'accept_after_commit=kill,accept_after_commit=kill';
const service = await startService({
  dns,
  args: ['--workers', '2'],
  env: {
    LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1',
    LETTERHAUS_HOSTNAME: 'out.letterhaus.example',
    LETTERHAUS_MX_PORT: String(mx.port),
    LETTERHAUS_OPERATOR_ADDRESS: 'jo@ops.example',
    LETTERHAUS_DATABASE_MAX_MB: '64',
    LETTERHAUS_FAILPOINTS: DEATHS,
  },
});
after(async () => {
  await service[Symbol.asyncDispose]();
  await mx[Symbol.asyncDispose]();
  await dns[Symbol.asyncDispose]();
});

const raise = (type: ConditionType, subject: string) =>
  asOwner(service.address(), (db) =>
    raiseCondition(db, { type, subject, message: `${subject} is in need.`, remedy: 'Help it.' }),
  );
const clear = (type: ConditionType, subject: string) =>
  asOwner(service.address(), (db) => clearCondition(db, { type, subject }));

/**
 * Each mail once, with quoted-printable undone. A worker that dies between the reply of the receiver and settling has
 * the mail sent again, with the same Message-ID: a mail that was accepted twice would have another.
 */
function received(): string[] {
  const mails = mx.messages.map(({ raw }) => raw.toString());
  const byId = Map.groupBy(mails, (mail) => /^Message-ID: (.+)$/m.exec(mail)?.[1]);
  return [...byId.values()].map(([mail]) => mail!.replaceAll('=\r\n', '').replaceAll('=3D', '='));
}

async function mailsUntil(count: number): Promise<string[]> {
  await waitFor(() => received().length >= count, { what: `mail ${count}`, timeoutMs: 60_000 });
  return received();
}

const isUnreachable = async (): Promise<boolean> => {
  const open = `select from operator_conditions where type = 'operator.unreachable'`;
  return (await service.sql(open)).length > 0;
};

test('without a domain that can send, attention says so; then the mail goes out once, although workers die', async () => {
  await waitFor(isUnreachable, { what: 'the condition', timeoutMs: 60_000 });
  const shown = await service.cli('attention', '--json');
  const [condition] = JSON.parse(shown.stdout).data;
  assert.match(condition.message, /no live domain is verified/);
  assert.match(condition.remedy, /letterhaus domains add/);
  await raise('backup.failed', '/srv/backups');

  await service.addLiveDomain('acme.example');
  const [mail] = await mailsUntil(1);
  assert.match(mail!, /^From: Letterhaus <postmaster@acme\.example>\r$/m);
  assert.match(mail!, /^To: jo@ops\.example\r$/m);
  assert.match(mail!, /^Subject: Letterhaus: \/srv\/backups is in need\.\r$/m);
  assert.match(mail!, /^Auto-Submitted: auto-generated\r$/m);
  assert.match(mail!, /^ {2}What: {2}backup\.failed, \/srv\/backups\r$/m);
  assert.match(mail!, /^ {2}Since: 20\d\d-\d\d-\d\d \d\d:\d\d UTC\r$/m);
  assert.match(mail!, /^ {2}To do: Help it\.\r$/m);
  assert.match(mail!, /letterhaus attention/);
  await service.logged(/"failpoint":"accept_after_commit"/);
  await waitFor(async () => !(await isUnreachable()), { what: 'its end', timeoutMs: 60_000 });
});

test('within an hour there is no second mail of the kind, and then one with all that happened', async () => {
  await raise('backup.failed', '/mnt/backups');
  await clear('backup.failed', '/srv/backups');
  await raise('clock.skewed', 'mail7.example');
  const [, other] = await mailsUntil(2);
  assert.match(other!, /^Subject: Letterhaus: mail7\.example is in need\.\r$/m);

  await service.clock.advance({ hours: 1 });
  const [, , summary] = await mailsUntil(3);
  assert.match(summary!, /^Subject: Letterhaus: 2 reports of backup\.failed\r$/m);
  assert.match(summary!, /\/mnt\/backups is in need\.[^]*Over: The last backup succeeded\./);
  assert.match(summary!, /^ {2}Until: 20\d\d-\d\d-\d\d \d\d:\d\d UTC\r$/m);
  const isDone = async () => (await service.sql('select from operator_mail_queue')).length === 0;
  await waitFor(isDone, { what: 'nothing to be left', timeoutMs: 60_000 });
});

test('the mail about a full database goes out while other mail is refused', async () => {
  await service.sql(
    `create table filler (bytes text storage external);
     insert into filler select repeat('x', 1000000) from generate_series(1, 70)`,
  );
  const [, , , mail] = await mailsUntil(4);
  assert.match(mail!, /^ {2}What: {2}database\.full, database\r$/m);
  const body = { from: 'a@acme.test', to: 'delivered@simulator.test', subject: 'Hi', text: 'Hi' };
  assert.equal((await service.request('POST', '/v1/emails', { body })).status, 503);
  await service.sql('drop table filler');
});

test('an address on the suppression list is shown in attention, and waiting reports are mailed later', async () => {
  const [{ project }] = await service.sql(
    `select project_id as project from domains where name = 'acme.example'`,
  );
  const list = ['--project', project, '--environment', 'live'];
  const added = await service.cli('suppressions', 'add', 'jo@ops.example', ...list);
  assert.equal(added.code, 0, added.stderr);
  await raise('domain.degraded', 'other.example');
  await waitFor(isUnreachable, { what: 'the condition', timeoutMs: 60_000 });
  await service.cli('suppressions', 'remove', 'jo@ops.example', ...list);
  const isMailed = () => received().some((mail) => mail.includes('other.example is in need.'));
  await waitFor(isMailed, { what: 'what had waited', timeoutMs: 60_000 });

  const about = received().map((mail) => /^ {2}What: {2}(\S+),/m.exec(mail)?.[1]);
  assert.ok(!about.includes('operator.unreachable'), 'mail is not about itself');
});

test('the sender can be chosen', async () => {
  const env = { LETTERHAUS_OPERATOR_FROM: 'Alerts <alerts@acme.example>' };
  Object.assign(service.env, { ...env, LETTERHAUS_FAILPOINTS: '' });
  await service.restart();
  await raise('certificate.mismatch', 'third.example');
  const mailed = () => received().find((mail) => mail.includes('third.example is in need.'));
  const mail = await waitFor(mailed, { what: 'the mail', timeoutMs: 60_000 });
  assert.match(mail, /^From: Alerts <alerts@acme\.example>\r$/m);
});
