/**
 * The machines of the installation as the DNS records of sending domains name them: the host that
 * bounces come back to, one for all nodes, and the names and addresses that mail leaves from. Every
 * node asks a domain for the same records, because it asks here.
 */
import type { Queryable } from './postgres/database.ts';

/** `sourceIps`: as far as they are known (POSTHORN_SOURCE_IPS). */
export type MailHost = { name: string; sourceIps: readonly string[] };

export type Installation = {
  /** null: no node has been given a proper name yet. */
  returnPathHost: string | null;
  /** Seen within a week, by name; a node that is away for less is still one. */
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
with forgotten as (delete from mail_hosts where not ${SEEN_WITHIN} and instance <> $1)
insert into mail_hosts as m (instance, name, source_ips, seen_at) values ($1, $2, $3, app_now())
on conflict (instance) do update
   set name = excluded.name, source_ips = excluded.source_ips, seen_at = excluded.seen_at`;

/** A node says that it is there; again now and then, or it counts no more. */
export async function noteMailHost(
  db: Queryable,
  { instance, name, sourceIps }: MailHost & { instance: string },
): Promise<void> {
  await db.query(NOTE, [instance, name, sourceIps]);
}

// A name that no domain has published yet may still be corrected, by the only node there is.
const ADOPT = `
update installation set return_path_host = $1
 where return_path_host is distinct from $1 and not is_chosen
   and (return_path_host is null
        or not exists (select from domains where environment = 'live' and deleted_at is null
                                             and verified_at is not null)
       and not exists (select from mail_hosts where instance <> $2 and ${SEEN_WITHIN}))`;

/** A node with a proper name has started. @returns the host that the records name from now on */
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

/** @returns the host before, and how many verified domains have its name in their MX */
export async function setReturnPathHost(
  db: Queryable,
  name: string,
): Promise<{ before: string | null; verified: number }> {
  const [row] = await db.query<{ before: string | null; verified: number }>(SET, [name]);
  if (!row) throw new Error('the installation was not returned');
  return row;
}
