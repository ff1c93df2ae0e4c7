/**
 * The role that workers log in as: no superuser, owner of nothing, member of APP_ROLE. Who gets
 * hold of a worker's connection finds no way back to the owner: `reset role` leads to this role.
 *
 * Name and password come from the secret key, so that all nodes of an installation use the same
 * and nobody keeps it. The server is given only what it verifies a password with (RFC 5803).
 * Where the owner may not make roles, or the server lets this one not in, workers log in as the owner
 * and set APP_ROLE.
 */
import { createHash, createHmac, pbkdf2Sync } from 'node:crypto';
import { type DatabaseAddress, openSession } from './connect.ts';
import { APP_ROLE, DatabaseUnavailable, type Queryable } from './database.ts';
import { addressAs } from './database-address.ts';

type Login = { user: string; password: string };

/** The address for workers, or why they log in as the owner. */
export type LoginOutcome = { address: DatabaseAddress } | { problem: string };

const SCRAM_ITERATIONS = 4_096;
const LOGIN_TIMEOUT_MS = 5_000;

const FIND = `
select d.oid::text as database, exists (select from pg_roles r where r.rolname = $1 || d.oid || $2) as exists
  from pg_database d where d.datname = current_database()`;

/**
 * What the role cannot do for itself: an error of its statements is told to the service, which logs
 * it without the values that the server's own log would quote. Only a superuser may say so.
 */
const KEEP_ERRORS_OUT_OF_THE_LOG = (user: string) => `
do $$ begin
  if (select rolsuper from pg_roles where rolname = current_user) then
    execute 'alter role ${user} set log_min_messages = fatal';
  end if;
end $$`;

/** @param db the owner's connection, under the lock of migrations */
export async function makeLogin(
  db: Queryable,
  address: DatabaseAddress,
  secretKey: string,
): Promise<LoginOutcome> {
  const login = await loginOf(db, secretKey);
  try {
    if (!login.exists) {
      const verifier = scramVerifier(login.password, derived(secretKey, 'salt').subarray(0, 16));
      await db.query(`create role ${login.user} login password '${verifier}'`);
    }
    await db.query(`grant ${APP_ROLE} to ${login.user}`);
    await db.query(KEEP_ERRORS_OUT_OF_THE_LOG(login.user));
  } catch (error) {
    if (error instanceof DatabaseUnavailable) throw error;
    return { problem: `the owner cannot make a role for them (${codeOf(error)})` };
  }
  return tryLogin(address, login);
}

async function loginOf(db: Queryable, secretKey: string): Promise<Login & { exists: boolean }> {
  const [prefix, suffix] = ['posthorn_', `_${derived(secretKey, 'name').toString('hex', 0, 4)}`];
  const [row] = await db.query<{ database: string; exists: boolean }>(FIND, [prefix, suffix]);
  return {
    user: `${prefix}${row?.database}${suffix}`,
    password: derived(secretKey, `password ${row?.database}`).toString('base64url'),
    exists: row?.exists === true,
  };
}

function derived(secretKey: string, what: string): Buffer {
  return createHmac('sha256', secretKey).update(`database login: ${what}`).digest();
}

/** RFC 5803, as PostgreSQL stores it. The password is plain ASCII: nothing to normalise. */
export function scramVerifier(password: string, salt: Buffer): string {
  const salted = pbkdf2Sync(password, salt, SCRAM_ITERATIONS, 32, 'sha256');
  const keyOf = (name: string) => createHmac('sha256', salted).update(name).digest();
  const stored = createHash('sha256').update(keyOf('Client Key')).digest('base64');
  const parts = [stored, keyOf('Server Key').toString('base64')].join(':');
  return `SCRAM-SHA-256$${SCRAM_ITERATIONS}:${salt.toString('base64')}$${parts}`;
}

const CAN_WORK = `
select session_user = $1 and not rolsuper and has_table_privilege('queue', 'insert') as can_work
  from pg_roles where rolname = session_user`;

/** Not let in (28), by a pooler that does not know the role (08P01); no such table in its path (42). */
const REFUSED_SQLSTATE = /^(28|08P01|42)/;

async function tryLogin(owner: DatabaseAddress, { user, password }: Login): Promise<LoginOutcome> {
  const address = addressAs(owner, { user, password });
  const session = { name: 'posthorn log-in', settings: {}, timeoutMs: LOGIN_TIMEOUT_MS };
  try {
    const client = await openSession(address, session);
    try {
      const { rows } = await client.query<{ can_work: boolean }>(CAN_WORK, [user]);
      if (rows[0]?.can_work === true) return { address };
      return { problem: `${user} cannot work where the address leads` };
    } finally {
      await client.end();
    }
  } catch (error) {
    const code = codeOf(error);
    if (REFUSED_SQLSTATE.test(code)) return { problem: `the server refuses ${user} (${code})` };
    const message = `the database cannot be reached: ${(error as Error).message}`;
    throw new DatabaseUnavailable(message, { cause: error, isUndone: true });
  }
}

function codeOf(error: unknown): string {
  return (error as { code?: string }).code ?? 'no code';
}
