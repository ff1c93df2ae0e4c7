/** Addresses stored before migration 0066: in lists, of members, of waiting mail and of other mail. */
import assert from 'node:assert/strict';
import { after, beforeEach, test } from 'node:test';
import { address } from '../../test/support/deliveries.ts';
import { newEmail, newSender, type Sender } from '../../test/support/mail-store.ts';
import { asOwner, testDatabase } from '../../test/support/postgres.ts';
import { AcceptStore } from '../accept/store/accept-store.ts';
import { readAddressLog } from '../emails/address-log/address-log-store.ts';
import { keyEarlierLists, keyEarlierMail } from './migrate-addresses.ts';
import { type EmailFilter, listEmails, NO_FILTER } from '../emails/list/email-list-store.ts';
import { newId } from '../database/ids.ts';
import { replayJournal } from '../backup/store/journal-rows.ts';
import { claimOldest } from '../delivery/queue/claim-store.ts';
import { addSuppression, findSuppression } from '../suppressions/suppression-store.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;

const accepting = new AcceptStore(db.accepting, {
  limit: { max: 1_000_000, windowS: 60 },
  leaseId: () => null,
  onWebhooksQueued: () => {},
  onUnknown: () => {},
});

beforeEach(async () => {
  await db.query('delete from queue');
  await db.query('delete from earlier_addresses');
  await db.query('insert into earlier_addresses default values');
});

/** The form that an earlier version stored. */
const EARLIER_KEY = 'lower($3 collate "C")';

type Entry = { reason?: string; createdAt: string; expiresAt?: string };

async function suppress({ projectId }: Sender, written: string, entry: Entry): Promise<void> {
  const { reason = 'manual', createdAt, expiresAt = null } = entry;
  const values = [projectId, 'live', written, reason, createdAt];
  await db.query(
    `insert into suppressions (project_id, environment, address_key, address, reason, created_at, expires_at)
     values ($1, $2, ${EARLIER_KEY}, $3, $4, $5, $6)`,
    [...values, expiresAt],
  );
  await db.query(
    `insert into suppression_history (project_id, environment, address_key, action, reason, at, by)
     values ($1, $2, ${EARLIER_KEY}, 'added', $4, $5, 'api')`,
    values,
  );
}

const entriesOf = ({ projectId }: Sender) =>
  db.query<{ key: string; address: string; reason: string }>(
    `select address_key as key, address, reason from suppressions where project_id = $1 order by 1`,
    [projectId],
  );

const keyLists = () =>
  asOwner(database.address, async (owner) => {
    await owner.query('begin');
    await keyEarlierLists(owner);
    await owner.query('commit');
  });

test('suppressions get the new form, and of duplicates the one that lasts longest remains, then the oldest', async () => {
  const sender = await newSender(db);
  const [old, older, oldest] = ['2026-03-01', '2026-02-01', '2026-01-01'];
  await suppress(sender, 'Jo@acme.test', { createdAt: old });
  await suppress(sender, 'JÖRG@acme.test', { createdAt: older, reason: 'complaint' });
  await suppress(sender, 'JO\u0308RG@acme.test', { createdAt: oldest, expiresAt: '2099-01-01' });
  await suppress(sender, 'jörg@acme.test', { createdAt: old, reason: 'unsubscribe' });
  await suppress(sender, 'STRASSE@acme.test', { createdAt: older, reason: 'hard_bounce' });
  await suppress(sender, 'Straße@acme.test', { createdAt: oldest, reason: 'complaint' });
  await suppress(sender, 'ÄA@acme.test', { createdAt: oldest, expiresAt: '2026-01-02' });
  await suppress(sender, 'A\u0308a@acme.test', { createdAt: old, expiresAt: '2099-01-01' });
  await keyLists();
  assert.deepEqual(await entriesOf(sender), [
    { key: 'jo@acme.test', address: 'Jo@acme.test', reason: 'manual' },
    { key: 'jörg@acme.test', address: 'JÖRG@acme.test', reason: 'complaint' },
    { key: 'strasse@acme.test', address: 'Straße@acme.test', reason: 'complaint' },
    { key: 'äa@acme.test', address: 'A\u0308a@acme.test', reason: 'manual' },
  ]);
  const history = await db.query(
    `select from suppression_history where project_id = $1 and address_key = 'jörg@acme.test'`,
    [sender.projectId],
  );
  assert.equal(history.length, 3, 'the history keeps all');
  assert.equal((await findSuppression(db, sender, 'jÖrg@acme.test'))?.reason, 'complaint');
  const entry = { reason: 'manual', sourceEmailId: null, expiresAt: null, by: 'api' } as const;
  const again = await addSuppression(db, sender, { ...entry, address: 'JO\u0308RG@acme.test' });
  assert.equal(again.isNew, false);
});

test('lists of other projects and environments are not merged, and the lists change only once', async () => {
  const [one, other] = [await newSender(db), await newSender(db)];
  await suppress(one, 'ÄÄ@acme.test', { createdAt: '2026-01-01' });
  await suppress(other, 'äÄ@acme.test', { createdAt: '2026-02-01' });
  await keyLists();
  assert.deepEqual(
    [...(await entriesOf(one)), ...(await entriesOf(other))].map(({ address: written }) => written),
    ['ÄÄ@acme.test', 'äÄ@acme.test'],
  );
  await suppress(one, 'ÖÖ@acme.test', { createdAt: '2026-01-01' });
  await keyLists();
  assert.equal(
    await findSuppression(db, one, 'ÖÖ@acme.test'),
    null,
    'the second call does nothing',
  );
});

test('failures of a full mailbox count together in all spellings of its address', async () => {
  const { projectId } = await newSender(db);
  const [both, one] = [newId(), newId()];
  for (const [written, emailId] of [
    ['VOLLÄ@acme.test', both],
    ['vollÄ@acme.test', both],
    ['vollä@acme.test', one],
  ]) {
    await db.query(
      `insert into quota_failures (project_id, environment, address_key, email_id, failed_at)
       values ($1, $2, ${EARLIER_KEY}, $4, app_now()) on conflict do nothing`,
      [projectId, 'live', written, emailId],
    );
  }
  await keyLists();
  const rows = await db.query<{ key: string; id: string }>(
    'select address_key as key, email_id as id from quota_failures where project_id = $1',
    [projectId],
  );
  assert.deepEqual(
    rows.toSorted((a, b) => (a.id < b.id ? -1 : 1)),
    [both, one].toSorted().map((id) => ({ key: 'vollä@acme.test', id })),
  );
});

test('a member can still sign in; of two with the same form, the older one', async () => {
  const [organization] = await db.query<{ id: string }>('select id from organizations limit 1');
  const member = (id: string, written: string, createdAt: string) =>
    db.query(
      `insert into members (id, organization_id, email_key, email, name, role, password, created_at)
       values ($1, $2, ${EARLIER_KEY}, $3, 'Jo', 'viewer', 'x', $4)`,
      [id, organization!.id, written, createdAt],
    );
  const [younger, elder, single] = [newId(), newId(), newId()];
  await member(younger, 'CHEFÖÄ@acme.test', '2026-02-01');
  await member(elder, 'chefÖä@acme.test', '2026-01-01');
  await member(single, 'ÜBER@acme.test', '2026-01-01');
  await keyLists();
  const keys = await db.query<{ id: string; key: string }>(
    'select id, email_key as key from members where id = any($1)',
    [[younger, elder, single]],
  );
  const keyOf = new Map(keys.map(({ id, key }) => [id, key]));
  assert.equal(keyOf.get(elder), 'cheföä@acme.test');
  assert.equal(keyOf.get(single), 'über@acme.test');
  assert.equal(keyOf.get(younger), 'chefÖÄ@acme.test');
});

/** Accepts emails and stores them as an earlier version did. @returns their ids */
async function storeEarlier(sender: Sender, mail: readonly Mail[]): Promise<string[]> {
  const ids: string[] = [];
  for (const { from, to } of mail) {
    const email = newEmail(sender, { to, from: { name: null, address: address(from) } });
    assert.equal((await accepting.accept(email)).outcome, 'accepted');
    ids.push(email.id);
  }
  await db.query('update recipients set address_key = null where project_id = $1', [
    sender.projectId,
  ]);
  await db.query('update emails set from_key = null where project_id = $1', [sender.projectId]);
  return ids;
}

type Mail = { from: string; to: readonly string[] };

async function found(sender: Sender, filter: Partial<EmailFilter>): Promise<string[]> {
  const page = { limit: 20, after: null, before: null };
  const { rows } = await listEmails(db, sender, { page, filter: { ...NO_FILTER, ...filter } });
  return rows.map(({ id }) => id).toSorted();
}

const FROM = 'hello@acme.com';

test('waiting mail is not sent to an address that was suppressed in another spelling', async () => {
  const sender = await newSender(db);
  await storeEarlier(sender, [
    { from: FROM, to: ['JÖRG@dest.test', 'JÖ@dest.test'] },
    { from: FROM, to: ['JO@dest.test'] },
  ]);
  await suppress(sender, 'jörg@dest.test', { createdAt: '2026-01-01' });
  await suppress(sender, 'Jo@dest.test', { createdAt: '2026-01-01' });
  await keyLists();
  const { claimed } = await claimOldest(db.settling, {
    leaseId: newId(),
    max: 100,
    readMax: 100,
    from: new Date(0),
    fullProjects: [],
    fullQueues: [],
  });
  assert.deepEqual(
    new Map(claimed.map((one) => [one.address, one.isSuppressed])),
    new Map([
      ['JÖRG@dest.test', true],
      ['JÖ@dest.test', false],
      ['JO@dest.test', true],
    ]),
  );
});

test('earlier mail is found in every spelling of its addresses, in batches, beside later mail', async () => {
  const sender = await newSender(db);
  const [one, other, plain, last] = await storeEarlier(sender, [
    { from: 'SHÖP@acme.com', to: ['JÖRG@dest.test', 'jo@dest.test', 'Jörg@dest.test'] },
    { from: FROM, to: ['k@dest.test', 'STRASSE@dest.test'] },
    { from: FROM, to: ['jo@dest.test'] },
    { from: FROM, to: ['Straße@dest.test', '\u212a@dest.test'] },
  ]);
  await db.query('delete from queue');
  await keyLists();
  assert.deepEqual(await found(sender, { to: 'strasse@dest.test' }), [other]);
  const passed = [];
  for (let count: number | null = 0; count !== null; passed.push(count)) {
    count = await keyEarlierMail(db, 3);
  }
  // Includes the mail of the tests before.
  assert.equal(passed.at(-1), null);
  assert.equal(await keyEarlierMail(db, 3), null);
  const later = newEmail(sender, {
    to: ['jÖRG@dest.test'],
    from: { name: null, address: address('shöp@acme.com') },
  });
  assert.equal((await accepting.accept(later)).outcome, 'accepted');
  const sorted = (...ids: (string | undefined)[]) => ids.map(String).toSorted();
  assert.deepEqual(await found(sender, { to: 'jörg@dest.test' }), sorted(one, later.id));
  assert.deepEqual(await found(sender, { to: 'strasse@dest.test' }), sorted(other, last));
  assert.deepEqual(await found(sender, { to: 'k@dest.test' }), sorted(other, last));
  assert.deepEqual(await found(sender, { to: 'jo@dest.test' }), sorted(one, plain));
  assert.deepEqual(await found(sender, { from: 'shöp@acme.com' }), sorted(one, later.id));
  const log = await readAddressLog(db, {
    projectIds: [sender.projectId],
    environment: null,
    addressKey: 'strasse@dest.test',
    limit: 10,
  });
  assert.deepEqual(sorted(...log.map(({ emailId }) => emailId ?? '')), sorted(other, last));
});

test('addresses that an older worker added meanwhile get the new form with the last batch', async () => {
  const sender = await newSender(db);
  await keyLists();
  await suppress(sender, 'ÖÖ@acme.test', { createdAt: '2026-01-01' });
  while ((await keyEarlierMail(db, 100)) !== null);
  assert.equal((await findSuppression(db, sender, 'öö@acme.test'))?.address, 'ÖÖ@acme.test');
});

test('a batch whose process dies is repeated by the next process', async () => {
  const sender = await newSender(db);
  const [id] = await storeEarlier(sender, [{ from: FROM, to: ['ÄRA@dest.test'] }]);
  await keyLists();
  const dying = db.transaction(async (tx) => {
    await keyEarlierMail({ transaction: (work) => work(tx) }, 100);
    assert.equal(await keyEarlierMail(db, 100), 0, 'another machine leaves it alone');
    throw new Error('killed');
  });
  await assert.rejects(dying, /killed/);
  while ((await keyEarlierMail(db, 100)) !== null);
  assert.deepEqual(await found(sender, { to: 'ära@dest.test' }), [id]);
});

test('suppressions in the journal of an earlier version get the new form when they are replayed', async () => {
  const sender = await newSender(db);
  const { projectId, environment } = sender;
  const at = '2026-01-01T00:00:00.000Z';
  const entry = { address: 'JÖRG@acme.test', address_key: 'jÖrg@acme.test', reason: 'complaint' };
  const row = { project_id: projectId, environment, ...entry, created_at: at };
  const replayed = await replayJournal(db, [{ table: 'suppressions', at, row }]);
  assert.equal(replayed.suppressions, 1);
  assert.equal((await findSuppression(db, sender, 'jörg@acme.test'))?.reason, 'complaint');
});
