/**
 * Secret keys and the values they encrypt: DKIM keys, webhook secrets, second factors. A sealed value is AES-256-GCM
 * with the row's id as AAD, so a value that is moved to another row cannot be opened. It consists of a version, 4
 * octets that identify the key, nonce, tag and text. Values of older versions begin with the nonce.
 *
 * The key is a file of mode 0600 in `<data>/secrets/`, created once, next to the id of this installation.
 * check-store.ts checks before its use that it is the key of the database. During a rotation there are several keys:
 * the first seals and signs, all of them open and verify. Every step of a rotation is idempotent, so an interrupted
 * rotation can continue.
 */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes, randomUUID } from 'node:crypto';
import {
  chmodSync,
  closeSync,
  fchownSync,
  fsyncSync,
  linkSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import type { Queryable } from '../database/database.ts';

const VERSION = 1;
const ID_BYTES = 4;
const HEAD_BYTES = 1 + ID_BYTES;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** The secret key is missing, damaged or not that of the database. The message is for the operator. */
export class SecretKeyProblem extends Error {
  override readonly name = 'SecretKeyProblem';
}

/** A sealed value is damaged, or was sealed with a key that this node does not have. */
export class SecretUnopenable extends Error {
  override readonly name = 'SecretUnopenable';
}

type Key = { id: string; master: string; sealing: Buffer; derived: Map<string, Buffer> };

/** Splits `new,old`: the format of LETTERHAUS_SECRET_KEY and of the file in the data directory. */
export function secretKeysOf(text: string): string[] {
  return text
    .split(',')
    .map((key) => key.trim())
    .filter((key) => key !== '');
}

/** Returns the id of the key that sealed a value; null for a version that does not name it. */
export function sealingKeyOf(sealed: Buffer): string | null {
  if (sealed[0] !== VERSION || sealed.length < HEAD_BYTES) return null;
  return sealed.toString('hex', 1, HEAD_BYTES);
}

/** Returns 8 hex digits that identify a key without revealing it. */
export function secretKeyId(secretKey: string): string {
  return derivedFrom(secretKey, 'key id').toString('hex', 0, ID_BYTES);
}

export class SecretBox {
  #keys: [Key, ...Key[]];

  /** @param secretKeys one key of at least 32 characters, or several with commas between them */
  constructor(secretKeys: string) {
    this.#keys = readKeys(secretKeys);
  }

  use(secretKeys: string): void {
    this.#keys = readKeys(secretKeys);
  }

  /** Ids of the keys. The first one seals. */
  get keyIds(): string[] {
    return this.#keys.map(({ id }) => id);
  }

  /** Returns a 32-byte key for one purpose, derived from the first secret key. */
  derive(purpose: string): Buffer {
    return derivedOnce(this.#keys[0], purpose);
  }

  /** Derives a key for one purpose from each secret key, to verify signatures of any of them. */
  deriveAll(purpose: string): Buffer[] {
    return this.#keys.map((key) => derivedOnce(key, purpose));
  }

  get head(): Buffer {
    return headOf(this.#keys[0]);
  }

  seal(plain: string, rowId: string): Buffer {
    const nonce = randomBytes(NONCE_BYTES);
    const [{ sealing }] = this.#keys;
    const cipher = createCipheriv('aes-256-gcm', sealing, nonce).setAAD(Buffer.from(rowId));
    const sealed = Buffer.concat([cipher.update(plain, 'utf8'), cipher.final()]);
    return Buffer.concat([this.head, nonce, cipher.getAuthTag(), sealed]);
  }

  /** @throws SecretUnopenable when none of the keys has sealed it, or the value belongs to another row */
  open(sealed: Buffer, rowId: string): string {
    const head = sealed.subarray(0, HEAD_BYTES);
    const named = this.#keys.find((key) => headOf(key).equals(head));
    const opened = named && openWith(named, sealed.subarray(HEAD_BYTES), rowId);
    if (opened != null) return opened;
    // A value of an older version does not name its key, and its nonce may begin with any bytes.
    for (const key of this.#keys) {
      const text = openWith(key, sealed, rowId);
      if (text !== null) return text;
    }
    throw new SecretUnopenable(
      'no secret key decrypts a stored secret: it is damaged, or another key has sealed it',
    );
  }

  opens(sealed: Buffer, rowId: string): boolean {
    try {
      return this.open(sealed, rowId) !== '';
    } catch {
      return false;
    }
  }
}

function readKeys(text: string): [Key, ...Key[]] {
  const [first, ...others] = secretKeysOf(text).map(newKey);
  if (first === undefined) throw new Error('there is no secret key');
  return [first, ...others];
}

function newKey(master: string): Key {
  const sealing = derivedFrom(master, 'encryption at rest');
  return { id: secretKeyId(master), master, sealing, derived: new Map() };
}

function headOf({ id }: Key): Buffer {
  return Buffer.concat([Buffer.from([VERSION]), Buffer.from(id, 'hex')]);
}

function derivedOnce({ master, derived }: Key, purpose: string): Buffer {
  const known = derived.get(purpose);
  if (known !== undefined) return known;
  const made = derivedFrom(master, purpose);
  derived.set(purpose, made);
  return made;
}

function derivedFrom(master: string, purpose: string): Buffer {
  return Buffer.from(hkdfSync('sha256', master, 'letterhaus', purpose, 32));
}

function openWith({ sealing }: Key, sealed: Buffer, rowId: string): string | null {
  const tagEnd = NONCE_BYTES + TAG_BYTES;
  if (sealed.length < tagEnd) return null;
  const decipher = createDecipheriv('aes-256-gcm', sealing, sealed.subarray(0, NONCE_BYTES))
    .setAAD(Buffer.from(rowId))
    .setAuthTag(sealed.subarray(NONCE_BYTES, tagEnd));
  try {
    const plain = decipher.update(sealed.subarray(tagEnd));
    return Buffer.concat([plain, decipher.final()]).toString('utf8');
  } catch {
    return null;
  }
}

export function secretKeyFile(dataDir: string): string {
  return join(dataDir, 'secrets', 'secret-key');
}

/**
 * Creates the key of the data directory.
 * @param secretKey default: a new one
 * @returns it, or the key that another process has created meanwhile
 */
export function makeSecretKey(
  dataDir: string,
  secretKey = randomBytes(32).toString('base64url'),
): string {
  create(dataDir, 'secret-key', secretKey);
  return readSecretKey(dataDir)!;
}

/** Renames a key that is damaged or not that of the database. @returns its new path; null when there is none */
export function putSecretKeyAside(dataDir: string, nowMs: number): string | null {
  const file = secretKeyFile(dataDir);
  const time = new Date(nowMs).toISOString().replaceAll(/[-:.]/g, '');
  const aside = `${file}.before-${time}`;
  try {
    renameSync(file, aside);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw error;
  }
  syncFolder(join(dataDir, 'secrets'));
  return aside;
}

export function removeSecretKey(dataDir: string, secretKey: string): void {
  if (readSecretKey(dataDir) === secretKey) rmSync(secretKeyFile(dataDir));
}

/**
 * Replaces the key of the data directory atomically. A running service reads it within seconds (secrets/key-watch.ts).
 */
export function replaceSecretKey(dataDir: string, secretKeys: readonly string[]): void {
  const file = secretKeyFile(dataDir);
  const { uid, gid } = statSync(file);
  const fresh = `${file}.new`;
  rmSync(fresh, { force: true });
  const descriptor = openSync(fresh, 'wx', 0o600);
  try {
    // Root may call this for a service that runs as another user.
    if (process.getuid?.() === 0) fchownSync(descriptor, uid, gid);
    writeSync(descriptor, `${secretKeys.join(',')}\n`);
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  renameSync(fresh, file);
  syncFolder(join(dataDir, 'secrets'));
}

export function ownSecretKey({
  dataDir,
  secretKey,
}: {
  dataDir: string;
  secretKey: string | null;
}): string {
  const present = secretKey ?? readSecretKey(dataDir);
  if (present !== null) return present;
  throw new SecretKeyProblem(
    `There is no secret key in ${dataDir}. Run this on the machine of the service, or set LETTERHAUS_SECRET_KEY.`,
  );
}

/**
 * Returns the key of the data directory; null when there is none. Creates none.
 * @throws SecretKeyProblem when the file cannot be read, or is empty
 */
export function readSecretKey(dataDir: string): string | null {
  const file = secretKeyFile(dataDir);
  const text = readText(file);
  if (text === null || secretKeysOf(text).length > 0) return text;
  throw new SecretKeyProblem(
    `The file of the secret key, ${file}, is empty. Copy the file back from a backup or from the data directory of ` +
      'another node, or delete it if this database is new.',
  );
}

/**
 * Stores the key of a restored backup in a data directory that has none. The key is on disk before the rows that it
 * opens are visible.
 */
export function storeSecretKey(dataDir: string, secretKeys: string): void {
  if (readSecretKey(dataDir) === null) create(dataDir, 'secret-key', secretKeys);
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Returns the id of this installation in the nodes table, by which it releases the claims of its dead workers. */
export function instanceOf(dataDir: string): string {
  const file = join(dataDir, 'secrets', 'instance');
  const present = readText(file);
  if (present !== null && UUID.test(present)) return present;
  // The file is damaged. Claims under the lost id expire like those of another machine.
  if (present !== null) rmSync(file);
  create(dataDir, 'instance', randomUUID());
  return readText(file)!;
}

/** Returns the id of this installation; null when it has none. Creates none. */
export function readInstance(dataDir: string): string | null {
  return readText(join(dataDir, 'secrets', 'instance'));
}

function readText(file: string): string | null {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT') return null;
    throw new SecretKeyProblem(
      `${file} cannot be read (${code ?? message}); it has to be a file that the user of the service may read.`,
    );
  }
}

/** Creates a file completely or not at all, even if the process dies. An existing file does not change. */
function create(dataDir: string, name: string, text: string): void {
  const folder = join(dataDir, 'secrets');
  const fresh = join(folder, `${name}.${randomUUID()}`);
  const descriptor = openSync(fresh, 'wx', 0o600);
  try {
    chmodSync(fresh, 0o600);
    writeSync(descriptor, `${text}\n`);
    // Losing the key would lose every DKIM key, so it is on disk before it encrypts anything.
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  try {
    linkSync(fresh, join(folder, name));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  } finally {
    rmSync(fresh, { force: true });
  }
  syncFolder(folder);
}

function syncFolder(folder: string): void {
  const descriptor = openSync(folder, 'r');
  fsyncSync(descriptor);
  closeSync(descriptor);
}

const NOTE = `
with known as (
  insert into known_secret_keys (instance, keys, noted_at) values ($1, $2, app_now())
  on conflict (instance) do update set keys = excluded.keys, noted_at = excluded.noted_at
)
insert into secret_keys (id, current_since) values (($2::text[])[1], app_now())
on conflict do nothing`;

export async function noteSecretKeys(
  db: Queryable,
  { instance, keyIds }: { instance: string; keyIds: readonly string[] },
): Promise<void> {
  await db.query(NOTE, [instance, keyIds]);
}

/** Records the key that seals and signs, even without a running service. */
export async function noteFirstKey(db: Queryable, id: string): Promise<void> {
  await db.query(
    'insert into secret_keys (id, current_since) values ($1, app_now()) on conflict do nothing',
    [id],
  );
}

const NODES = `
select n.instance, min(n.host) as host, sum(n.beat)::int8 as heartbeats, k.keys
  from nodes n left join known_secret_keys k on k.instance = n.instance
 group by n.instance, k.keys`;

/** `keys` is null for versions without key rotation. */
export type KeyHolder = {
  instance: string;
  host: string;
  heartbeats: number;
  keys: string[] | null;
};

export function listKeyHolders(db: Queryable): Promise<KeyHolder[]> {
  return db.query<KeyHolder>(NODES);
}

/** Returns since when each key has been the first one. Keys that never were are absent. */
export async function keysInUse(db: Queryable): Promise<Map<string, Date>> {
  const rows = await db.query<{ id: string; since: Date }>(
    'select id, current_since as since from secret_keys',
  );
  return new Map(rows.map(({ id, since }) => [id, since]));
}

const SEALED = [
  ['domains', 'rsa_private_key', 'project_id'],
  ['domains', 'ed25519_private_key', 'project_id'],
  ['domains', 'next_rsa_private_key', 'project_id'],
  ['domains', 'next_ed25519_private_key', 'project_id'],
  ['domains', 'previous_rsa_private_key', 'project_id'],
  ['domains', 'previous_ed25519_private_key', 'project_id'],
  ['webhook_endpoints', 'secret', 'project_id'],
  ['webhook_endpoints', 'previous_secret', 'project_id'],
  ['webhook_endpoints', 'earlier_secret', 'project_id'],
  ['members', 'totp_secret', 'organization_id'],
] as const;
type Sealed = (typeof SEALED)[number];

// Reads in the order of ids across batches, so that values that no key opens are skipped.
const stale = ([table, column, owner]: Sealed) => `
select ${owner} as "ownerId", id, ${column} as sealed from ${table}
 where (${owner}, id) > ($1, $2) and substring(${column} from 1 for length($3::bytea)) <> $3::bytea
 order by ${owner}, id limit $4`;

// Updates only unchanged values, because a webhook's secret may have been replaced meanwhile.
const replace = ([table, column, owner]: Sealed) => `
update ${table} t set ${column} = n.sealed
  from unnest($1::uuid[], $2::uuid[], $3::bytea[], $4::bytea[]) as n(owner_id, id, before, sealed)
 where t.${owner} = n.owner_id and t.id = n.id and t.${column} = n.before
returning 1`;

type StaleRow = { ownerId: string; id: string; sealed: Buffer };

const FIRST_UUID = '00000000-0000-0000-0000-000000000000';
const BATCH = 100;

export async function sealAnew(
  db: Queryable,
  secrets: SecretBox,
  batch = BATCH,
): Promise<{ sealed: number; unreadable: number }> {
  const sum = { sealed: 0, unreadable: 0 };
  for (const where of SEALED) {
    let after: Pick<StaleRow, 'ownerId' | 'id'> | undefined = {
      ownerId: FIRST_UUID,
      id: FIRST_UUID,
    };
    while (after !== undefined) {
      const values: unknown[] = [after.ownerId, after.id, secrets.head, batch];
      const rows: StaleRow[] = await db.query<StaleRow>(stale(where), values);
      const readable = rows.flatMap((row) => sealedAnew(row, secrets));
      sum.unreadable += rows.length - readable.length;
      if (readable.length > 0) {
        const columns = [
          readable.map(({ ownerId }) => ownerId),
          readable.map(({ id }) => id),
          readable.map(({ sealed }) => sealed),
          readable.map(({ anew }) => anew),
        ];
        sum.sealed += (await db.query(replace(where), columns)).length;
      }
      after = rows.length < batch ? undefined : rows.at(-1);
    }
  }
  return sum;
}

function sealedAnew(row: StaleRow, secrets: SecretBox): (StaleRow & { anew: Buffer })[] {
  try {
    return [{ ...row, anew: secrets.seal(secrets.open(row.sealed, row.id), row.id) }];
  } catch {
    return [];
  }
}
