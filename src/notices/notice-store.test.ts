/** The queue of delivery notices: with the outcome, once, and after four hours of delay. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { SETTLING, newEmail, newSender, settlement } from '../../test/support/mail-store.ts';
import { address } from '../../test/support/deliveries.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import type { Dsn } from '../mail/dsn-parameters.ts';
import type { Notice } from '../mail/notice.ts';
import { AcceptStore } from '../accept/store/accept-store.ts';
import { newId } from '../database/ids.ts';
import { loadHeads } from '../delivery/message/message-store.ts';
import { claimNotices, endNotice, deleteOldNotices } from './notice-store.ts';
import { SettleStore } from '../settle/settle-store.ts';
import { addSuppression } from '../suppressions/suppression-store.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;
const leaseId = newId();
const accepting = new AcceptStore(db.accepting, {
  limit: { max: 1_000_000, windowS: 60 },
  leaseId: () => leaseId,
  onWebhooksQueued: () => {},
  onUnknown: () => {},
});
const settling = new SettleStore(db.settling, { ...SETTLING, leaseId: () => leaseId });

const FACTS = { status: '', diagnostic: 'smtp; 250 x', remoteMta: null, advice: null };
const SUCCESS: Notice = { kind: 'success', facts: { ...FACTS, action: 'relayed' } };
const DELAY: Notice = { kind: 'delay', facts: { ...FACTS, action: 'delayed' } };

function asking(sender: string, to: readonly string[]): Dsn {
  const notify = { notify: ['SUCCESS', 'FAILURE', 'DELAY'], orcpt: null } as const;
  return {
    kind: 'request',
    sender: address(sender),
    ret: null,
    envid: 'x',
    recipients: Object.fromEntries(to.map((one) => [address(one), notify])),
  };
}

const queued = (emailId: string) =>
  database.sql('select position, kind from notices where email_id = $1 order by 1, 2', [emailId]);

test('a notice is queued with its outcome, claimed by one worker, and never queued again', async () => {
  const sender = await newSender(db);
  const dsn = asking('app@acme.com', ['jo@example.net']);
  const email = newEmail(sender, { dsn });
  await accepting.accept(email);
  const head = (await loadHeads(db, [email])).get(email.id);
  assert.deepEqual(head?.dsn, dsn);
  assert.equal(await settling.settle(settlement(email, { notice: SUCCESS })), 'counted');
  assert.deepEqual(await queued(email.id), [{ position: 0, kind: 'success' }]);
  const [notice] = await claimNotices(db, 10);
  assert.deepEqual(
    [notice?.emailId, notice?.keyId, notice?.recipient, notice?.isAllowed, notice?.isTooOld],
    [email.id, sender.keyId, 'jo@example.net', true, false],
  );
  assert.deepEqual(notice?.facts, SUCCESS.facts);
  assert.deepEqual(await claimNotices(db, 10), []);
  await endNotice(db, notice);
  const late = {
    ...settlement(email, { notice: SUCCESS }),
    late: true,
    status: 'bounced',
  } as const;
  assert.equal(await settling.settle({ ...late, eventType: 'email.bounced' }), 'counted');
  await database.sql('update notices set due_at = app_now() where due_at is not null');
  assert.deepEqual(await claimNotices(db, 10), []);
  await database.sql(`update notices set created_at = created_at - interval '44 days'`);
  assert.equal(await deleteOldNotices(db, 10), 0);
  await database.sql(`update notices set created_at = created_at - interval '1 day'`);
  assert.equal(await deleteOldNotices(db, 10), 1);
});

test('a claim that was not ended is repeated, and a domain that is not of the project gets nothing', async () => {
  const sender = await newSender(db);
  for (const from of ['app@acme.com', 'victim@elsewhere.com', '"a@acme.com"@elsewhere.com']) {
    const email = newEmail(sender, { dsn: asking(from, ['jo@example.net']) });
    await accepting.accept(email);
    await settling.settle(settlement(email, { notice: SUCCESS }));
    const [notice, ...others] = await claimNotices(db, 10);
    assert.deepEqual([notice?.isAllowed, others], [from === 'app@acme.com', []], from);
    await database.sql('update notices set due_at = app_now() where due_at is not null');
    const [again] = await claimNotices(db, 10);
    assert.equal(again?.emailId, email.id);
    await endNotice(db, again);
  }
});

test('a delay is reported once it has lasted four hours', async () => {
  const email = newEmail(await newSender(db), {
    dsn: asking('app@acme.com', ['jo@example.net']),
    lifetimeS: 86_400,
  });
  await accepting.accept(email);
  let claim = 1;
  const defer = async () => {
    const delayed = { status: 'deferred', eventType: 'email.delivery_delayed' } as const;
    const outcome = settlement(email, { ...delayed, retryMs: 1_000, notice: DELAY });
    assert.equal(await settling.settle({ ...outcome, claim }), 'counted');
    claim += 1;
    await database.sql('update queue set holder = $1, claim = $2 where email_id = $3', [
      leaseId,
      claim,
      email.id,
    ]);
    return (await queued(email.id)).length;
  };
  const age = (hours: number) =>
    database.sql(
      'update emails set created_at = app_now() - make_interval(secs => 3600 * $1::float8) where id = $2',
      [hours, email.id],
    );
  await age(3.9);
  assert.equal(await defer(), 0);
  await age(4.1);
  assert.equal(await defer(), 1);
  assert.equal(await defer(), 1);
});

test('a recipient that is suppressed when the email is accepted is also reported', async () => {
  const sender = await newSender(db);
  const to = ['gone@example.net', 'jo@example.net'];
  await addSuppression(db, sender, {
    address: address(to[0]!),
    reason: 'manual',
    sourceEmailId: null,
    expiresAt: null,
    by: 'api',
  });
  const email = newEmail(sender, { to, dsn: asking('app@acme.com', to) });
  await accepting.accept(email);
  assert.deepEqual(await queued(email.id), [{ position: 0, kind: 'failure' }]);
});
