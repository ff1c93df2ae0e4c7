/**
 * Sealed values that the secret key does not open, because the row is damaged or another key has sealed it. Code that
 * fails to open a value marks its row in `unusable_secrets`. The supervisor opens all values from time to time, and
 * removes marks of rows that open again. So all nodes and the API can report them without opening anything.
 */
import type { Logger } from 'pino';
import type { Queryable } from '../database/database.ts';
import type { SecretBox } from './secret-box.ts';

export const SECRET_KINDS = ['domain', 'webhook', 'member'] as const;
export type SecretKind = (typeof SECRET_KINDS)[number];

/** `ownerId`: the project, or the organization of a member. */
export type SecretRow = { kind: SecretKind; ownerId: string; id: string };

const MARK = `
insert into unusable_secrets (kind, owner_id, id, since) values ($1, $2, $3, app_now())
on conflict do nothing
returning 1`;

/** Marks a row. Returns whether it was not marked before. */
export async function markUnusable(
  db: Queryable,
  { kind, ownerId, id }: SecretRow,
): Promise<boolean> {
  return (await db.query(MARK, [kind, ownerId, id])).length > 0;
}

const CONSEQUENCES: Readonly<Record<SecretKind, string>> = {
  domain: 'the secret key does not open the DKIM key of a domain; its mail waits unsent',
  webhook: 'the secret key does not open the signing secret of a webhook; nothing is sent to it',
  member: 'the secret key does not open the second factor of a member; its codes are refused',
};

/** Marks a row, and logs it unless it was marked before. Never throws. */
export async function markAndLogUnusable(
  { db, log }: { db: Queryable; log: Pick<Logger, 'warn'> },
  row: SecretRow,
): Promise<void> {
  try {
    if (await markUnusable(db, row)) warnUnusable(log, row);
  } catch (error) {
    log.warn(
      { err: error, kind: row.kind, id: row.id },
      'this process could not mark a secret as unusable; its next use tries again',
    );
  }
}

export function warnUnusable(log: Pick<Logger, 'warn'>, { kind, ownerId, id }: SecretRow): void {
  const owner = kind === 'member' ? { organization_id: ownerId } : { project_id: ownerId };
  log.warn(
    { kind, id, ...owner },
    `${CONSEQUENCES[kind]}; see "The secret key does not open" in docs/troubleshooting.md`,
  );
}

const UNMARK = `
delete from unusable_secrets where kind = $1 and owner_id = $2 and id = $3
returning 1`;

export async function unmarkUnusable(
  db: Queryable,
  { kind, ownerId, id }: SecretRow,
): Promise<boolean> {
  return (await db.query(UNMARK, [kind, ownerId, id])).length > 0;
}

export type UnusableCounts = Record<SecretKind, number>;

export async function countUnusable(db: Queryable): Promise<UnusableCounts> {
  const rows = await db.query<{ kind: SecretKind; count: number }>(
    'select kind, count(*)::int as count from unusable_secrets group by kind',
  );
  const counts = { domain: 0, webhook: 0, member: 0 };
  for (const { kind, count } of rows) counts[kind] = count;
  return counts;
}

const ALL_UNUSABLE = `
select exists (select from domains
                where domains.environment = 'live' and domains.status = 'verified'
                  and domains.deleted_at is null)
       and not exists (select from domains
                        where domains.environment = 'live' and domains.status = 'verified'
                          and domains.deleted_at is null
                          and not exists (select from unusable_secrets
                                           where unusable_secrets.kind = 'domain'
                                             and unusable_secrets.owner_id = domains.project_id
                                             and unusable_secrets.id = domains.id)) as "isAll"`;

/** Returns whether there are live domains and none of them can sign. Called only while a domain is marked. */
export async function areAllDomainsUnusable(db: Queryable): Promise<boolean> {
  const [row] = await db.query<{ isAll: boolean }>(ALL_UNUSABLE);
  return row?.isAll === true;
}

const DOMAIN = `
select exists (select from unusable_secrets
                where kind = 'domain' and owner_id = $1 and id = $2) as "isUnusable"`;

export async function isDomainUnusable(
  db: Queryable,
  { projectId, domainId }: { projectId: string; domainId: string },
): Promise<boolean> {
  const [row] = await db.query<{ isUnusable: boolean }>(DOMAIN, [projectId, domainId]);
  return row?.isUnusable === true;
}

type SealedRow = { ownerId: string; id: string; values: Buffer[] };

const VALUES = {
  domain: `
select project_id as "ownerId", id, array[rsa_private_key, ed25519_private_key] as values
  from domains
 where (project_id, id) > ($1, $2) and deleted_at is null
 order by project_id, id limit $3`,
  webhook: `
select project_id as "ownerId", id, array[secret] as values
  from webhook_endpoints
 where (project_id, id) > ($1, $2)
 order by project_id, id limit $3`,
  member: `
select organization_id as "ownerId", id, array[totp_secret] as values
  from members
 where (organization_id, id) > ($1, $2) and totp_secret is not null
 order by organization_id, id limit $3`,
} as const satisfies Record<SecretKind, string>;

const FIRST_UUID = '00000000-0000-0000-0000-000000000000';
const BATCH_ROWS = 100;

/** Opens all sealed values, in small batches, and marks the rows that do not open. Returns the newly marked rows. */
export async function markAllUnusable(
  db: Queryable,
  secrets: Pick<SecretBox, 'opens'>,
  {
    isStopping = () => false,
    batchRows = BATCH_ROWS,
  }: { isStopping?: () => boolean; batchRows?: number } = {},
): Promise<SecretRow[]> {
  const marked: SecretRow[] = [];
  for (const kind of SECRET_KINDS) {
    let after: Pick<SealedRow, 'ownerId' | 'id'> | undefined = {
      ownerId: FIRST_UUID,
      id: FIRST_UUID,
    };
    while (after !== undefined && !isStopping()) {
      const rows: SealedRow[] = await db.query<SealedRow>(VALUES[kind], [
        after.ownerId,
        after.id,
        batchRows,
      ]);
      const damaged = rows.filter(
        ({ id, values }) => !values.every((value) => secrets.opens(value, id)),
      );
      marked.push(...(await markEach(db, kind, damaged)));
      after = rows.length < batchRows ? undefined : rows.at(-1);
    }
  }
  return marked;
}

/** Marks rows. Returns those that were not marked before. */
async function markEach(
  db: Queryable,
  kind: SecretKind,
  rows: readonly Pick<SecretRow, 'ownerId' | 'id'>[],
): Promise<SecretRow[]> {
  const marked: SecretRow[] = [];
  for (const { ownerId, id } of rows) {
    const row = { kind, ownerId, id };
    if (await markUnusable(db, row)) marked.push(row);
  }
  return marked;
}

export type SecretsToRenew = { domains: string[]; webhooks: string[]; members: string[] };

const TO_RENEW = `
select array(select distinct domains.name from unusable_secrets
               join domains on domains.project_id = unusable_secrets.owner_id
                           and domains.id = unusable_secrets.id
              where unusable_secrets.kind = 'domain' and domains.deleted_at is null order by 1) as domains,
       array(select unusable_secrets.id::text from unusable_secrets
              where unusable_secrets.kind = 'webhook' order by 1) as webhooks,
       array(select members.email from unusable_secrets join members on members.id = unusable_secrets.id
              where unusable_secrets.kind = 'member' order by 1) as members`;

export async function listSecretsToRenew(db: Queryable): Promise<SecretsToRenew> {
  const [row] = await db.query<SecretsToRenew>(TO_RENEW);
  return row!;
}

type Marked = SecretRow & { values: (Buffer | null)[] | null };

const MARKED = `
select unusable_secrets.kind, unusable_secrets.owner_id as "ownerId", unusable_secrets.id,
       case unusable_secrets.kind
         when 'domain' then (select array[domains.rsa_private_key, domains.ed25519_private_key] from domains
                              where domains.project_id = unusable_secrets.owner_id
                                and domains.id = unusable_secrets.id and domains.deleted_at is null)
         when 'webhook' then (select array[webhook_endpoints.secret] from webhook_endpoints
                               where webhook_endpoints.project_id = unusable_secrets.owner_id
                                 and webhook_endpoints.id = unusable_secrets.id)
         else (select array[members.totp_secret] from members where members.id = unusable_secrets.id)
       end as values
  from unusable_secrets
 order by unusable_secrets.kind, unusable_secrets.owner_id, unusable_secrets.id limit 1000`;

/** Removes the marks of rows that open again or were deleted. Returns the rows that open. */
export async function unmarkUsable(
  db: Queryable,
  secrets: Pick<SecretBox, 'opens'>,
): Promise<SecretRow[]> {
  const opened: SecretRow[] = [];
  for (const { values, ...row } of await db.query<Marked>(MARKED)) {
    const sealedValues = values?.filter((value) => value !== null) ?? [];
    if (sealedValues.some((value) => !secrets.opens(value, row.id))) continue;
    await unmarkUnusable(db, row);
    if (sealedValues.length > 0) opened.push(row);
  }
  return opened;
}
