/**
 * Gives addresses that were stored before migration 0066 the form in which they are compared now
 * (database/address-keys.ts). Forms in ASCII do not change, so only others are read into memory.
 *
 * Address lists, and recipients that wait for delivery, change in one transaction before any node of the new version
 * works. If the process dies, the next start repeats it. Other mail follows in batches, in the order of the primary key
 * of emails. One transaction stores a batch and its position (`earlier_addresses`).
 *
 * Two entries of a list may get the same form. Suppressions: the one that lasts longest remains, and of equal ones the
 * oldest. The history keeps all changes. Members, and invitations to an organization: the entry that already has the
 * form keeps it, else the oldest gets it. Other entries keep their old form, by which they are no longer found.
 */
import { addressKey } from '../mail/address.ts';
import type { Database, Queryable } from '../database/database.ts';

const isNotAscii = (text: string): string => `${text} ~ '[^[:ascii:]]'`;

const HAS_TABLE = `select to_regclass('earlier_addresses') is not null as has`;
const FIND_DUE = 'select from earlier_addresses where not lists_done for update';

/**
 * Changes the lists in the transaction of a migration, after all nodes of older versions have ended. Does nothing when
 * that is done, or when the schema is older.
 */
export async function keyEarlierLists(tx: Queryable): Promise<void> {
  const [table] = await tx.query<{ has: boolean }>(HAS_TABLE);
  if (table?.has !== true) return;
  if ((await tx.query(FIND_DUE)).length === 0) return;
  await keyLists(tx);
  await tx.query('update earlier_addresses set lists_done = true');
}

async function keyLists(tx: Queryable): Promise<void> {
  await changeKeys(tx, 'suppressions.address_key', MOVE_SUPPRESSIONS);
  await changeKeys(tx, 'suppression_history.address_key', MOVE_HISTORY);
  await changeKeys(tx, 'quota_failures.address_key', MOVE_QUOTA_FAILURES);
  await changeKeys(tx, 'members.email_key', moveOldest('members', []));
  await changeKeys(tx, 'invitations.email_key', moveOldest('invitations', ['organization_id']));
  await keyRecipients(tx, await tx.query<KeyedRecipient>(FIND_WAITING));
}

const BATCH = 2_000;

/** Runs a statement whose `key` has the old and new forms of a column, where they differ. */
async function changeKeys(tx: Queryable, column: string, statement: string): Promise<void> {
  const [table] = column.split('.');
  const found = await tx.query<{ key: string }>(
    `select distinct ${column} as key from ${table} where ${isNotAscii(column)}`,
  );
  const changed = found
    .map(({ key }) => [key, addressKey(key)] as const)
    .filter(([before, after]) => before !== after);
  for (let at = 0; at < changed.length; at += BATCH) {
    const batch = changed.slice(at, at + BATCH);
    await tx.query(
      `with key as (select * from unnest($1::text[], $2::text[]) as k(before, after))${statement}`,
      [batch.map(([before]) => before), batch.map(([, after]) => after)],
    );
  }
}

const MOVE_SUPPRESSIONS = `,
moved as (
  delete from suppressions using key where suppressions.address_key = key.before
  returning suppressions.*, key.after
)
insert into suppressions (project_id, environment, address_key, address, reason, source_email_id, created_at,
                          expires_at)
select distinct on (project_id, environment, after)
       project_id, environment, after, address, reason, source_email_id, created_at, expires_at
  from moved
 order by project_id, environment, after, expires_at desc nulls first, created_at, address_key
on conflict (project_id, environment, address_key) do update
   set address = excluded.address, reason = excluded.reason, source_email_id = excluded.source_email_id,
       created_at = excluded.created_at, expires_at = excluded.expires_at
 where (coalesce(excluded.expires_at, 'infinity'), suppressions.created_at)
       > (coalesce(suppressions.expires_at, 'infinity'), excluded.created_at)`;

const MOVE_HISTORY = `
update suppression_history set address_key = key.after
  from key where suppression_history.address_key = key.before`;

const MOVE_QUOTA_FAILURES = `,
moved as (
  delete from quota_failures using key where quota_failures.address_key = key.before
  returning quota_failures.*, key.after
)
insert into quota_failures (project_id, environment, address_key, email_id, failed_at)
select project_id, environment, after, email_id, min(failed_at) from moved group by 1, 2, 3, 4
on conflict do nothing`;

/** @param scopeColumns columns within which a form of an address is unique, besides the form itself */
const moveOldest = (
  table: 'members' | 'invitations',
  scopeColumns: readonly 'organization_id'[],
): string => {
  const unique = [...scopeColumns.map((column) => `one.${column}`), 'key.after'].join();
  return `,
oldest as (
  select distinct on (${unique}) one.*, key.after
    from ${table} one join key on one.email_key = key.before
   order by ${unique}, one.created_at, one.id
)
update ${table} moved set email_key = oldest.after
  from oldest
 where moved.id = oldest.id and not exists (
   select from ${table} one where one.email_key = oldest.after
      ${scopeColumns.map((column) => `and one.${column} = oldest.${column}`).join(' ')})`;
};

type KeyedRecipient = { projectId: string; emailId: string; position: number; address: string };

const FIND_WAITING = `
select project_id as "projectId", email_id as "emailId", position, recipients.address
  from queue
  join recipients using (project_id, email_id, position)
 where ${isNotAscii('recipients.address')}`;

// Project and email are repeated as arrays, so that any join plan starts from them.
const KEY_RECIPIENTS = `
update recipients set address_key = input.key
  from unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::text[])
         as input(project_id, email_id, position, key)
 where recipients.project_id = any($1) and recipients.email_id = any($2)
   and recipients.project_id = input.project_id and recipients.email_id = input.email_id
   and recipients.position = input.position
   and recipients.address_key is distinct from input.key`;

async function keyRecipients(tx: Queryable, found: readonly KeyedRecipient[]): Promise<void> {
  for (let at = 0; at < found.length; at += BATCH) {
    const batch = found.slice(at, at + BATCH);
    await tx.query(KEY_RECIPIENTS, [
      batch.map(({ projectId }) => projectId),
      batch.map(({ emailId }) => emailId),
      batch.map(({ position }) => position),
      batch.map(({ address }) => addressKey(address)),
    ]);
  }
}

type EmailPosition = { projectId: string; environment: string; emailId: string };

const HAS_EARLIER = 'select from earlier_addresses';

const FIND_POSITION = `
select project_id as "projectId", environment, email_id as "emailId"
  from earlier_addresses where lists_done for update skip locked`;

type EarlierEmail = EmailPosition & {
  /** null: in ASCII. */
  from: string | null;
  to: { position: number; address: string }[] | null;
};

/** The limit is a literal: with a parameter, the plan sorts all mail instead of reading the first rows of the key. */
const nextEmailsSql = (limit: number): string => `
select email.project_id as "projectId", email.environment, email.id as "emailId",
       case when ${isNotAscii('email.from_address')} then email.from_address end as from,
       not_ascii.addresses as to
  from (select project_id, environment, id, from_address from emails
         where (project_id, environment, id) > ($1::uuid, $2::text, $3::uuid)
         order by project_id, environment, id
         limit ${limit}) email
 cross join lateral (
    select json_agg(json_build_object('position', position, 'address', address)) as addresses
      from recipients
     where project_id = email.project_id and email_id = email.id and ${isNotAscii('address')}) not_ascii
 order by 1, 2, 3`;

const KEY_SENDERS = `
update emails set from_key = input.key
  from unnest($1::uuid[], $2::text[], $3::uuid[], $4::text[]) as input(project_id, environment, id, key)
 where emails.project_id = any($1) and emails.id = any($3)
   and emails.project_id = input.project_id and emails.environment = input.environment
   and emails.id = input.id`;

const SET_POSITION = `
update earlier_addresses set project_id = $1, environment = $2, email_id = $3`;

/**
 * Processes the next batch of older mail. After the last one, the lists are changed once more, because a worker of an
 * older version that did not end in time may have added to them.
 * @returns number of processed emails, 0 when another machine is processing, or null when nothing is left
 */
export function keyEarlierMail(
  db: Pick<Database, 'transaction'>,
  limit: number,
): Promise<number | null> {
  return db.transaction(async (tx) => {
    const [position] = await tx.query<EmailPosition>(FIND_POSITION);
    if (position === undefined) return (await tx.query(HAS_EARLIER)).length === 0 ? null : 0;
    const { projectId, environment, emailId } = position;
    const values = [projectId, environment, emailId];
    const emails = await tx.query<EarlierEmail>(nextEmailsSql(limit), values);
    const last = emails.at(-1);
    if (last === undefined) {
      await keyLists(tx);
      await tx.query('delete from earlier_addresses');
      return null;
    }
    await keyRecipients(
      tx,
      emails.flatMap(({ to, ...email }) => (to ?? []).map((one) => ({ ...email, ...one }))),
    );
    await keySenders(tx, emails);
    await tx.query(SET_POSITION, [last.projectId, last.environment, last.emailId]);
    return emails.length;
  });
}

async function keySenders(tx: Queryable, emails: readonly EarlierEmail[]): Promise<void> {
  const senders = emails.flatMap(({ from, ...email }) =>
    from === null ? [] : [{ ...email, from }],
  );
  if (senders.length === 0) return;
  await tx.query(KEY_SENDERS, [
    senders.map(({ projectId }) => projectId),
    senders.map(({ environment }) => environment),
    senders.map(({ emailId }) => emailId),
    senders.map(({ from }) => addressKey(from)),
  ]);
}
