/**
 * Blocks of terms, the index of searches for parts of words. A block has the terms (search-terms.ts) of 16 emails in a
 * row of one project and environment. A search reads only the emails of blocks that have all terms of its parts, and
 * compares each.
 *
 * Maintenance makes the blocks a minute after the emails, so accepting mail costs nothing more. The blocks of a project
 * follow each other without a gap. The newest emails, and those before the first block, are searched one by one. So a
 * search is complete whatever maintenance has done, and before it has seen the mail of an earlier version.
 */
import type { Scope } from '../../core/scope.ts';
import { ADVISORY_LOCKS } from '../../database/advisory-locks.ts';
import type { Database, Queryable } from '../../database/database.ts';
import { firstUuidAt } from '../../database/ids.ts';
import type { IdRange } from '../../database/page.ts';
import { WEEK_MS } from '../../database/partitions.ts';
import { allTermsOf, termsOf, weekOf } from './search-terms.ts';

/**
 * With more emails a block takes less space for each, and more blocks have all terms of a part that none of their
 * emails has.
 */
export const BLOCK_EMAILS = 16;

export type Block = { firstId: string; lastId: string };

/** A search reads the emails of a range or those of blocks. `stop` is where it ends, or null. */
export type BlockStep =
  | { kind: 'scan'; range: IdRange }
  | { kind: 'blocks'; blocks: readonly Block[]; stop: string | null };

/** Blocks that one search reads: 32,000 emails. */
const BLOCKS_MAX = 2_000;
/** Most searches end with the first few blocks. */
const BLOCKS_AT_ONCE = [32, 256, BLOCKS_MAX] as const;

/** The newest of these blocks are searched one email after the other: frequent words fill a page with them. */
export const PLAIN_BLOCKS = 64;

// `lastId`: the last email that is searched by blocks. Null: there are few blocks.
const FIND_COVERED = `
select (select first_id from weekly_search_blocks
         where project_id = $1 and environment = $2 order by last_id limit 1) as "firstId",
       (select last_id from weekly_search_blocks
         where project_id = $1 and environment = $2 and ($3::uuid is null or last_id < $3)
         order by last_id desc offset ${PLAIN_BLOCKS} limit 1) as "lastId"`;

/**
 * The share of the newest blocks with all terms decides whether the index is asked. Many of the emails have the words
 * then, and one email after the other fills a page as soon.
 */
const SAMPLED_BLOCKS = 64;
const SCANNED_SHARE = 1 / 4;
/** The index is asked for the rarest terms of the sample. More of them cost more than they exclude. */
const ASKED_TERMS_MAX = 8;

// `counts`: how many of the blocks have each term. `|| '{}'` reads the terms of a block once.
const SAMPLE = `
with sample as materialized (
  select terms || '{}'::int[] as terms from weekly_search_blocks
   where project_id = $1 and environment = $2 and last_id <= $4 and last_id >= $5
   order by last_id desc limit ${SAMPLED_BLOCKS})
select (select count(*) from sample)::int as sampled,
       (select count(*) from sample where terms @> $3::int[])::int as matching,
       array(select (select count(*)::int from sample where terms @> array[wanted.term])
               from unnest($3::int[]) with ordinality wanted(term, place)
              order by place) as counts`;

// As plain columns, project and environment would make the primary key usable, which reads all blocks of a project.
const findBlocksSql = (order: 'asc' | 'desc'): string => `
select block.first_id as "firstId", block.last_id as "lastId"
  from unnest($3::text[]) week(terms)
 cross join lateral (
    select first_id, last_id from weekly_search_blocks
     where terms @> week.terms::int[] and project_id::text = $1::uuid::text and environment || '' = $2
       and ($4::uuid is null or first_id < $4) and ($5::uuid is null or last_id > $5)
       and first_id >= $6 and last_id <= $7 offset 0) block
 order by block.last_id ${order} limit $8`;

/** Weeks that each statement asks the index for: the page is often full after the first ones. */
const WEEKS_AT_ONCE = [1, 2, 4, Infinity] as const;

/** Emails to search for, and in which order. */
type Wanted = { trigrams: readonly string[]; range: IdRange; order: 'asc' | 'desc' };

/** Returns what to search, in order. */
export async function* findBlockSteps(
  db: Queryable,
  scope: Scope,
  wanted: Wanted,
): AsyncGenerator<BlockStep> {
  const { range, order } = wanted;
  const { olderThan, newerThan } = range;
  const values = [scope.projectId, scope.environment, olderThan];
  const [{ firstId = null, lastId = null } = {}] = await db.query<Partial<Block>>(
    FIND_COVERED,
    values,
  );
  const covered = firstId === null || lastId === null ? null : { firstId, lastId };
  const trigrams =
    covered && (await chooseTrigrams(db, scope, { ...wanted, lastId: covered.lastId }));
  if (covered === null || trigrams === null) {
    yield { kind: 'scan', range };
    return;
  }
  const isAfter = olderThan === null || olderThan > covered.lastId;
  const isBefore = newerThan === null || newerThan < covered.firstId;
  const newer = { olderThan, newerThan: latest(newerThan, covered.lastId) };
  const older = { olderThan: earliest(olderThan, covered.firstId), newerThan };
  if (order === 'desc' && isAfter) yield { kind: 'scan', range: newer };
  if (order === 'asc' && isBefore) yield { kind: 'scan', range: older };
  yield* findCoveredSteps(db, scope, { ...wanted, trigrams, covered });
  if (order === 'desc' && isBefore) yield { kind: 'scan', range: older };
  if (order === 'asc' && isAfter) yield { kind: 'scan', range: newer };
}

/** Asks the index week by week. Blocks that were made meanwhile have emails that a scan reads. */
async function* findCoveredSteps(
  db: Queryable,
  scope: Scope,
  { trigrams, range, order, covered }: Wanted & { covered: Block },
): AsyncGenerator<BlockStep> {
  const { olderThan, newerThan } = range;
  const { firstId, lastId } = covered;
  const weeks = weeksBetween(latest(newerThan, firstId), lastId).map(
    (week) => `{${termsOf({ ...scope, week }, trigrams).join()}}`,
  );
  if (order === 'desc') weeks.reverse();
  const bounds = [olderThan, newerThan, firstId, lastId];
  let left = BLOCKS_MAX;
  let edge = lastId;
  const sizes = [...BLOCKS_AT_ONCE];
  for (const count of WEEKS_AT_ONCE) {
    const asked = weeks.splice(0, count);
    if (asked.length === 0) return;
    const { projectId, environment } = scope;
    const values = [projectId, environment, asked, ...bounds, left + 1];
    const found = await db.query<Block>(findBlocksSql(order), values);
    const isCut = found.length > left;
    const blocks = found.slice(0, left);
    left -= blocks.length;
    while (blocks.length > 0) {
      const some = blocks.splice(0, sizes.length > 1 ? sizes.shift() : sizes[0]);
      edge = order === 'desc' ? some.at(-1)!.firstId : some.at(-1)!.lastId;
      yield { kind: 'blocks', blocks: some, stop: null };
    }
    if (isCut) {
      yield { kind: 'blocks', blocks: [], stop: edge };
      return;
    }
  }
}

/** Returns the weeks of the times of two ids and those between, oldest first. */
function weeksBetween(first: string, last: string): number[] {
  const count = Math.max(0, weekOf(last) - weekOf(first) + 1);
  return Array.from({ length: count }, (_, index) => weekOf(first) + index);
}

type Sample = { sampled: number; matching: number; counts: number[] };

/** Returns the trigrams to ask the index for; null: the index would return too many blocks. */
async function chooseTrigrams(
  db: Queryable,
  scope: Scope,
  { trigrams, lastId }: Wanted & { lastId: string },
): Promise<readonly string[] | null> {
  const week = weekOf(lastId);
  const [sample] = await db.query<Sample>(SAMPLE, [
    scope.projectId,
    scope.environment,
    termsOf({ ...scope, week }, trigrams),
    lastId,
    firstUuidAt(week * WEEK_MS),
  ]);
  // A small project has too few blocks for a share, and so has a week that has just begun.
  if (sample === undefined || sample.sampled < SAMPLED_BLOCKS) return trigrams;
  const { sampled, matching, counts } = sample;
  if (matching / sampled >= SCANNED_SHARE) return null;
  const places = trigrams.map((_, place) => place);
  const rarest = places.toSorted((one, other) => counts[one]! - counts[other]!);
  return rarest.slice(0, ASKED_TERMS_MAX).map((place) => trigrams[place]!);
}

const latest = (one: string | null, other: string) => (one !== null && one > other ? one : other);
const earliest = (one: string | null, other: string) => (one !== null && one < other ? one : other);

const NO_ID = '00000000-0000-0000-0000-000000000000';
const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/**
 * Ids have the time of the worker that accepted the email. A block that ends before this time gets no further email:
 * no clock is so far behind the others, and no commit takes so long.
 */
export const SETTLED_AFTER_MS = 60_000;

const FIND_DUE = `
select projects.id as "projectId", mode.environment
  from projects cross join unnest(array['live', 'test']) mode(environment)
  left join lateral (
     select last_id from weekly_search_blocks
      where project_id = projects.id and environment = mode.environment
      order by last_id desc limit 1) done on true
 where (select emails.id from emails
         where emails.project_id = projects.id and emails.environment = mode.environment
           and emails.id > coalesce(done.last_id, '${NO_ID}') and emails.id < $1::uuid
         order by emails.id offset ${BLOCK_EMAILS - 1} limit 1) is not null`;

const BLOCKS_PER_BATCH = 64;

const READ_NEXT = `
select id, subject, to_list || cc_list || bcc_list as addresses, from_name as "fromName",
       from_address as "fromAddress", message_id as "messageId", tags
  from emails
 where project_id = $1 and environment = $2 and id < $3::uuid
   and id > coalesce((select last_id from weekly_search_blocks
                       where project_id = $1 and environment = $2 order by last_id desc limit 1), '${NO_ID}')
 order by id limit ${BLOCKS_PER_BATCH * BLOCK_EMAILS}`;

export type SearchedEmail = {
  id: string;
  subject: string;
  addresses: string[];
  fromName: string | null;
  fromAddress: string;
  messageId: string | null;
  tags: { name: string; value: string }[];
};

const ADD = `
insert into weekly_search_blocks (project_id, environment, first_id, last_id, terms)
select $1, $2, block.first_id, block.last_id, block.terms::int[]
  from unnest($3::uuid[], $4::uuid[], $5::text[]) block(first_id, last_id, terms)`;

/** Several machines make blocks in turn, so that no email is in two. */
const LOCK = `select pg_advisory_xact_lock(${ADVISORY_LOCKS.searchBlocks})`;

/** Makes the blocks that are due, in batches. Ends early when `isStopping`. @returns the number of blocks */
export async function makeSearchBlocks(
  db: Pick<Database, 'query' | 'transaction'>,
  { nowMs, isStopping }: { nowMs: number; isStopping: () => boolean },
): Promise<number> {
  const before = firstUuidAt(nowMs - SETTLED_AFTER_MS);
  let made = 0;
  for (const scope of await db.query<Scope>(FIND_DUE, [before])) {
    for (let last = BLOCKS_PER_BATCH; last === BLOCKS_PER_BATCH && !isStopping(); made += last) {
      last = await db.transaction((tx) => makeBatch(tx, scope, before));
    }
  }
  return made;
}

async function makeBatch(tx: Queryable, scope: Scope, before: string): Promise<number> {
  await tx.query(LOCK);
  const { projectId, environment } = scope;
  const emails = await tx.query<SearchedEmail>(READ_NEXT, [projectId, environment, before]);
  return addSearchBlocks(
    tx,
    scope,
    emails.slice(0, emails.length - (emails.length % BLOCK_EMAILS)),
  );
}

/**
 * Adds the blocks of emails in a row, oldest first, which follow the emails of the last block. @returns their number
 */
export async function addSearchBlocks(
  db: Queryable,
  scope: Scope,
  emails: readonly SearchedEmail[],
): Promise<number> {
  const blocks = Array.from({ length: Math.ceil(emails.length / BLOCK_EMAILS) }, (_, index) =>
    emails.slice(index * BLOCK_EMAILS, (index + 1) * BLOCK_EMAILS),
  );
  if (blocks.length === 0) return 0;
  const lastIds = blocks.map((block) => block.at(-1)!.id);
  await db.query(ADD, [
    scope.projectId,
    scope.environment,
    blocks.map((block) => block[0]!.id),
    lastIds,
    blocks.map((block, index) => {
      const week = weekOf(lastIds[index]!);
      return `{${allTermsOf({ ...scope, week }, block.flatMap(textsOf)).join()}}`;
    }),
  ]);
  return blocks.length;
}

function textsOf({ subject, addresses, fromName, fromAddress, messageId, tags }: SearchedEmail) {
  const tagged = tags.map(({ name, value }) => `${name}:${value}`);
  return [subject, ...addresses, fromName ?? '', fromAddress, messageId ?? '', ...tagged];
}

const FIND_OUTDATED = `
select projects.id as "projectId", mode.environment, oldest.id as "oldestId"
  from projects cross join unnest(array['live', 'test']) mode(environment)
 cross join lateral (
     select last_id from weekly_search_blocks
      where project_id = projects.id and environment = mode.environment
      order by last_id limit 1) first_block
 cross join lateral (
     select coalesce((select emails.id from emails
                       where emails.project_id = projects.id and emails.environment = mode.environment
                       order by emails.id limit 1), '${LAST_ID}') as id) oldest
 where first_block.last_id < oldest.id`;

const REMOVE = `
delete from weekly_search_blocks where ctid = any(array(
  select ctid from weekly_search_blocks
   where project_id = $1 and environment = $2 and last_id < $3 limit $4)) returning 1`;

/** Removes the blocks of emails that the retention has removed, in batches. */
export async function removeOldBlocks(db: Queryable, batch: number): Promise<void> {
  const outdated = await db.query<Scope & { oldestId: string }>(FIND_OUTDATED);
  for (const { projectId, environment, oldestId } of outdated) {
    const values = [projectId, environment, oldestId, batch];
    while ((await db.query(REMOVE, values)).length === batch);
  }
}
