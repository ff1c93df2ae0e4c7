/**
 * The roles of the service. APP_ROLE may only read and write rows. Workers log in as the login role, a member of
 * APP_ROLE that is no superuser and owns nothing. So a worker's connection cannot gain the owner's rights: `reset role`
 * returns to the login role.
 *
 * Name and password of the login role are derived from the secret key. All nodes of an installation compute the same
 * values, and none stores them. The server gets only a verifier of the password (RFC 5803). If the owner may not create
 * roles, or the server refuses the login, workers log in as the owner and set APP_ROLE.
 */
import { createHash, createHmac, pbkdf2Sync } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { DatabaseAddress } from './connect.ts';
import { addressForUser } from './address.ts';
import { APP_ROLE, DatabaseUnavailable, type Queryable } from '../database.ts';
import { openSession, type AbortOptions } from './watched-session.ts';

const MAKE_APP_ROLE = `
do $$ begin
  if not exists (select from pg_roles where rolname = '${APP_ROLE}') then
    create role ${APP_ROLE} nologin;
  end if;
end $$;
grant ${APP_ROLE} to current_user;
do $$ begin
  execute format('grant usage on schema %I to ${APP_ROLE}', current_schema());
  execute format('grant select, insert, update, delete on all tables in schema %I to ${APP_ROLE}',
                 current_schema());
end $$;`;

/** A concurrent migration created or granted the role: 23505, 42710, "tuple concurrently updated". */
const CLASH_SQLSTATE = /^(23505|42710|XX000)$/;
const CLASH_TRIES = 20;
const CLASH_PAUSE_MS = 50;

/**
 * Creates APP_ROLE, grants it the rows of all tables, and sets it. Roles belong to the whole server, but the migration
 * lock to one database. So a migration of another database may do the same concurrently.
 * @returns null if the server does not permit it
 */
export async function makeAppRole(db: Queryable): Promise<string | null> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await db.query(MAKE_APP_ROLE);
      await db.query(`set role ${APP_ROLE}`);
      return APP_ROLE;
    } catch (error) {
      // A lost connection is no refusal. Returning null here would let the service work in the owner's role.
      if (error instanceof DatabaseUnavailable) throw error;
      const isClash = CLASH_SQLSTATE.test((error as { code?: string }).code ?? '');
      if (!isClash || attempt === CLASH_TRIES) return null;
      await pause(CLASH_PAUSE_MS);
    }
  }
}

type Login = { user: string; password: string };

export type LoginResult = { address: DatabaseAddress } | { problem: string };

const SCRAM_ITERATIONS = 4_096;
const LOGIN_TIMEOUT_MS = 5_000;

const FIND_LOGIN_ROLE = `
select pg_database.oid::text as database,
       exists (select from pg_roles where rolname = $1 || pg_database.oid || $2) as exists
  from pg_database where datname = current_database()`;

/**
 * Keeps errors of statements out of the server's log, where they would quote values. The service logs them without
 * values. Only a superuser may set this for the role.
 */
const KEEP_ERRORS_OUT_OF_THE_LOG = (user: string) => `
do $$ begin
  if (select rolsuper from pg_roles where rolname = current_user) then
    execute 'alter role ${user} set log_min_messages = fatal';
  end if;
end $$`;

/** @param db the owner's connection, under the migration lock */
export async function makeLogin(
  db: Queryable,
  address: DatabaseAddress,
  { secretKey, ...abortOptions }: { secretKey: string } & AbortOptions,
): Promise<LoginResult> {
  const login = await deriveLogin(db, secretKey);
  try {
    if (!login.exists) {
      const verifier = scramVerifier(
        login.password,
        deriveBytes(secretKey, 'salt').subarray(0, 16),
      );
      await db.query(`create role ${login.user} login password '${verifier}'`);
    }
    await db.query(`grant ${APP_ROLE} to ${login.user}`);
    await db.query(KEEP_ERRORS_OUT_OF_THE_LOG(login.user));
  } catch (error) {
    if (error instanceof DatabaseUnavailable) throw error;
    return { problem: `the owner cannot make a role for them (${sqlStateText(error)})` };
  }
  return tryLogin(address, login, abortOptions);
}

async function deriveLogin(db: Queryable, secretKey: string): Promise<Login & { exists: boolean }> {
  const [prefix, suffix] = [
    'letterhaus_',
    `_${deriveBytes(secretKey, 'name').toString('hex', 0, 4)}`,
  ];
  const [row] = await db.query<{ database: string; exists: boolean }>(FIND_LOGIN_ROLE, [
    prefix,
    suffix,
  ]);
  return {
    user: `${prefix}${row?.database}${suffix}`,
    password: deriveBytes(secretKey, `password ${row?.database}`).toString('base64url'),
    exists: row?.exists === true,
  };
}

function deriveBytes(secretKey: string, purpose: string): Buffer {
  return createHmac('sha256', secretKey).update(`database login: ${purpose}`).digest();
}

/** Returns a SCRAM verifier (RFC 5803) as PostgreSQL stores it. The password is ASCII, so it needs no normalisation. */
export function scramVerifier(password: string, salt: Buffer): string {
  const salted = pbkdf2Sync(password, salt, SCRAM_ITERATIONS, 32, 'sha256');
  const keyOf = (name: string) => createHmac('sha256', salted).update(name).digest();
  const stored = createHash('sha256').update(keyOf('Client Key')).digest('base64');
  const parts = [stored, keyOf('Server Key').toString('base64')].join(':');
  return `SCRAM-SHA-256$${SCRAM_ITERATIONS}:${salt.toString('base64')}$${parts}`;
}

const CAN_USE_DATABASE = `
select session_user = $1 and not rolsuper and has_table_privilege('queue', 'insert') as can_work
  from pg_roles where rolname = session_user`;

/** Log-in refused (28), also by a pooler without the role (08P01), or no table in the role's search path (42). */
const REFUSED_SQLSTATE = /^(28|08P01|42)/;

async function tryLogin(
  owner: DatabaseAddress,
  { user, password }: Login,
  abortOptions: AbortOptions,
): Promise<LoginResult> {
  const address = addressForUser(owner, { user, password });
  const session = { name: 'letterhaus log-in', settings: {}, timeoutMs: LOGIN_TIMEOUT_MS };
  try {
    const client = await openSession(address, { ...session, ...abortOptions });
    try {
      const { rows } = await client.query<{ can_work: boolean }>(CAN_USE_DATABASE, [user]);
      if (rows[0]?.can_work === true) return { address };
      return { problem: `${user} cannot work in the database of this address` };
    } finally {
      await client.end();
    }
  } catch (error) {
    const code = sqlStateText(error);
    if (REFUSED_SQLSTATE.test(code)) return { problem: `the server refuses ${user} (${code})` };
    const message = `the database cannot be reached: ${(error as Error).message}`;
    throw new DatabaseUnavailable(message, { cause: error, isUndone: true });
  }
}

function sqlStateText(error: unknown): string {
  return (error as { code?: string }).code ?? 'no code';
}
