/**
 * API keys: creates, finds, lists, changes and revokes them. The text of a key is returned only at its creation;
 * the row stores its SHA-256. An installation without any key is at its first start (`onFirstStart`).
 */
import { randomBytes } from 'node:crypto';
import { API_KEY_RANDOM_BYTES, hashApiKey, keyHintOf, makeApiKey } from './api-key.ts';
import {
  ALLOW_ALL,
  type AllowLists,
  type Caller,
  type Environment,
  type KeyLimits,
  type Scope,
} from '../../core/scope.ts';
import { ADVISORY_LOCKS } from '../../database/advisory-locks.ts';
import type { Queryable, Database } from '../../database/database.ts';
import { newId } from '../../database/ids.ts';
import { type Page, type PageResult, cutToPage } from '../../database/page.ts';

export type ApiKey = KeyLimits & {
  id: string;
  projectId: string;
  environment: Environment;
  name: string;
  hint: string;
  createdAt: Date;
  /** Truncated to the minute. */
  lastUsedAt: Date | null;
};

/** Without a list, the key admits everybody. */
export type NewKey = Omit<KeyLimits, keyof AllowLists> & Partial<AllowLists> & { name: string };

const UNLIMITED: KeyLimits = {
  permission: 'full_access',
  domain: null,
  expiresAt: null,
  ...ALLOW_ALL,
};

/**
 * `isBroader` of core/scope.ts as a condition: $4 to $9 are the limits of the calling key. Keys of members
 * (findOrCreateMemberKey) are excluded: they have no text, and they end with the member.
 */
const NOT_BROADER = `
   and member_id is null
   and ($4::text = 'full_access' or permission = $4)
   and ($5::text is null or domain = $5)
   and ($6::timestamptz is null or expires_at <= $6)
   and ($7::text[] is null or allowed_networks <@ $7)
   and ($8::text[] is null or allowed_senders <@ $8)
   and ($9::text[] is null or allowed_recipients <@ $9)`;

const LISTS = `allowed_networks as "allowedNetworks", allowed_senders as "allowedSenders",
       allowed_recipients as "allowedRecipients"`;

const COLUMNS = `id, project_id as "projectId", environment, name, hint, permission, domain, ${LISTS},
       created_at as "createdAt", expires_at as "expiresAt", last_used_at as "lastUsedAt"`;

const CREATE = `
insert into api_keys (project_id, id, environment, name, sha256, hint, permission, domain,
                      created_at, expires_at, allowed_networks, allowed_senders, allowed_recipients)
values ($1, $2, $3, $4, decode($5, 'hex'), $6, $7, $8, app_now(), $9, $10, $11, $12)
returning ${COLUMNS}`;

/** Creates a key. `text` is the key itself: show it once, never store it. */
export async function createKey(
  db: Queryable,
  scope: Scope,
  key: NewKey,
): Promise<{ key: ApiKey; text: string }> {
  const text = makeApiKey(scope.environment, randomBytes(API_KEY_RANDOM_BYTES));
  const [row] = await db.query<ApiKey>(CREATE, [
    scope.projectId,
    newId(),
    scope.environment,
    key.name,
    hashApiKey(text),
    keyHintOf(text),
    key.permission,
    key.domain,
    key.expiresAt,
    key.allowedNetworks ?? null,
    key.allowedSenders ?? null,
    key.allowedRecipients ?? null,
  ]);
  if (!row) throw new Error('the new key was not returned');
  return { key: row, text };
}

const FIND_CALLERS = `
select encode(api_keys.sha256, 'hex') as hash, api_keys.project_id as "projectId", api_keys.environment,
       projects.organization_id as "organizationId", api_keys.id as "keyId", api_keys.permission,
       api_keys.domain, api_keys.expires_at as "expiresAt", ${LISTS}
  from api_keys
  join projects on projects.id = api_keys.project_id
 where api_keys.sha256 in (select decode(hash, 'hex') from unnest($1::text[]) hash)
   and api_keys.revoked_at is null and (api_keys.expires_at is null or api_keys.expires_at > app_now())`;

export async function findCallers(
  db: Queryable,
  hashes: readonly string[],
): Promise<Map<string, Caller>> {
  const rows = await db.query<Caller & { hash: string }>(
    { name: 'find_callers', text: FIND_CALLERS },
    [hashes],
  );
  return new Map(rows.map(({ hash, ...caller }) => [hash, caller]));
}

const LIST = `
select ${COLUMNS} from api_keys
 where project_id = $1 and environment = $2 and revoked_at is null
   and ($10::uuid is null or id < $10) and ($11::uuid is null or id > $11)${NOT_BROADER}
 order by case when $11::uuid is null then id end desc, id
 limit $3`;

/**
 * Lists the keys of a project and environment that are not revoked, newest first.
 * @param within hides keys with more access than this, here and in the functions below
 */
export async function listKeys(
  db: Queryable,
  scope: Scope,
  page: Page,
  within = UNLIMITED,
): Promise<PageResult<ApiKey>> {
  const values = [page.limit + 1, ...limitsOf(within), page.after, page.before];
  return cutToPage(
    await db.query<ApiKey>(LIST, [scope.projectId, scope.environment, ...values]),
    page,
  );
}

const FIND = `
select ${COLUMNS} from api_keys
 where project_id = $1 and environment = $2 and id = $3 and revoked_at is null${NOT_BROADER}`;

export async function findKey(
  db: Queryable,
  scope: Scope,
  id: string,
  within = UNLIMITED,
): Promise<ApiKey | null> {
  const values = [scope.projectId, scope.environment, id, ...limitsOf(within)];
  const [row] = await db.query<ApiKey>(FIND, values);
  return row ?? null;
}

const FIND_FOR_UPDATE = `${FIND} for update`;

/** Finds a key and locks its row until the transaction ends, so that two changes of it follow one another. */
export async function lockKey(
  tx: Queryable,
  scope: Scope,
  id: string,
  within = UNLIMITED,
): Promise<ApiKey | null> {
  const values = [scope.projectId, scope.environment, id, ...limitsOf(within)];
  const [row] = await tx.query<ApiKey>(FIND_FOR_UPDATE, values);
  return row ?? null;
}

const UPDATE = `
update api_keys
   set name = coalesce($10, name), permission = coalesce($11, permission),
       domain = case when $12::boolean then $13 else domain end,
       expires_at = case when $14::boolean then $15::timestamptz else expires_at end,
       allowed_networks = case when $16::boolean then $17::text[] else allowed_networks end,
       allowed_senders = case when $18::boolean then $19::text[] else allowed_senders end,
       allowed_recipients = case when $20::boolean then $21::text[] else allowed_recipients end
 where project_id = $1 and environment = $2 and id = $3 and revoked_at is null${NOT_BROADER}
returning ${COLUMNS}`;

export type KeyChange = { [Field in keyof NewKey]?: NewKey[Field] | undefined };

/** Changes a key and returns it; null when there is none with this id. Takes effect like a revocation. */
export async function updateKey(
  db: Queryable,
  scope: Scope,
  change: KeyChange & { id: string },
  within = UNLIMITED,
): Promise<ApiKey | null> {
  const { id, name, permission, domain, expiresAt } = change;
  const { allowedNetworks, allowedSenders, allowedRecipients } = change;
  const clearable = [domain, expiresAt, allowedNetworks, allowedSenders, allowedRecipients];
  const [row] = await db.query<ApiKey>(UPDATE, [
    scope.projectId,
    scope.environment,
    id,
    ...limitsOf(within),
    name ?? null,
    permission ?? null,
    ...clearable.flatMap((value) => [value !== undefined, value ?? null]),
  ]);
  return row ?? null;
}

// The new key has the limits of the old one, so a rotation does not extend its expiry.
const ROTATE = `
with found as materialized (
  select * from api_keys
   where project_id = $1 and environment = $2 and id = $3 and revoked_at is null
     and (expires_at is null or expires_at > app_now())${NOT_BROADER}
     for update
),
ending as (
  update api_keys set expires_at = least(api_keys.expires_at, app_now() + $13 * interval '1 second')
    from found
   where api_keys.project_id = $1 and api_keys.project_id = found.project_id and api_keys.id = found.id
  returning api_keys.expires_at
),
made as (
  insert into api_keys (project_id, id, environment, name, sha256, hint, permission, domain,
                        created_at, expires_at, allowed_networks, allowed_senders, allowed_recipients)
  select project_id, $10, environment, name, decode($11, 'hex'), $12, permission, domain, app_now(),
         expires_at, allowed_networks, allowed_senders, allowed_recipients
    from found
  returning *
)
select made.id, made.project_id as "projectId", made.environment, made.name, made.hint,
       made.permission, made.domain, ${LISTS}, made.created_at as "createdAt",
       made.expires_at as "expiresAt", made.last_used_at as "lastUsedAt",
       ending.expires_at as "previousExpiresAt"
  from made, ending`;

export type RotatedKey = { key: ApiKey; text: string; previousExpiresAt: Date };

/**
 * Creates a key with the name and restrictions of an existing one. The old key expires after `overlapS` or at its own
 * expiry, whichever is earlier. Returns null when there is no key with this id, or it has expired.
 */
export async function rotateKey(
  db: Queryable,
  scope: Scope,
  { id, overlapS }: { id: string; overlapS: number },
  within = UNLIMITED,
): Promise<RotatedKey | null> {
  const text = makeApiKey(scope.environment, randomBytes(API_KEY_RANDOM_BYTES));
  const found = [scope.projectId, scope.environment, id, ...limitsOf(within)];
  const values = [...found, newId(), hashApiKey(text), keyHintOf(text), overlapS];
  const [row] = await db.query<ApiKey & { previousExpiresAt: Date }>(ROTATE, values);
  if (!row) return null;
  const { previousExpiresAt, ...key } = row;
  return { key, text, previousExpiresAt };
}

const CREATE_OF_MEMBER = `
with made as (
  insert into api_keys (project_id, id, environment, name, sha256, hint, permission, created_at,
                        member_id)
  values ($1, $2, $3, $4, $5, 'dashboard', 'full_access', app_now(), $6)
  on conflict (project_id, environment, member_id)
     where member_id is not null and revoked_at is null do nothing
  returning id
)
select id from made
 union all
select id from api_keys
 where project_id = $1 and environment = $3 and member_id = $6 and revoked_at is null`;

/**
 * Returns the key with which a member sends from the dashboard, so that accepting checks and counts it like any
 * other. It has no text: its hash is random.
 */
export async function findOrCreateMemberKey(
  db: Queryable,
  { projectId, environment }: Scope,
  member: { id: string; name: string },
): Promise<string> {
  const hash = randomBytes(32);
  const values = [projectId, newId(), environment, member.name, hash, member.id];
  const [row] = await db.query<{ id: string }>(CREATE_OF_MEMBER, values);
  // Another request created it after this statement began.
  return row?.id ?? findOrCreateMemberKey(db, { projectId, environment }, member);
}

const REVOKE = `
update api_keys set revoked_at = app_now()
 where project_id = $1 and environment = $2 and id = $3 and revoked_at is null${NOT_BROADER}
returning id`;

/**
 * Revokes a key permanently; false when there is none. Emails accepted with it stay. Other processes drop it from
 * their caches within a second (accounts/keys/key-cache.ts).
 */
export async function revokeKey(
  db: Queryable,
  scope: Scope,
  id: string,
  within = UNLIMITED,
): Promise<boolean> {
  const values = [scope.projectId, scope.environment, id, ...limitsOf(within)];
  return (await db.query(REVOKE, values)).length > 0;
}

// Also deletes expired keys of a process that died before it deleted them.
const REMOVE_SHORT_LIVED = `
delete from api_keys
 where project_id = $1 and environment = $2
   and (id = $3 or (name = $4 and expires_at < app_now()
                    and expires_at < created_at + interval '1 hour'))`;

/**
 * Deletes a key that was created for one use, and expired keys of the same name that were valid for less than an
 * hour. Emails accepted with it stay.
 */
export async function removeShortLivedKey(
  db: Queryable,
  scope: Scope,
  { id, name }: Pick<ApiKey, 'id' | 'name'>,
): Promise<void> {
  await db.query(REMOVE_SHORT_LIVED, [scope.projectId, scope.environment, id, name]);
}

/** Limit on ended keys that are kept per project and environment, because statistics and logs show their names. */
const ENDED_KEYS_MAX = 1_000;

const DELETE_ENDED = `
delete from api_keys
 using (select project_id, id,
               row_number() over (partition by project_id, environment order by id desc) as place
          from api_keys
         where revoked_at is not null or expires_at <= app_now()) ended
 where api_keys.project_id = ended.project_id and api_keys.id = ended.id and ended.place > $2
   and ended.place <= $2::int + $1::int
returning 1`;

/**
 * Deletes API keys that were revoked or have expired, beyond the newest ENDED_KEYS_MAX of each project and
 * environment, so that a loop of creating and revoking does not fill the disk. Emails accepted with them stay.
 * @returns the number of deleted keys; `limit` when there are more
 */
export async function deleteEndedKeys(
  db: Queryable,
  limit: number,
  keptMax = ENDED_KEYS_MAX,
): Promise<number> {
  return (await db.query(DELETE_ENDED, [limit, keptMax])).length;
}

function limitsOf({ permission, domain, expiresAt, ...lists }: KeyLimits): unknown[] {
  const { allowedNetworks, allowedSenders, allowedRecipients } = lists;
  return [permission, domain, expiresAt, allowedNetworks, allowedSenders, allowedRecipients];
}

const TOUCH = `
update api_keys set last_used_at = date_trunc('minute', app_now())
  from unnest($1::uuid[], $2::uuid[]) as used(project_id, id)
 where api_keys.project_id = used.project_id and api_keys.id = used.id
   and (api_keys.last_used_at is null or api_keys.last_used_at < date_trunc('minute', app_now()))`;

/** Records the last use of keys, to the minute: at most one write per key and minute. */
export async function recordLastUse(
  db: Queryable,
  keys: readonly { projectId: string; keyId: string }[],
): Promise<void> {
  await db.query(TOUCH, [keys.map((key) => key.projectId), keys.map((key) => key.keyId)]);
}

const HAS_KEYS = 'select exists (select from api_keys) as found';

/**
 * Does the work if no API key was ever created here; otherwise returns null. The work must create a key through
 * `tx`, which commits last and marks the work as complete. After an interruption the next start repeats the work,
 * which finds the rows that it created before.
 */
export async function onFirstStart<Result>(
  db: Database,
  work: (tx: Queryable) => Promise<Result>,
): Promise<Result | null> {
  return db.transaction(async (tx) => {
    await tx.query('select pg_advisory_xact_lock($1)', [ADVISORY_LOCKS.firstStart]);
    const [row] = await tx.query<{ found: boolean }>(HAS_KEYS);
    return row?.found === true ? null : work(tx);
  });
}
