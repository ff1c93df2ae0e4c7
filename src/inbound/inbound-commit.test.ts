/** Reports share a commit: one that waits for a lock may not delay the others. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, test } from 'node:test';
import { acceptAll, newEmail, newSender, settlement } from '../../test/support/mail-store.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { AcceptStore } from '../accept/store/accept-store.ts';
import type { NewEmail } from '../accept/store/new-email.ts';
import { APP_ROLE, Database, DatabaseUnavailable } from '../database/database.ts';
import { newId } from '../database/ids.ts';
import { type InboundItem, ReportStore } from './report-store.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;

function bounceOf(email: NewEmail): InboundItem {
  const { projectId, environment, id } = email;
  const bounced = { status: 'bounced', eventType: 'email.bounced', late: true } as const;
  return {
    message: {
      id: newId(),
      reportHash: randomBytes(32),
      remoteAddress: '192.0.2.1',
      sender: '',
      recipient: 'b-x@send.acme.com',
      kind: 'bounce',
      about: { projectId, environment, emailId: id, position: 0 },
      sizeBytes: 9,
      content: Buffer.from('a bounce\n'),
    },
    settlement: settlement(email, bounced),
  };
}

test('a report about a locked email does not block the others', async () => {
  const sender = await newSender(db);
  const emails = Array.from({ length: 12 }, () => newEmail(sender));
  const nobody = { leaseId: () => null, onWebhooksQueued: () => {}, onUnknown: () => {} };
  await acceptAll(
    new AcceptStore(db.accepting, { limit: { max: 100, windowS: 60 }, ...nobody }),
    emails,
  );
  await db.query(`update recipients set status = 'delivered', completed_at = app_now()`);
  await db.query('update emails set open_count = 0');
  await db.query('delete from queue');

  const own = new Database(database.address, { role: APP_ROLE, name: 'inbound' });
  await own.inbound.query(`set lock_timeout = '300ms'`);
  const store = new ReportStore(own.inbound, { onWebhooksQueued: () => {} });
  const [locked, ...others] = emails;
  await db.transaction(async (tx) => {
    await tx.query('select from emails where project_id = $1 and id = $2 for update', [
      sender.projectId,
      locked!.id,
    ]);
    const stored = await Promise.allSettled(emails.map((email) => store.add(bounceOf(email))));
    const [first, ...rest] = stored;
    assert.ok(first?.status === 'rejected' && first.reason instanceof DatabaseUnavailable);
    for (const one of rest) {
      assert.deepEqual(one, { status: 'fulfilled', value: { kind: 'stored', change: 'bounced' } });
    }
  });
  // The reporting server retries.
  assert.deepEqual(await store.add(bounceOf(locked!)), { kind: 'stored', change: 'bounced' });
  const [row] = await db.query<{ count: number }>(
    `select count(*)::int as count from recipients where status = 'bounced'`,
  );
  assert.equal(row?.count, others.length + 1);
  await own.close();
});
