/**
 * Shows how contents of emails are stored and read: compression, limits on reading, and partitions that an older schema
 * created.
 */
import assert from 'node:assert/strict';
import { cpSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../../../test/support/embedded.ts';
import { acceptAll, newEmail, newSender } from '../../../test/support/mail-store.ts';
import { asOwner, emptyDatabase, testDatabase } from '../../../test/support/postgres.ts';
import { AcceptStore } from './accept-store.ts';
import { findEmail } from '../../emails/email-store.ts';
import { loadMessages } from '../../delivery/message/message-store.ts';
import { firstUuidAt, newId } from '../../database/ids.ts';
import { WEEK_MS } from '../../database/partitions.ts';
import type { Database } from '../../database/database.ts';
import { migrate } from '../../migration/migrate.ts';
import { MIGRATIONS_DIR } from '../../migration/schema-version.ts';
import { claimOldest } from '../../delivery/queue/claim-store.ts';

const ITEM =
  '<tr><td style="font-size:14px">Espresso, 250 g, no. 7</td><td>\u20ac 12.50</td></tr>\n';

const storeOf = (db: Database) =>
  new AcceptStore(db.accepting, {
    limit: { max: 1_000, windowS: 60 },
    leaseId: () => null,
    onWebhooksQueued: () => {},
    onUnknown: () => {},
  });

test('html and text of more than 2 KB are compressed, submitted messages are not', async () => {
  await using database = await testDatabase();
  const { db } = database;
  const sender = await newSender(db);
  const [html, text] = [ITEM.repeat(50), 'Espresso, 250 g, no. 7: \u20ac 12.50\n'.repeat(100)];
  const raw = Buffer.from(html);
  const submitted = { raw, messageId: '<one@acme.com>' };
  const emails = [newEmail(sender, { html, text }), newEmail(sender, { html: null, submitted })];
  await acceptAll(storeOf(db), emails);
  const stored = await db.query<{ html: number; text: number; raw: number }>(
    `select pg_column_size(html) as html, pg_column_size(body_text) as text, pg_column_size(raw) as raw
       from contents where email_id = any($1) order by email_id`,
    [emails.map(({ id }) => id)],
  );
  assert.ok(stored[0]!.html < html.length / 2, `${stored[0]!.html} of ${html.length} bytes`);
  assert.ok(stored[0]!.text < text.length / 2, `${stored[0]!.text} of ${text.length} bytes`);
  assert.ok(stored[1]!.raw >= raw.length, `${stored[1]!.raw} of ${raw.length} bytes`);
  const ref = (id: string) => ({ ...sender, id, keyId: null, domain: null });
  const found = await findEmail(db, ref(emails[0]!.id));
  assert.deepEqual([found?.html, found?.text], [html, text]);
  assert.deepEqual((await findEmail(db, ref(emails[1]!.id)))?.raw, raw);
});

test('html of 8,000 bytes or more is stored uncompressed, and read, sent and counted like any other', async () => {
  await using database = await testDatabase();
  const { db } = database;
  const sender = await newSender(db);
  const long = ITEM.repeat(200).slice(0, 7_999);
  const htmls = [long.replaceAll('\u20ac', '$'), `${long.replaceAll('\u20ac', '$')}.`];
  const emails = [
    ...htmls.map((html) => newEmail(sender, { html })),
    // Emails to two recipients take the full path.
    ...htmls.map((html) => newEmail(sender, { html, to: ['jo@example.net', 'kim@example.net'] })),
  ];
  await acceptAll(storeOf(db), emails);
  const columns = await db.query<{ html: number | null; large: number | null }>(
    `select pg_column_size(html) as html, pg_column_size(large_html) as large
       from contents order by email_id`,
  );
  for (const index of [0, 2]) {
    assert.ok(columns[index]!.html! < 4_000 && columns[index]!.large === null);
    assert.deepEqual(columns[index + 1], { html: null, large: 8_000 });
  }
  const loaded = await loadMessages(db, emails);
  const { claimed } = await claimOldest(db.settling, {
    leaseId: newId(),
    max: 100,
    readMax: 100,
    from: new Date(0),
    fullProjects: [],
    fullQueues: [],
  });
  for (const { id, html } of emails) {
    assert.equal((await findEmail(db, { ...sender, id, keyId: null, domain: null }))?.html, html);
    assert.equal(loaded.get(id)?.html, html);
    const sizes = claimed.filter(({ emailId }) => emailId === id).map(({ sizeBytes }) => sizeBytes);
    assert.ok(sizes.length > 0 && sizes.every((bytes) => bytes === html?.length), sizes.join());
  }
});

test('content over the given limit is not read', async () => {
  await using database = await testDatabase();
  const { db } = database;
  const sender = await newSender(db);
  const emails = [
    newEmail(sender, { html: 'a\u20ac'.repeat(50), text: 'b' }),
    newEmail(sender, { html: 'c'.repeat(9_000), text: null }),
    newEmail(sender, {
      html: null,
      submitted: { raw: Buffer.alloc(300), messageId: '<1@acme.com>' },
    }),
  ];
  await acceptAll(storeOf(db), emails);
  const bytes = [201, 9_000, 300];
  for (const [index, { id }] of emails.entries()) {
    const find = async (bytesMax?: number) => {
      const ref = { ...sender, id, keyId: null, domain: null };
      const found = await findEmail(db, ref, bytesMax);
      assert.ok(found);
      assert.equal(found.contentBytes, bytes[index]);
      assert.equal(found.recipients.length, 1);
      return { ...found, isRead: (found.html ?? found.raw) !== null };
    };
    assert.deepEqual(await find(bytes[index]), await find());
    assert.equal((await find()).isRead, true);
    const { html, text, raw } = await find(bytes[index]! - 1);
    assert.deepEqual([html, text, raw], [null, null, null]);
  }
});

test('partitions of an older schema compress new content after the migration', async () => {
  await using database = await emptyDatabase();
  const older = temporaryFolder();
  cpSync(MIGRATIONS_DIR, older, { recursive: true });
  for (const file of readdirSync(older)) if (file >= '0026') rmSync(join(older, file));
  const options = { nowMs: Date.now(), acceptAnyDurability: true };
  await migrate(database.address, { ...options, folder: older });
  const html = ITEM.repeat(50);
  await asOwner(database.address, async (db) => {
    const sizeAt = async (ms: number): Promise<number> => {
      const id = firstUuidAt(ms);
      const insert = `insert into contents (project_id, email_id, html) values ($1, $1, $2)`;
      await db.query(insert, [id, html]);
      const size = `select pg_column_size(html) as size from contents where email_id = $1`;
      const [row] = await db.query<{ size: number }>(size, [id]);
      return row!.size;
    };
    const nowMs = Date.now();
    assert.ok((await sizeAt(nowMs)) > html.length);
    await migrate(database.address, options);
    assert.ok((await sizeAt(nowMs + 1)) < html.length / 2, 'this week');
    assert.ok(
      (await sizeAt(nowMs + 8 * WEEK_MS)) < html.length / 2,
      'the last week that is made ahead',
    );
  });
});
