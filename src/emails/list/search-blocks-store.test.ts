/** Shows that searches by parts of words find the same with and without blocks, in a real database. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { newSender, type Sender } from '../../../test/support/mail-store.ts';
import { testDatabase } from '../../../test/support/postgres.ts';
import { firstUuidAt, newId } from '../../database/ids.ts';
import { WEEK_MS } from '../../database/partitions.ts';
import { type EmailFilter, listEmails, NO_FILTER } from './email-list-store.ts';
import {
  BLOCK_EMAILS,
  findBlockSteps,
  makeSearchBlocks,
  PLAIN_BLOCKS,
  removeOldBlocks,
} from './search-blocks-store.ts';
import { trigramsOf } from './search-terms.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;

const SEND = `
insert into emails (project_id, environment, id, created_at, expires_at, domain_id, dual_signed, from_address, to_list,
                    cc_list, bcc_list, reply_to, subject, tags, metadata, open_count, worst, event_count, last_event)
select $1, $2, ids.id, now(), now(), $1, false, 'hello@acme.test',
       array['person-' || n || '@company-' || n || '.example'], '{}', '{}', '{}',
       coalesce(subjects.subject, 'Order HB-' || n || '-X'),
       jsonb_build_array(jsonb_build_object('name', 'kind', 'value', 'sort-' || n % 5)), '{}', 0, 1, 1, 'email.queued'
  from unnest($3::uuid[]) with ordinality ids(id, number)
  left join unnest($4::text[]) with ordinality subjects(subject, number) using (number)
 cross join lateral (select ids.number - 1 as n) numbered`;

/** Stores emails to `n@company-n.example` about `Order n`. @returns their ids, oldest first */
async function send(sender: Sender, count: number): Promise<string[]> {
  const ids = Array.from({ length: count }, newId);
  await sendAs(sender, ids, []);
  return ids;
}

/** @param subjects of the oldest emails, instead of the numbered ones */
async function sendAs(sender: Sender, ids: readonly string[], subjects: readonly string[]) {
  await db.query(SEND, [sender.projectId, sender.environment, ids, subjects]);
}

/** Returns ids in a week of those that have partitions, 0 to 7. */
function idsIn(week: number, count: number): string[] {
  const beganMs = (Math.floor(Date.now() / WEEK_MS) + week) * WEEK_MS;
  return Array.from({ length: count }, (_, index) => firstUuidAt(beganMs + index));
}

/** Emails of the blocks that a search reads whole. */
const PLAIN = PLAIN_BLOCKS * BLOCK_EMAILS;

const makeBlocks = () =>
  makeSearchBlocks(db, { nowMs: Date.now() + 10 * WEEK_MS, isStopping: () => false });

/** Reads all pages. Numbers emails as `send` does. */
async function found(sender: Sender, ids: readonly string[], filter: Partial<EmailFilter>) {
  const numbers: number[] = [];
  let place: string | null = null;
  for (;;) {
    const page = { limit: 25, after: place, before: null };
    const { rows, hasMore, scannedUntil } = await listEmails(db, sender, {
      page,
      filter: { ...NO_FILTER, ...filter },
    });
    numbers.push(...rows.map(({ id }) => ids.indexOf(id)));
    if (!hasMore) return numbers;
    place = scannedUntil ?? rows.at(-1)?.id ?? null;
  }
}

const SEARCHES: Partial<EmailFilter>[] = [
  { words: ['company-4'] },
  { words: ['COMPANY-41'] },
  { words: ['hb-1'] },
  { words: ['order', 'person-39@'] },
  { words: ['sort-3'] },
  { words: ['nobody'] },
  { words: ['7'] },
  { subject: ['hb-2'] },
  { toPart: '-1.example' },
  { tag: { name: 'kind', value: 'sort-2' } },
  { words: ['company-4'], tag: { name: 'kind', value: 'sort-2' } },
];

test('a search finds the same with blocks and without, in both directions', async () => {
  const sender = await newSender(db);
  const ids = await send(sender, PLAIN + 4 * BLOCK_EMAILS + 5);
  const before = [];
  for (const filter of SEARCHES) before.push(await found(sender, ids, filter));
  assert.equal(before[0]?.length, 111);
  assert.deepEqual(before[1], [419, 418, 417, 416, 415, 414, 413, 412, 411, 410, 41]);
  assert.equal(await makeBlocks(), PLAIN_BLOCKS + 4);
  for (const [index, filter] of SEARCHES.entries()) {
    assert.deepEqual(await found(sender, ids, filter), before[index], JSON.stringify(filter));
  }
  const page = { limit: 2, after: null, before: ids[5]! };
  const filter = { ...NO_FILTER, words: ['company-4'] };
  const { rows } = await listEmails(db, sender, { page, filter });
  assert.deepEqual(
    rows.map(({ id }) => ids.indexOf(id)),
    [41, 40],
  );
});

test('a search over several weeks finds the same with blocks and without, in both directions', async () => {
  const sender = await newSender(db);
  const ids = [0, 1, 2, 4, 7].flatMap((week) => idsIn(week, 5 * BLOCK_EMAILS + 3));
  ids.push(...idsIn(7, PLAIN + 6 * BLOCK_EMAILS).slice(5 * BLOCK_EMAILS + 3));
  await sendAs(sender, ids, []);
  const readAll = async () => {
    const lists = [];
    for (const filter of SEARCHES) {
      lists.push(await found(sender, ids, filter));
      const page = { limit: 25, after: null, before: ids[20]! };
      const { rows } = await listEmails(db, sender, { page, filter: { ...NO_FILTER, ...filter } });
      lists.push(rows.map(({ id }) => ids.indexOf(id)));
    }
    return lists;
  };
  const before = await readAll();
  assert.deepEqual(before[2], [419, 418, 417, 416, 415, 414, 413, 412, 411, 410, 41]);
  assert.deepEqual(before[3], [419, 418, 417, 416, 415, 414, 413, 412, 411, 410, 41]);
  assert.ok((await makeBlocks()) > PLAIN_BLOCKS);
  assert.deepEqual(await readAll(), before);
});

test('a search that has compared the emails of 2,000 blocks returns where it stopped', async () => {
  const sender = await newSender(db);
  const misled = Array.from({ length: 2_000 * BLOCK_EMAILS }, (_, index) =>
    index % 2 === 0 ? 'alpha' : 'omega',
  );
  const needles = idsIn(0, BLOCK_EMAILS);
  const others = idsIn(1, misled.length + PLAIN);
  const ids = [...needles, ...others, ...idsIn(2, PLAIN)];
  await sendAs(sender, ids, [...needles.map(() => 'alpha omega'), ...misled]);
  await makeBlocks();
  const filter = { ...NO_FILTER, subject: ['alpha', 'omega'] };
  const page = { limit: 25, after: null, before: null };
  const { rows, hasMore, scannedUntil } = await listEmails(db, sender, { page, filter });
  assert.deepEqual([rows, hasMore, scannedUntil], [[], true, others[0]]);
  const all = await found(sender, ids, filter);
  assert.deepEqual(all, needles.map((_, index) => index).toReversed());
});

test('blocks follow one another: an email is in one, also when two machines make them', async () => {
  const sender = await newSender(db);
  const ids = await send(sender, 2 * BLOCK_EMAILS);
  await Promise.all([makeBlocks(), makeBlocks()]);
  await send(sender, BLOCK_EMAILS);
  assert.equal(await makeBlocks(), 1);
  const blocks = await db.query<{ firstId: string; lastId: string }>(
    `select first_id as "firstId", last_id as "lastId" from weekly_search_blocks
      where project_id = $1 order by last_id`,
    [sender.projectId],
  );
  assert.equal(blocks.length, 3);
  assert.deepEqual(blocks[1], { firstId: ids[BLOCK_EMAILS], lastId: ids.at(-1) });
});

test('mail of the last minute has no block yet, and is found', async () => {
  const sender = await newSender(db);
  const ids = await send(sender, BLOCK_EMAILS);
  assert.equal(await makeSearchBlocks(db, { nowMs: Date.now(), isStopping: () => false }), 0);
  assert.deepEqual(await found(sender, ids, { words: ['company-15'] }), [15]);
});

test('a search takes each character of a word literally, also those that patterns and JSON reserve', async () => {
  const sender = await newSender(db);
  const subjects = ['100% off', '100 off', 'a_b', 'a-b', 'a\\b', '"}]'];
  const ids = Array.from(subjects, newId);
  await sendAs(sender, ids, subjects);
  const cases = {
    '100%': [0],
    A_B: [2],
    '\\': [4],
    '"': [5],
    name: [],
    value: [],
    'kind:sort-1': [1],
    'kind:sort-1"': [],
  };
  for (const [word, expected] of Object.entries(cases)) {
    assert.deepEqual(await found(sender, ids, { words: [word] }), expected, word);
  }
});

test('a search reads only blocks with all terms, and none of another project', async () => {
  const sender = await newSender(db);
  const stranger = await newSender(db);
  const ids = await send(sender, PLAIN + 2 * BLOCK_EMAILS);
  await send(stranger, PLAIN + 2 * BLOCK_EMAILS);
  await makeBlocks();
  // The changed email is in a block without the terms, which the search does not read.
  await db.query(`update emails set subject = 'Order HB-20-X' where id = $1`, [ids[2]]);
  assert.deepEqual(await found(sender, ids, { words: ['hb-20-x'] }), [20]);
});

test('a word of every block is searched without the index, and a rare one with it', async () => {
  const sender = await newSender(db);
  const ids = await send(sender, 2 * PLAIN + 2 * BLOCK_EMAILS);
  await makeBlocks();
  const stepsFor = async (word: string): Promise<string[]> => {
    const wanted = {
      trigrams: trigramsOf([word]),
      range: { olderThan: null, newerThan: null },
      order: 'desc',
    } as const;
    const kinds = [];
    for await (const step of findBlockSteps(db, sender, wanted)) kinds.push(step.kind);
    return kinds;
  };
  assert.deepEqual(await stepsFor('company'), ['scan']);
  assert.ok((await stepsFor('person-4@')).includes('blocks'));
  const all = await found(sender, ids, { words: ['company'] });
  assert.deepEqual(all, ids.map((_, index) => index).toReversed());
});

test('blocks of removed emails are removed', async () => {
  const sender = await newSender(db);
  const ids = await send(sender, 2 * BLOCK_EMAILS);
  await makeBlocks();
  const countBlocks = async () =>
    (await db.query('select from weekly_search_blocks where project_id = $1', [sender.projectId]))
      .length;
  await db.query('delete from emails where project_id = $1 and id < $2', [
    sender.projectId,
    ids[BLOCK_EMAILS - 1],
  ]);
  await removeOldBlocks(db, 1);
  assert.equal(await countBlocks(), 2);
  await db.query('delete from emails where id = $1', [ids[BLOCK_EMAILS - 1]]);
  await removeOldBlocks(db, 1);
  assert.equal(await countBlocks(), 1);
  assert.deepEqual(await found(sender, ids, { words: ['company-20'] }), [20]);
  await db.query('delete from emails where project_id = $1', [sender.projectId]);
  await removeOldBlocks(db, 1);
  assert.equal(await countBlocks(), 0);
});
