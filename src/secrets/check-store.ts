/**
 * Whether the secret key at hand is the one of the database. Every start and every command that seals or opens asks this
 * first: with another key the mail of all domains would wait unsigned, and new secrets would be lost with that key.
 *
 * `installation.secret_check` is a value that the key has sealed, so that one look suffices. A database from before it
 * has none: there the key has to open most of a sample of sealed rows, which also replaces a damaged check. A key is
 * created only for a database without sealed values. Of two nodes that begin on an empty database at once, the one that
 * writes the check first wins; the other one removes the key it has made and does not start.
 */
import type { Queryable } from '../database/database.ts';
import {
  makeSecretKey,
  readSecretKey,
  removeSecretKey,
  SecretBox,
  secretKeyFile,
  secretKeyId,
  SecretKeyProblem,
  secretKeysOf,
  sealingKeyOf,
} from './secret-store.ts';

export type SecretKeyPlace = {
  dataDir: string;
  /** LETTERHAUS_SECRET_KEY; null: the key is in the data directory. */
  configured: string | null;
};

/** The check is sealed for this row id. */
const CHECK_ROW = 'installation';
const CHECK_TEXT = 'sealed by the secret key of this installation';

type Verdict =
  /** `check` null: there is none yet, or it is damaged. */
  | { kind: 'opens'; check: Buffer | null }
  | { kind: 'unsealed' }
  /** `sealedBy`: the id of the key that has sealed; null: the values do not name it. */
  | { kind: 'foreign'; sealedBy: string | null };

/**
 * Before anything is changed, also the schema. Creates nothing.
 * @throws SecretKeyProblem
 */
export async function checkSecretKey(db: Queryable, place: SecretKeyPlace): Promise<void> {
  const present = presentKey(place);
  requireRight(await judge(db, boxOf(present)), present, place);
}

/**
 * The key to use with a migrated database; creates it if nothing is sealed yet.
 * @throws SecretKeyProblem
 */
export async function takeSecretKey(db: Queryable, place: SecretKeyPlace): Promise<string> {
  const present = presentKey(place);
  const verdict = await judge(db, boxOf(present));
  requireRight(verdict, present, place);
  const key = present ?? makeSecretKey(place.dataDir);
  if (verdict.kind === 'opens' && verdict.check !== null) return key;
  if (await writeCheck(db, new SecretBox(key))) return key;
  // Another node was faster.
  if (present === null) removeSecretKey(place.dataDir, key);
  requireRight(await judge(db, boxOf(present)), present, place);
  return key;
}

/**
 * Makes a key the one of the database, whatever has sealed what is in it: for `letterhaus secrets start-over`. The caller
 * holds the lock of migrations, under which starts check their key.
 */
export async function replaceCheck(db: Queryable, secrets: SecretBox): Promise<void> {
  const sealed = secrets.seal(CHECK_TEXT, CHECK_ROW);
  await db.query('update installation set secret_check = $1', [sealed]);
}

/** For a running service. @returns why the keys in use are not those of the database; null: they are */
export async function foreignKeyProblem(
  db: Queryable,
  { dataDir, configured }: SecretKeyPlace,
  secrets: SecretBox,
): Promise<string | null> {
  const verdict = await judge(db, secrets);
  if (verdict.kind !== 'foreign') return null;
  const where = configured === null ? secretKeyFile(dataDir) : 'LETTERHAUS_SECRET_KEY';
  return (
    `The secret key of this node (${secrets.keyIds.join(', ')}) does not open the secrets in the database` +
    `${byKey(verdict)} any more, so this node ends; put the present key into ${where} and start it again.`
  );
}

function presentKey({ dataDir, configured }: SecretKeyPlace): string | null {
  return configured ?? readSecretKey(dataDir);
}

function boxOf(secretKey: string | null): SecretBox | null {
  return secretKey === null ? null : new SecretBox(secretKey);
}

async function judge(db: Queryable, secrets: SecretBox | null): Promise<Verdict> {
  const columns = await sealedColumns(db);
  const check = columns.has('installation') ? await readCheck(db) : null;
  if (check !== null && secrets?.opens(check, CHECK_ROW)) return { kind: 'opens', check };
  const sample: Sealed[] = [];
  for (const table of SAMPLED) {
    if (columns.has(table.name)) sample.push(...(await db.query<Sealed>(table.sample)));
  }
  if (check === null && sample.length === 0) return { kind: 'unsealed' };
  const opened = sample.filter(({ id, sealed }) => secrets?.opens(sealed, id)).length;
  const isMost = check === null ? opened * 2 >= sample.length : opened * 2 > sample.length;
  if (opened > 0 && isMost) return { kind: 'opens', check: null };
  return { kind: 'foreign', sealedBy: check ? sealingKeyOf(check) : mostFrequentKey(sample) };
}

type Sealed = { id: string; sealed: Buffer };

/** Of each end, by the primary key. */
const SAMPLE = 50;

const DOMAINS = `
(select id, rsa_private_key as sealed from domains order by project_id, id limit ${SAMPLE})
union
(select id, rsa_private_key from domains order by project_id desc, id desc limit ${SAMPLE})`;

const WEBHOOKS = `
(select id, secret as sealed from webhook_endpoints order by project_id, id limit ${SAMPLE})
union
(select id, secret from webhook_endpoints order by project_id desc, id desc limit ${SAMPLE})`;

const MEMBERS = `
select id, totp_secret as sealed from members where totp_secret is not null limit ${SAMPLE}`;

const SAMPLED = [
  { name: 'domains', column: 'rsa_private_key', sample: DOMAINS },
  { name: 'webhook_endpoints', column: 'secret', sample: WEBHOOKS },
  { name: 'members', column: 'totp_secret', sample: MEMBERS },
] as const;

const COLUMNS = `
select w.name
  from unnest($1::text[], $2::text[]) as w(name, "column")
  join pg_attribute a on a.attrelid = to_regclass(w.name) and a.attname = w."column"
 where not a.attisdropped`;

/** The tables that have their sealed column in the present schema, which may be older than this code, or empty. */
async function sealedColumns(db: Queryable): Promise<Set<string>> {
  const wanted = [{ name: 'installation', column: 'secret_check' }, ...SAMPLED];
  const rows = await db.query<{ name: string }>(COLUMNS, [
    wanted.map(({ name }) => name),
    wanted.map(({ column }) => column),
  ]);
  return new Set(rows.map(({ name }) => name));
}

/** Null: there is none yet. */
export async function readCheck(db: Queryable): Promise<Buffer | null> {
  const [row] = await db.query<{ check: Buffer | null }>(
    'select secret_check as check from installation',
  );
  return row?.check ?? null;
}

// Not over a check that was written meanwhile, unless it is the damaged one that was read before ($2).
const WRITE = `
update installation set secret_check = $1 where secret_check is not distinct from $2
returning 1`;

/** @returns false: another node has written one meanwhile */
async function writeCheck(db: Queryable, secrets: SecretBox): Promise<boolean> {
  const before = await readCheck(db);
  if (before !== null && secrets.opens(before, CHECK_ROW)) return true;
  return (await db.query(WRITE, [secrets.seal(CHECK_TEXT, CHECK_ROW), before])).length > 0;
}

/** During a rotation: seals the check with the first key. @throws SecretKeyProblem when none of the keys opens it */
export async function sealCheckAnew(db: Queryable, secrets: SecretBox): Promise<void> {
  const before = await readCheck(db);
  if (before !== null && !secrets.opens(before, CHECK_ROW)) {
    throw new SecretKeyProblem('The secret keys do not open what is sealed in the database.');
  }
  if (before !== null && sealingKeyOf(before) === secrets.keyIds[0]) return;
  await db.query(WRITE, [secrets.seal(CHECK_TEXT, CHECK_ROW), before]);
}

function mostFrequentKey(sample: readonly Sealed[]): string | null {
  const ids = sample.flatMap(({ sealed }) => sealingKeyOf(sealed) ?? []);
  const counts = Object.entries(Object.groupBy(ids, (id) => id));
  counts.sort(([, one = []], [, other = []]) => other.length - one.length);
  return counts[0]?.[0] ?? null;
}

/** As config/config.ts asks of LETTERHAUS_SECRET_KEY. */
const CHARACTERS_MIN = 32;

function requireRight(
  verdict: Verdict,
  present: string | null,
  place: SecretKeyPlace,
): asserts verdict is Exclude<Verdict, { kind: 'foreign' }> {
  if (verdict.kind === 'foreign') {
    throw new SecretKeyProblem(
      present === null ? missingSentence(verdict, place) : foreignSentence(verdict, present, place),
    );
  }
  const isOwn = present !== null && place.configured === null;
  if (verdict.kind === 'opens' || !isOwn || !isCutOff(present)) return;
  throw new SecretKeyProblem(
    `The secret key in ${secretKeyFile(place.dataDir)} has less than ${CHARACTERS_MIN} characters or others than text; ` +
      'put the right file there, or delete it: this database is new, and a key is created.',
  );
}

type Foreign = Extract<Verdict, { kind: 'foreign' }>;

function missingSentence({ sealedBy }: Foreign, { dataDir }: SecretKeyPlace): string {
  return (
    `There is no secret key in ${secretKeyFile(dataDir)}, but the database has secrets that one has sealed` +
    `${sealedBy === null ? '' : ` (key ${sealedBy})`}; ` +
    `${COPY}, or set LETTERHAUS_SECRET_KEY.`
  );
}

const COPY =
  'copy that file from the data directory of another node, from an earlier data directory or from a backup';

function foreignSentence(
  { sealedBy }: Foreign,
  present: string,
  { dataDir, configured }: SecretKeyPlace,
): string {
  const ids = secretKeysOf(present).map(secretKeyId).join(', ');
  const others = `the secrets in the database${byKey({ sealedBy })}`;
  if (configured !== null) {
    return (
      `LETTERHAUS_SECRET_KEY (key ${ids}) does not open ${others}; ` +
      'set it to the value that the other nodes have, or that was set when the database was backed up.'
    );
  }
  const cut = isCutOff(present) ? ', is damaged and' : '';
  return `The secret key in ${secretKeyFile(dataDir)} (key ${ids})${cut} does not open ${others}; ${COPY}.`;
}

function byKey({ sealedBy }: Pick<Foreign, 'sealedBy'>): string {
  return sealedBy === null ? '' : `, which key ${sealedBy} has sealed`;
}

/** Shorter than any key that this service creates or takes, or not text. */
function isCutOff(present: string): boolean {
  return secretKeysOf(present).some(
    (key) => key.length < CHARACTERS_MIN || !/^[\x20-\x7e]+$/.test(key),
  );
}
