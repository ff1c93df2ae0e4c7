/**
 * Certificates that the service orders, their orders, and the answers to the authority. All nodes use these rows.
 *
 * An attempt begins by moving the time of the next one (`claimOrder`). So only one node orders a certificate, and a
 * process that dies in the middle does not try again at once: authorities permit few failures an hour.
 */
import type { Queryable } from '../database/database.ts';

const ADD = `
insert into acme_certificates (name, id, directory_url, due_at) values ($1, $2, $3, app_now())
on conflict (name) do update
   set directory_url = excluded.directory_url, due_at = app_now(), failures = 0, problem = null,
       remedy = null, order_url = null, order_key = null, renewal_look_at = null
 where acme_certificates.directory_url <> excluded.directory_url`;

/** Adds a name, which is then due. A name that another authority has issued a certificate for is due again. */
export async function addName(
  db: Queryable,
  { name, id, directoryUrl }: { name: string; id: string; directoryUrl: string },
): Promise<void> {
  await db.query(ADD, [name, id, directoryUrl]);
}

const LIST = `
select name, id, chain, private_key as "privateKey", failures, problem, remedy,
       due_at <= app_now() as "isDue",
       chain is not null and coalesce(renewal_look_at <= app_now(), true) as "isLookDue"
  from acme_certificates where name = any($1::text[])`;

export type StoredCertificate = {
  name: string;
  id: string;
  chain: string | null;
  privateKey: Buffer | null;
  /** Attempts since the last certificate. */
  failures: number;
  problem: string | null;
  remedy: string | null;
  isDue: boolean;
  /** The authority should be asked about the renewal. */
  isLookDue: boolean;
};

export function listCertificates(
  db: Queryable,
  names: readonly string[],
): Promise<StoredCertificate[]> {
  return db.query<StoredCertificate>(LIST, [names]);
}

const CLAIM = `
update acme_certificates
   set failures = failures + 1,
       due_at = app_now()
              + ($2::int8[])[least(failures + 1, cardinality($2::int8[]))] * interval '1 millisecond'
 where name = $1 and due_at <= app_now()
returning id, failures, chain, order_url as "orderUrl", order_key as "orderKey"`;

export type ClaimedOrder = {
  id: string;
  failures: number;
  /** The certificate that is renewed, or null when none was issued yet. */
  chain: string | null;
  orderUrl: string | null;
  orderKey: Buffer | null;
};

/** Begins an attempt. @param waitsMs until the next one, by the number of failures @returns null: not due */
export async function claimOrder(
  db: Queryable,
  { name, waitsMs }: { name: string; waitsMs: readonly number[] },
): Promise<ClaimedOrder | null> {
  const [row] = await db.query<ClaimedOrder>(CLAIM, [name, waitsMs]);
  return row ?? null;
}

/** The attempt that a statement is for: a later one has another number of failures. */
export type Attempt = { name: string; failures: number };

const NOTE_ORDER = `
update acme_certificates set order_url = $3, order_key = $4 where name = $1 and failures = $2`;

export async function noteOrder(
  db: Queryable,
  { name, failures }: Attempt,
  { orderUrl, orderKey }: { orderUrl: string; orderKey: Buffer },
): Promise<void> {
  await db.query(NOTE_ORDER, [name, failures, orderUrl, orderKey]);
}

const COMPLETE = `
update acme_certificates
   set chain = $3, private_key = $4, issued_at = app_now(), failures = 0, problem = null,
       remedy = null, order_url = null, order_key = null, renewal_look_at = null,
       due_at = greatest($5::timestamptz, app_now() + $6 * interval '1 millisecond')
 where name = $1 and failures = $2`;

/** @param issued `renewAt`: when the next order is due; `restMs`: and not before that */
export async function completeOrder(
  db: Queryable,
  { name, failures }: Attempt,
  issued: { chain: string; privateKey: Buffer; renewAt: Date; restMs: number },
): Promise<void> {
  const { chain, privateKey, renewAt, restMs } = issued;
  await db.query(COMPLETE, [name, failures, chain, privateKey, renewAt, restMs]);
}

const CLAIM_RENEWAL_LOOK = `
update acme_certificates
   set renewal_look_at = app_now() + $2 * interval '1 millisecond'
 where name = $1 and failures = 0 and due_at > app_now() and chain is not null
   and coalesce(renewal_look_at <= app_now(), true)
returning chain`;

/** @param nextMs until the next look @returns the certificate, or null when it is not due or another node looks */
export async function claimRenewalLook(
  db: Queryable,
  { name, nextMs }: { name: string; nextMs: number },
): Promise<string | null> {
  const [row] = await db.query<{ chain: string }>(CLAIM_RENEWAL_LOOK, [name, nextMs]);
  return row?.chain ?? null;
}

const NOTE_RENEWAL = `
update acme_certificates
   set due_at = greatest($3::timestamptz, issued_at + $4 * interval '1 millisecond'),
       renewal_look_at = app_now() + $5 * interval '1 millisecond'
 where name = $1 and chain = $2 and failures = 0`;

/** Stores when this certificate is due. A newer one, and an attempt in progress, keep their times. */
export async function noteRenewal(
  db: Queryable,
  { name, chain }: { name: string; chain: string },
  { renewAt, restMs, nextMs }: { renewAt: Date; restMs: number; nextMs: number },
): Promise<void> {
  await db.query(NOTE_RENEWAL, [name, chain, renewAt, restMs, nextMs]);
}

const FAIL = `
update acme_certificates
   set problem = $3, remedy = $4, due_at = app_now() + $5 * interval '1 millisecond'
 where name = $1 and failures = $2`;

export async function failOrder(
  db: Queryable,
  { name, failures }: Attempt,
  { problem, remedy, waitMs }: { problem: string; remedy: string; waitMs: number },
): Promise<void> {
  await db.query(FAIL, [name, failures, problem, remedy, waitMs]);
}

const RETURN = `
update acme_certificates set due_at = app_now(), failures = failures - 1
 where name = $1 and failures = $2`;

/** Gives an attempt back that asked the authority for nothing that counts. */
export async function returnOrder(db: Queryable, { name, failures }: Attempt): Promise<void> {
  await db.query(RETURN, [name, failures]);
}

const ACCOUNT = `
with added as (
  insert into acme_accounts (directory_url, id, private_key) values ($1, $2, $3)
  on conflict do nothing
  returning id, private_key
)
select id, private_key as "privateKey" from added
union all
select id, private_key from acme_accounts where directory_url = $1
limit 1`;

export type StoredAccount = { id: string; privateKey: Buffer };

/** Stores the key of a new account, or returns the one that is stored. */
export async function findOrAddAccount(
  db: Queryable,
  directoryUrl: string,
  { id, privateKey }: StoredAccount,
): Promise<StoredAccount> {
  const [row] = await db.query<StoredAccount>(ACCOUNT, [directoryUrl, id, privateKey]);
  return row ?? findOrAddAccount(db, directoryUrl, { id, privateKey }); // added in between
}

const REPLACE_ACCOUNT = `
update acme_accounts set id = $2, private_key = $3 where directory_url = $1`;

export async function replaceAccount(
  db: Queryable,
  directoryUrl: string,
  { id, privateKey }: StoredAccount,
): Promise<void> {
  await db.query(REPLACE_ACCOUNT, [directoryUrl, id, privateKey]);
}

const ADD_CHALLENGE = `
with old as (delete from acme_challenges where created_at < app_now() - interval '1 day')
insert into acme_challenges (token, key_authorization, created_at) values ($1, $2, app_now())
on conflict (token) do update set key_authorization = excluded.key_authorization`;

export type Challenge = { token: string; keyAuthorization: string };

export async function addChallenge(
  db: Queryable,
  { token, keyAuthorization }: Challenge,
): Promise<void> {
  await db.query(ADD_CHALLENGE, [token, keyAuthorization]);
}

export function listChallenges(db: Queryable): Promise<Challenge[]> {
  return db.query<Challenge>(
    'select token, key_authorization as "keyAuthorization" from acme_challenges limit 1000',
  );
}

export async function removeChallenges(db: Queryable, tokens: readonly string[]): Promise<void> {
  await db.query('delete from acme_challenges where token = any($1::text[])', [tokens]);
}
