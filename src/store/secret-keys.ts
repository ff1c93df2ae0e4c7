/**
 * Replacing the secret key while the service runs (cli/commands/secrets.ts): which keys are known to
 * whom, and sealing everything anew. Every step can be done again: a rotation that was killed goes on
 * where it was.
 */
import type { Queryable } from './postgres/database.ts';
import type { SecretBox } from './secrets.ts';

const NOTE = `
with known as (
  insert into known_secret_keys (instance, keys, noted_at) values ($1, $2, app_now())
  on conflict (instance) do update set keys = excluded.keys, noted_at = excluded.noted_at
)
insert into secret_keys (id, current_since) values (($2::text[])[1], app_now())
on conflict do nothing`;

/** All workers of this installation work with these keys from now on. */
export async function noteSecretKeys(
  db: Queryable,
  { instance, keyIds }: { instance: string; keyIds: readonly string[] },
): Promise<void> {
  await db.query(NOTE, [instance, keyIds]);
}

/** It seals and signs, whether or not a service runs. */
export async function noteFirstKey(db: Queryable, id: string): Promise<void> {
  await db.query(
    'insert into secret_keys (id, current_since) values ($1, app_now()) on conflict do nothing',
    [id],
  );
}

const NODES = `
select n.instance, min(n.host) as host, sum(n.beat)::int8 as beats, k.keys
  from nodes n left join known_secret_keys k on k.instance = n.instance
 group by n.instance, k.keys`;

/** `keys` null: of a version that knows nothing of rotations. */
export type KeyHolder = { instance: string; host: string; beats: number; keys: string[] | null };

/** The installations that have workers, with the keys that they know. */
export function listKeyHolders(db: Queryable): Promise<KeyHolder[]> {
  return db.query<KeyHolder>(NODES);
}

/** Since when a key has been the first one somewhere; not there: it never was. */
export async function keysInUse(db: Queryable): Promise<Map<string, Date>> {
  const rows = await db.query<{ id: string; since: Date }>(
    'select id, current_since as since from secret_keys',
  );
  return new Map(rows.map(({ id, since }) => [id, since]));
}

const SEALED = [
  ['domains', 'rsa_private_key'],
  ['domains', 'ed25519_private_key'],
  ['webhook_endpoints', 'secret'],
  ['webhook_endpoints', 'previous_secret'],
] as const;
type Sealed = (typeof SEALED)[number];

// In the order of the key, from batch to batch: what no key opens is passed by.
const stale = ([table, column]: Sealed) => `
select project_id as "projectId", id, ${column} as sealed from ${table}
 where (project_id, id) > ($1, $2) and substring(${column} from 1 for length($3::bytea)) <> $3::bytea
 order by project_id, id limit $4`;

// Only what is as it was read: a webhook's secret may have been replaced meanwhile.
const replace = ([table, column]: Sealed) => `
update ${table} t set ${column} = n.sealed
  from unnest($1::uuid[], $2::uuid[], $3::bytea[], $4::bytea[]) as n(project_id, id, before, sealed)
 where t.project_id = n.project_id and t.id = n.id and t.${column} = n.before
returning 1`;

type StaleRow = { projectId: string; id: string; sealed: Buffer };

const FIRST_UUID = '00000000-0000-0000-0000-000000000000';
const BATCH = 100;

/** Seals with the first key all that is sealed with another one, in small batches. */
export async function sealAnew(
  db: Queryable,
  secrets: SecretBox,
  batch = BATCH,
): Promise<{ sealed: number; unreadable: number }> {
  const sum = { sealed: 0, unreadable: 0 };
  for (const where of SEALED) {
    let after: Pick<StaleRow, 'projectId' | 'id'> | undefined = {
      projectId: FIRST_UUID,
      id: FIRST_UUID,
    };
    while (after !== undefined) {
      const values: unknown[] = [after.projectId, after.id, secrets.head, batch];
      const rows: StaleRow[] = await db.query<StaleRow>(stale(where), values);
      const readable = rows.flatMap((row) => sealedAnew(row, secrets));
      sum.unreadable += rows.length - readable.length;
      if (readable.length > 0) {
        const columns = [
          readable.map(({ projectId }) => projectId),
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
