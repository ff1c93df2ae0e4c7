/** Reads facts about the server and the installation for the doctor. Changes nothing. */
import type { Queryable } from '../database/database.ts';
import { DOMAIN_COLUMNS, type StoredDomain } from '../domains/domain-store.ts';

export type ServerSettings = {
  version: string;
  versionNumber: number;
  fsync: string;
  fullPageWrites: string;
  dataChecksums: string;
  autovacuum: string;
  /** True on a standby, which accepts no writes. */
  isReadOnly: boolean;
  connectionsMax: number;
  /** Connections for superusers and other reserved ones. */
  connectionsReserved: number;
  /** -1: no limit of this role, or of this database. */
  roleLimit: number;
  databaseLimit: number;
  /** Connections to other databases of the server. */
  connectionsOfOthers: number;
  /** Transactions since the oldest row version was frozen. The server stops at two billion. */
  frozenXidAge: number;
};

const SERVER = `
select current_setting('server_version') as version,
       current_setting('server_version_num')::int as "versionNumber",
       current_setting('fsync') as fsync,
       current_setting('full_page_writes') as "fullPageWrites",
       current_setting('data_checksums') as "dataChecksums",
       current_setting('autovacuum') as autovacuum,
       pg_is_in_recovery() as "isReadOnly",
       current_setting('max_connections')::int as "connectionsMax",
       current_setting('superuser_reserved_connections')::int
         + coalesce(current_setting('reserved_connections', true), '0')::int as "connectionsReserved",
       (select rolconnlimit from pg_roles where rolname = session_user) as "roleLimit",
       (select datconnlimit from pg_database where datname = current_database()) as "databaseLimit",
       (select coalesce(sum(numbackends), 0)::int from pg_stat_database
         where datname <> current_database()) as "connectionsOfOthers",
       (select age(datfrozenxid) from pg_database where datname = current_database()) as "frozenXidAge"`;

export async function readServerSettings(db: Queryable): Promise<ServerSettings> {
  const [row] = await db.query<ServerSettings>(SERVER);
  return row!;
}

/** @property at null: no `letterhaus backup` has ended on this database */
export type NotedBackup = { at: Date | null; place: string | null; now: Date };

const NOTED_BACKUP = `
select last_backup_at as at, last_backup_place as place, app_now() as now from installation`;

export async function readNotedBackup(db: Queryable): Promise<NotedBackup> {
  const [row] = await db.query<NotedBackup>(NOTED_BACKUP);
  return row!;
}

// Two projects may have the same domain. The one that was verified last signs with the newest keys.
const LIVE_DOMAINS = `
select ${DOMAIN_COLUMNS} from domains
 where environment = 'live' and deleted_at is null and ($1::text is null or name = $1)
   and ($1::text is not null or verified_at is not null)
 order by name, verified_at desc nulls last
 limit $2`;

/** Returns the live domains that are or were verified, or all with the given name. */
export function listLiveDomains(
  db: Queryable,
  name: string | null,
  limit: number,
): Promise<StoredDomain[]> {
  return db.query<StoredDomain>(LIVE_DOMAINS, [name, limit]);
}

export type DomainVolume = { lastDay: number; lastMonth: number; complainedLastMonth: number };

const VOLUME = `
select coalesce(sum(ended) filter (where hour > app_now() - interval '24 hours'), 0)::int as "lastDay",
       coalesce(sum(ended), 0)::int as "lastMonth",
       coalesce(sum(complained), 0)::int as "complainedLastMonth"
  from reputation_counts
 where domain = $1 and environment = 'live'`;

/** Counts the recipients whose mail from the domain ended, over all projects, in 30 days at most. */
export async function readDomainVolume(db: Queryable, domain: string): Promise<DomainVolume> {
  const [row] = await db.query<DomainVolume>(VOLUME, [domain]);
  return row!;
}
