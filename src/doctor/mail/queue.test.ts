/** Findings of the doctor about waiting mail, with real rows. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { LAB_HOST, openForChecks, startDoctorLab } from '../../../test/support/doctor-lab.ts';
import { acceptAll, newEmail, newSender } from '../../../test/support/mail-store.ts';
import { testDatabase } from '../../../test/support/postgres.ts';
import { startSmtpServer } from '../../../test/support/smtp-server.ts';
import { AcceptStore } from '../../accept/store/accept-store.ts';
import { newId } from '../../database/ids.ts';
import { registerWorker } from '../../delivery/queue/worker-store.ts';
import { writeProviderStates } from '../../delivery/shaping/provider-state-store.ts';
import { raiseCondition } from '../../operator/condition-store.ts';
import { INBOUND_PORT } from './own-ports.ts';
import { CONDITIONS, QUEUE } from './queue.ts';

const lab = await startDoctorLab();
after(() => lab[Symbol.asyncDispose]());
const stored = await testDatabase();
after(() => stored[Symbol.asyncDispose]());
const opened = await openForChecks(stored.address);
after(() => opened[Symbol.asyncDispose]());
const { database } = opened;
const { db } = stored;

async function levels(check: typeof QUEUE): Promise<string[]> {
  const findings = await lab.run(check, { database });
  return findings.map(({ level, found }) => `${level}: ${found}`);
}

test('an empty queue without conditions is green', async () => {
  assert.deepEqual(await levels(QUEUE), [
    'green: Mail to 0 recipients waits, and none for too long.',
  ]);
  assert.deepEqual(await levels(CONDITIONS), [
    'green: The service has reported nothing to act on.',
  ]);
});

test('mail that waits too long, mail on hold and a suspended provider are reported', async () => {
  const sender = await newSender(db);
  const store = new AcceptStore(db.accepting, {
    limit: { max: 1_000, windowS: 60 },
    leaseId: () => null,
    onWebhooksQueued: () => {},
    onUnknown: () => {},
  });
  await acceptAll(store, [newEmail(sender, { mayHandOver: false })]);
  assert.deepEqual(await levels(QUEUE), [
    'green: Mail to 1 recipient waits, and none for too long.',
  ]);
  await stored.sql(`update queue set due_at = due_at - interval '40 minutes'`);
  assert.match((await levels(QUEUE)).join(), /^yellow: Mail that is due has waited for 40 minutes/);
  await stored.sql(`update queue set due_at = due_at - interval '260 minutes'`);
  assert.match((await levels(QUEUE)).join(), /^red: Mail that is due has waited for 5 hours/);

  await stored.sql('update queue set held = true');
  const worker = newId();
  await registerWorker(db, { id: worker, instance: newId(), host: 'here', pid: 1 });
  await writeProviderStates(db, worker, {
    changed: [
      {
        provider: 'google',
        state: 'suspended',
        reason: 'no server answered',
        forMs: 300_000,
        connectionsMax: 5,
        connectionsOpen: 0,
      },
    ],
    removed: [],
  });
  assert.deepEqual(await levels(QUEUE), [
    'yellow: Mail to 1 recipient is on hold.',
    'yellow: google is suspended: no server answered.',
  ]);
  const [onHold] = await lab.run(QUEUE, { database });
  assert.match(onHold?.meaning ?? '', /until it is released or its pause ends, and it expires/);
  assert.match(onHold?.remedy ?? '', /end the pause .* set-reputation-alert PROJECT --resume\.$/);
});

test('conditions that stop mail are red, and the others yellow', async () => {
  const remedy = 'Do something.';
  await raiseCondition(db, {
    type: 'domain.degraded',
    subject: 'acme.com',
    message: 'A record is gone.',
    remedy,
  });
  await raiseCondition(db, {
    type: 'provider.blocked',
    subject: 'google',
    message: 'google refuses mail.',
    remedy,
  });
  assert.deepEqual((await levels(CONDITIONS)).toSorted(), [
    'red: google refuses mail.',
    'yellow: A record is gone.',
  ]);
});

test('mail that a stranger delivered lately shows that the inbound port is open', async () => {
  await using server = await startSmtpServer();
  const port = { LETTERHAUS_INBOUND_PORT: `${server.port}`, LETTERHAUS_SMTP_HOST: '127.0.0.1' };
  const check = () => lab.run(INBOUND_PORT, { database, env: port });
  const [, before] = await check();
  assert.equal(before?.level, 'unknown');
  assert.equal(before?.command, `nc -vz -w 5 ${LAB_HOST} ${server.port}`);
  const receive = (remoteAddress: string, age: string) =>
    stored.sql(
      `insert into inbound_messages (id, received_at, report_hash, remote_address, sender, recipient, kind,
                                     size_bytes, content)
       values ($1, now() - $3::interval, $4, $2, '', '', 'other', 0, '')`,
      [newId(), remoteAddress, age, Buffer.from(remoteAddress)],
    );
  await receive('8.8.4.4', '9 days');
  await receive('127.0.0.1', '1 hour');
  assert.equal((await check())[1]?.level, 'unknown', 'too old, or from this machine');
  await receive('8.8.8.8', '3 hours');
  assert.equal((await check())[1]?.found, 'A mail server delivered mail 3 hours ago.');
});

test('tables of another version are not read', async () => {
  const [finding] = await lab.run(QUEUE, { database: { ...database, schema: 60 } });
  assert.equal(finding?.level, 'unknown');
  assert.match(finding?.found ?? '', /has schema 60, and this version reads schema/);
});
