/** Counts mail from before projects had a maximum of storage, as after an upgrade. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { acceptAll, newEmail, newSender } from '../../../test/support/mail-store.ts';
import { asOwner, testDatabase } from '../../../test/support/postgres.ts';
import { storedBytes } from './stored-bytes.ts';
import { AcceptStore } from '../../accept/store/accept-store.ts';
import { countEarlierMail } from './earlier-storage-store.ts';
import { subtractDeletedMail, readStorage } from './storage-store.ts';

const EACH_ABOUT_BYTES = 200;

test('mail that was stored before projects had a maximum is counted once, in batches', async () => {
  await using database = await testDatabase();
  const { db } = database;
  const [one, other] = [await newSender(db), await newSender(db)];
  const store = new AcceptStore(db.accepting, {
    limit: { max: 1_000, windowS: 60 },
    leaseId: () => null,
    onWebhooksQueued: () => {},
    onUnknown: () => {},
  });
  const early = [
    newEmail(one, { html: 'a'.repeat(1_000), text: 'b'.repeat(3_000) }),
    newEmail(one, { html: 'c'.repeat(90_000), to: ['jo@example.net', 'kim@example.net'] }),
    newEmail(one, {
      html: null,
      submitted: { raw: Buffer.alloc(20_000), messageId: '<1@acme.com>' },
    }),
    newEmail(other, { html: 'd'.repeat(50_000) }),
  ];
  await acceptAll(store, early);
  await asOwner(database.address, (owner) =>
    owner.query('update storage_earlier set before = clock_timestamp()'),
  );
  await acceptAll(store, [newEmail(other, { html: 'e'.repeat(70_000) })]);

  const passed = [];
  for (let count = -1; count !== 0; passed.push(count)) count = await countEarlierMail(db, 2);
  assert.deepEqual(passed, [2, 2, 1, 0]);
  assert.equal(await countEarlierMail(db, 2), 0);
  for (const sender of [one, other]) {
    const own = early.filter(({ projectId }) => projectId === sender.projectId);
    const bytes = own.reduce((sum, email) => sum + storedBytes(email), 0);
    const { usedBytes } = await readStorage(db, sender.projectId);
    assert.ok(
      Math.abs(usedBytes - bytes) < own.length * EACH_ABOUT_BYTES,
      `${usedBytes}, ${bytes}`,
    );
  }
  // The bytes leave the total together with their day.
  await db.query(`update storage_days set day = day - 60`);
  await subtractDeletedMail(db, { contentH: 45 * 24, metadataH: 45 * 24 });
  assert.equal((await readStorage(db, one.projectId)).usedBytes, 0);
});
