/**
 * The hosts that the DNS records of sending domains name: the host that receives bounces, and the names and addresses
 * that send mail. They are stored in the database, so every node shows the same records.
 */
import { entityTagOf, type IsExpected } from '../core/entity-tag.ts';
import { CHANGED_SINCE, type Refusal } from '../core/refusals.ts';
import type { Database, Queryable } from '../database/database.ts';

export type MailHost = { name: string; sourceIps: readonly string[] };

export type Installation = {
  /** null until a node with a full host name has started. */
  returnPathHost: string | null;
  /** Nodes that reported within a week, sorted by name. */
  hosts: MailHost[];
};

const SEEN_WITHIN = `seen_at > app_now() - interval '7 days'`;

const READ = `
select return_path_host as "returnPathHost",
       (select coalesce(json_agg(json_build_object('name', name, 'sourceIps', source_ips)
                                 order by name, instance), '[]')
          from mail_hosts where ${SEEN_WITHIN}) as hosts
  from installation`;

export async function readInstallation(db: Queryable): Promise<Installation> {
  const [row] = await db.query<Installation>(READ);
  return row ?? { returnPathHost: null, hosts: [] };
}

const NOTE = `
with deleted as (delete from mail_hosts where not ${SEEN_WITHIN} and instance <> $1)
insert into mail_hosts (instance, name, source_ips, seen_at) values ($1, $2, $3, app_now())
on conflict (instance) do update
   set name = excluded.name, source_ips = excluded.source_ips, seen_at = excluded.seen_at`;

/** Records this node as present. A node that does not repeat this within a week is dropped. */
export async function noteMailHost(
  db: Queryable,
  { instance, name, sourceIps }: MailHost & { instance: string },
): Promise<void> {
  await db.query(NOTE, [instance, name, sourceIps]);
}

// Until a domain has published the name, the only node may still correct it.
const ADOPT = `
update installation set return_path_host = $1
 where return_path_host is distinct from $1 and not is_chosen
   and (return_path_host is null
        or not exists (select from domains where environment = 'live' and deleted_at is null
                                             and verified_at is not null)
       and not exists (select from mail_hosts where instance <> $2 and ${SEEN_WITHIN}))`;

/**
 * Adopts the name of a node that starts, unless another host is in use. Returns the host that the records name now.
 */
export async function adoptReturnPathHost(
  db: Queryable,
  { instance, name }: { instance: string; name: string },
): Promise<string> {
  await db.query(ADOPT, [name, instance]);
  return (await readInstallation(db)).returnPathHost ?? name;
}

const SET = `
with before as (select return_path_host from installation)
update installation set return_path_host = $1, is_chosen = true from before
returning before.return_path_host as before,
          (select count(*)::int from domains
            where environment = 'live' and deleted_at is null and status = 'verified') as verified`;

export function tagOfReturnPathHost(name: string | null): string {
  return entityTagOf({ returnPathHost: name });
}

type HostChange = { before: string | null; verified: number };

/** Sets the host unless it is another than the caller has read. Two changes follow one another. */
export function changeReturnPathHost(
  db: Pick<Database, 'transaction'>,
  { name, isExpected }: { name: string; isExpected: IsExpected },
): Promise<HostChange | Refusal> {
  return db.transaction(async (tx) => {
    await tx.query('select from installation for update');
    const { returnPathHost } = await readInstallation(tx);
    if (!isExpected(tagOfReturnPathHost(returnPathHost))) return CHANGED_SINCE;
    return setReturnPathHost(tx, name);
  });
}

/** Sets the host. Returns the previous one, and the number of verified domains whose MX names it. */
export async function setReturnPathHost(db: Queryable, name: string): Promise<HostChange> {
  const [row] = await db.query<HostChange>(SET, [name]);
  if (!row) throw new Error('the installation was not returned');
  return row;
}
