/**
 * Checks that the secret key of this node is the key of the database. Every start does this first, and every command
 * that seals or opens. With another key, the mail of all domains would wait unsigned, and new secrets would be lost
 * with that key.
 *
 * `installation.secret_check` is a value that the key has sealed, so one read suffices. A database from an older
 * version has none. There the key has to open most of a sample of sealed rows, which also replaces a damaged check. A
 * key is created only for a database without sealed values. When two nodes begin on an empty database at once, the
 * first to write the check wins. The other one removes the key that it created and does not start.
 */
import type { Queryable } from '../database/database.ts';
import { secretKeyId, parseSecretKeys } from './secret-keys.ts';
import { SecretBox, sealingKeyIdOf } from './secret-box.ts';
import {
  createSecretKeyFile,
  readSecretKey,
  removeSecretKeyFile,
  secretKeyFile,
  SecretKeyProblem,
} from './secret-key-file.ts';

export type SecretKeyLocation = {
  dataDir: string;
  /** LETTERHAUS_SECRET_KEY, or null when the key is in the data directory. */
  configured: string | null;
};

const CHECK_ROW = 'installation';
const CHECK_TEXT = 'sealed by the secret key of this installation';

type KeyCheck =
  /** Null `check`: there is none yet, or it is damaged. */
  | { kind: 'opens'; check: Buffer | null }
  | { kind: 'nothing_sealed' }
  /** `sealedBy`: id of the key that sealed; null when the values do not name it. */
  | { kind: 'foreign'; sealedBy: string | null };

/**
 * Checks the key before anything changes, even the schema. Creates nothing.
 * @throws SecretKeyProblem
 */
export async function checkSecretKey(db: Queryable, location: SecretKeyLocation): Promise<void> {
  const key = readConfiguredKey(location);
  requireMatchingKey(await compareKey(db, createBox(key)), key, location);
}

/**
 * Returns the key to use with a migrated database. Creates it if nothing is sealed yet.
 * @throws SecretKeyProblem
 */
export async function readOrCreateSecretKey(
  db: Queryable,
  location: SecretKeyLocation,
): Promise<string> {
  const key = readConfiguredKey(location);
  const found = await compareKey(db, createBox(key));
  requireMatchingKey(found, key, location);
  const usedKey = key ?? createSecretKeyFile(location.dataDir);
  if (found.kind === 'opens' && found.check !== null) return usedKey;
  if (await writeCheck(db, new SecretBox(usedKey))) return usedKey;
  // Another node wrote its check first.
  if (key === null) removeSecretKeyFile(location.dataDir, usedKey);
  requireMatchingKey(await compareKey(db, createBox(key)), key, location);
  return usedKey;
}

/** Returns the key that seals and signs. During a rotation there are several keys. */
export function firstSecretKey(secretKeys: string): string {
  return parseSecretKeys(secretKeys)[0] ?? secretKeys;
}

/**
 * Records a key as the key of the database, whichever key sealed its values: for `letterhaus secrets start-over`. The
 * caller has the migration lock, under which starts check their key.
 */
export async function replaceCheck(db: Queryable, secrets: SecretBox): Promise<void> {
  const sealed = secrets.seal(CHECK_TEXT, CHECK_ROW);
  await db.query('update installation set secret_check = $1', [sealed]);
}

/** Checks the keys of a running service. Returns why they are not the keys of the database; null when they are. */
export async function foreignKeyProblem(
  db: Queryable,
  { dataDir, configured }: SecretKeyLocation,
  secrets: SecretBox,
): Promise<string | null> {
  const found = await compareKey(db, secrets);
  if (found.kind !== 'foreign') return null;
  const where = configured === null ? secretKeyFile(dataDir) : 'LETTERHAUS_SECRET_KEY';
  return (
    `The secret key of this node (${secrets.keyIds.join(', ')}) does not open the secrets in the database` +
    `${sealedByText(found)} any more, so this node stops. Put the current key into ${where} and start it again.`
  );
}

function readConfiguredKey({ dataDir, configured }: SecretKeyLocation): string | null {
  return configured ?? readSecretKey(dataDir);
}

function createBox(secretKey: string | null): SecretBox | null {
  return secretKey === null ? null : new SecretBox(secretKey);
}

async function compareKey(db: Queryable, secrets: SecretBox | null): Promise<KeyCheck> {
  const columns = await sealedColumns(db);
  const check = columns.has('installation') ? await readCheck(db) : null;
  if (check !== null && secrets?.opens(check, CHECK_ROW)) return { kind: 'opens', check };
  const sample: Sealed[] = [];
  for (const table of SAMPLED_TABLES) {
    if (columns.has(table.name)) sample.push(...(await db.query<Sealed>(table.sample)));
  }
  if (check === null && sample.length === 0) return { kind: 'nothing_sealed' };
  const opened = sample.filter(({ id, sealed }) => secrets?.opens(sealed, id)).length;
  const opensMost = check === null ? opened * 2 >= sample.length : opened * 2 > sample.length;
  if (opened > 0 && opensMost) return { kind: 'opens', check: null };
  return { kind: 'foreign', sealedBy: check ? sealingKeyIdOf(check) : mostFrequentKey(sample) };
}

type Sealed = { id: string; sealed: Buffer };

/** Rows sampled from each end of a table, in the order of the primary key. */
const SAMPLE_ROWS = 50;

const DOMAINS = `
(select id, rsa_private_key as sealed from domains order by project_id, id limit ${SAMPLE_ROWS})
union
(select id, rsa_private_key from domains order by project_id desc, id desc limit ${SAMPLE_ROWS})`;

const WEBHOOKS = `
(select id, secret as sealed from webhook_endpoints order by project_id, id limit ${SAMPLE_ROWS})
union
(select id, secret from webhook_endpoints order by project_id desc, id desc limit ${SAMPLE_ROWS})`;

const MEMBERS = `
select id, totp_secret as sealed from members where totp_secret is not null limit ${SAMPLE_ROWS}`;

const SAMPLED_TABLES = [
  { name: 'domains', column: 'rsa_private_key', sample: DOMAINS },
  { name: 'webhook_endpoints', column: 'secret', sample: WEBHOOKS },
  { name: 'members', column: 'totp_secret', sample: MEMBERS },
] as const;

const COLUMNS = `
select wanted.name
  from unnest($1::text[], $2::text[]) as wanted(name, "column")
  join pg_attribute on attrelid = to_regclass(wanted.name) and attname = wanted."column"
 where not attisdropped`;

/**
 * Returns the tables that have their sealed column in the current schema, which may be empty or older than this code.
 */
async function sealedColumns(db: Queryable): Promise<Set<string>> {
  const tables = [{ name: 'installation', column: 'secret_check' }, ...SAMPLED_TABLES];
  const rows = await db.query<{ name: string }>(COLUMNS, [
    tables.map(({ name }) => name),
    tables.map(({ column }) => column),
  ]);
  return new Set(rows.map(({ name }) => name));
}

export async function readCheck(db: Queryable): Promise<Buffer | null> {
  const [row] = await db.query<{ check: Buffer | null }>(
    'select secret_check as check from installation',
  );
  return row?.check ?? null;
}

// Replaces only the check that was read before ($2), which is damaged or missing.
const WRITE_CHECK = `
update installation set secret_check = $1 where secret_check is not distinct from $2
returning 1`;

/** Stores the check. Returns false when another node has written one meanwhile. */
async function writeCheck(db: Queryable, secrets: SecretBox): Promise<boolean> {
  const previousCheck = await readCheck(db);
  if (previousCheck !== null && secrets.opens(previousCheck, CHECK_ROW)) return true;
  return (
    (await db.query(WRITE_CHECK, [secrets.seal(CHECK_TEXT, CHECK_ROW), previousCheck])).length > 0
  );
}

/**
 * Seals the check with the first key, during a rotation.
 * @throws SecretKeyProblem when none of the keys opens it
 */
export async function resealCheck(db: Queryable, secrets: SecretBox): Promise<void> {
  const previousCheck = await readCheck(db);
  if (previousCheck !== null && !secrets.opens(previousCheck, CHECK_ROW)) {
    throw new SecretKeyProblem('The secret keys do not open the secrets in the database.');
  }
  if (previousCheck !== null && sealingKeyIdOf(previousCheck) === secrets.keyIds[0]) return;
  await db.query(WRITE_CHECK, [secrets.seal(CHECK_TEXT, CHECK_ROW), previousCheck]);
}

function mostFrequentKey(sample: readonly Sealed[]): string | null {
  const ids = sample.flatMap(({ sealed }) => sealingKeyIdOf(sealed) ?? []);
  const counts = Object.entries(Object.groupBy(ids, (id) => id));
  counts.sort(([, a = []], [, b = []]) => b.length - a.length);
  return counts[0]?.[0] ?? null;
}

/** The limit that config/config.ts sets for LETTERHAUS_SECRET_KEY. */
const KEY_CHARACTERS_MIN = 32;

function requireMatchingKey(
  found: KeyCheck,
  key: string | null,
  location: SecretKeyLocation,
): asserts found is Exclude<KeyCheck, { kind: 'foreign' }> {
  if (found.kind === 'foreign') {
    throw new SecretKeyProblem(
      key === null ? missingSentence(found, location) : foreignSentence(found, key, location),
    );
  }
  const isOwn = key !== null && location.configured === null;
  if (found.kind === 'opens' || !isOwn || !isDamagedKey(key)) return;
  throw new SecretKeyProblem(
    `The secret key in ${secretKeyFile(location.dataDir)} has fewer than ${KEY_CHARACTERS_MIN} characters, or some that are not text. ` +
      'Put the right file there, or delete it: this database is new, and a key is created.',
  );
}

type Foreign = Extract<KeyCheck, { kind: 'foreign' }>;

function missingSentence({ sealedBy }: Foreign, { dataDir }: SecretKeyLocation): string {
  return (
    `There is no secret key in ${secretKeyFile(dataDir)}, but the database has secrets that one has sealed` +
    `${sealedBy === null ? '' : ` (key ${sealedBy})`}. ` +
    `${COPY_ADVICE}, or set LETTERHAUS_SECRET_KEY.`
  );
}

const COPY_ADVICE =
  'Copy that file from the data directory of another node, from an earlier data directory or from a backup';

function foreignSentence(
  { sealedBy }: Foreign,
  key: string,
  { dataDir, configured }: SecretKeyLocation,
): string {
  const ids = parseSecretKeys(key).map(secretKeyId).join(', ');
  const others = `the secrets in the database${sealedByText({ sealedBy })}`;
  if (configured !== null) {
    return (
      `LETTERHAUS_SECRET_KEY (key ${ids}) does not open ${others}. ` +
      'Set it to the value that the other nodes have, or that was set when the database was backed up.'
    );
  }
  const cut = isDamagedKey(key) ? ', is damaged and' : '';
  return `The secret key in ${secretKeyFile(dataDir)} (key ${ids})${cut} does not open ${others}. ${COPY_ADVICE}.`;
}

function sealedByText({ sealedBy }: Pick<Foreign, 'sealedBy'>): string {
  return sealedBy === null ? '' : `, which key ${sealedBy} sealed`;
}

/** Returns whether a key is shorter than any that this service creates or accepts, or not text. */
function isDamagedKey(key: string): boolean {
  return parseSecretKeys(key).some(
    (part) => part.length < KEY_CHARACTERS_MIN || !/^[\x20-\x7e]+$/.test(part),
  );
}
