/**
 * Sending domains and their encrypted DKIM keys. A deleted domain keeps its row, so the mail that it signed can be
 * reproduced. A change of status commits together with its event: callers pass a transaction.
 */
import type { AlertFacts } from '../reputation/alert.ts';
import type { Environment, DomainScope, Scope } from '../core/scope.ts';
import type { Queryable } from '../database/database.ts';
import { namedParameters } from '../database/parameters/named-parameters.ts';
import { WAITING_SHOWN_MAX } from './domain-limits.ts';
import { type Page, type PageResult, cutToPage } from '../database/page.ts';

export const DOMAIN_STATUSES = [
  'not_started',
  'pending',
  'verified',
  'degraded',
  'failed',
] as const;
export type DomainStatus = (typeof DOMAIN_STATUSES)[number];

/**
 * A degraded domain is stored as `verified`, because it still sends. Older versions and statements that check
 * `status` therefore need no change.
 * @param alias alias of `domains`
 */
export const DISPLAYED_STATUS = (alias: string): string => `
  case when ${alias}.status = 'verified' and ${alias}.degraded_since >= ${alias}.failing_since then 'degraded'
       else ${alias}.status end`;

/** `enforced` sends only to servers with a valid certificate. */
export const DOMAIN_TLS = ['opportunistic', 'enforced'] as const;
export type DomainTls = (typeof DOMAIN_TLS)[number];

export type StoredDomain = {
  id: string;
  projectId: string;
  environment: Environment;
  name: string;
  status: DomainStatus;
  createdAt: Date;
  verifiedAt: Date | null;
  checkedAt: Date | null;
  failingSince: Date | null;
  rsaSelector: string;
  /** SubjectPublicKeyInfo in base64, as in the TXT record. */
  rsaPublicKey: string;
  ed25519Selector: string;
  ed25519PublicKey: string;
  ed25519Verified: boolean;
  dkimSince: Date;
  isDkimOld: boolean;
  /** Keys whose record is not published yet; null when no rotation is under way. */
  nextKeys: OtherKeys | null;
  previousKeys: OtherKeys | null;
  isPreviousNeeded: boolean;
  /** False after two checks in a row did not find the RSA record. */
  rsaPublished: boolean;
  /** Applies to emails that do not set `tls` themselves. */
  tls: DomainTls;
  /** Applies to emails that do not set tracking themselves. */
  trackOpens: boolean;
  trackClicks: boolean;
  records: unknown[];
  advice: unknown[];
  /** True when the secret key cannot open the DKIM keys (secrets/unusable-store.ts), so nothing can be signed. */
  isKeyUnusable: boolean;
  /** Active reputation alerts (reputation/reputation-store.ts). `since` is a JSON text. */
  alerts: (Omit<AlertFacts, 'since'> & { since: string })[];
};

/** Next or previous DKIM keys. `since` (a JSON text) says when they were made or replaced. */
export type OtherKeys = Pick<
  StoredDomain,
  'rsaSelector' | 'rsaPublicKey' | 'ed25519Selector' | 'ed25519PublicKey'
> & { since: string };

export type NewDomain = Scope & {
  id: string;
  name: string;
  status: DomainStatus;
  rsaSelector: string;
  rsaPublicKey: string;
  rsaPrivateKey: Buffer;
  ed25519Selector: string;
  ed25519PublicKey: string;
  ed25519PrivateKey: Buffer;
  ed25519Verified: boolean;
  tls?: DomainTls;
  records: unknown[];
  advice: unknown[];
};

/** Days that the record of replaced keys must stay published: mail is queued for days, and receivers verify late. */
export const PREVIOUS_NEEDED_DAYS = 7;
/** M3AAWG recommends to replace keys at this age. */
const DKIM_OLD_AFTER = '180 days';

const keysAsJson = (name: 'next' | 'previous', since: string): string => `
  case when ${since} is not null then
    json_build_object('rsaSelector', ${name}_rsa_selector, 'rsaPublicKey', ${name}_rsa_public_key,
                      'ed25519Selector', ${name}_ed25519_selector, 'ed25519PublicKey', ${name}_ed25519_public_key,
                      'since', wire_time(${since})) end`;

export const DOMAIN_COLUMNS = `
  id, project_id as "projectId", environment, name, ${DISPLAYED_STATUS('domains')} as status,
  created_at as "createdAt",
  verified_at as "verifiedAt", checked_at as "checkedAt", failing_since as "failingSince",
  rsa_selector as "rsaSelector", rsa_public_key as "rsaPublicKey",
  ed25519_selector as "ed25519Selector", ed25519_public_key as "ed25519PublicKey",
  ed25519_verified as "ed25519Verified", rsa_published as "rsaPublished",
  coalesce(dkim_since, created_at) as "dkimSince",
  coalesce(dkim_since, created_at) < app_now() - interval '${DKIM_OLD_AFTER}' as "isDkimOld",
  ${keysAsJson('next', 'next_since')} as "nextKeys",
  ${keysAsJson('previous', 'previous_until')} as "previousKeys",
  coalesce(previous_until > app_now() - interval '${PREVIOUS_NEEDED_DAYS} days', false) as "isPreviousNeeded",
  tls, track_opens as "trackOpens",
  track_clicks as "trackClicks", records, advice,
  exists (select from unusable_secrets
           where unusable_secrets.kind = 'domain' and unusable_secrets.owner_id = domains.project_id
             and unusable_secrets.id = domains.id) as "isKeyUnusable",
  (select coalesce(json_agg(json_build_object(
            'kind', reputation_alerts.kind, 'count', reputation_alerts.count, 'ended', reputation_alerts.ended,
            'thresholdPpm', reputation_alerts.threshold_ppm, 'since', reputation_alerts.since,
            'isPaused', reputation_alerts.paused) order by reputation_alerts.kind), '[]')
     from reputation_alerts
    where reputation_alerts.project_id = domains.project_id
      and reputation_alerts.environment = domains.environment
      and reputation_alerts.domain = domains.name) as alerts`;

const CAPACITY = `
select coalesce(projects.domains_max, $3::int) as max,
       (select count(*)::int from domains
         where project_id = projects.id and environment = $2 and deleted_at is null) as used,
       exists (select from domains where project_id = projects.id and environment = $2 and name = $4
                                     and deleted_at is null) as "isThere"
  from projects where projects.id = $1`;

/**
 * Reads how many domains a project may have and has.
 * @param configuredMax limit of projects that have no limit of their own
 */
export async function domainCapacity(
  db: Queryable,
  { projectId, environment, name }: Scope & { name: string },
  configuredMax: number,
): Promise<{ max: number; used: number; isThere: boolean }> {
  const values = [projectId, environment, configuredMax, name];
  const [row] = await db.query<{ max: number; used: number; isThere: boolean }>(CAPACITY, values);
  if (!row) throw new Error('the project was not returned');
  return row;
}

/** Locks the project: until this transaction ends, no other one that takes the lock can add a domain. */
export async function lockDomainsOfProject(tx: Queryable, projectId: string): Promise<void> {
  await tx.query('select from projects where id = $1 for no key update', [projectId]);
}

/** Sets how many domains the project may have. Null restores the configured default. */
export async function setDomainsMax(
  db: Queryable,
  projectId: string,
  max: number | null,
): Promise<void> {
  await db.query('update projects set domains_max = $2 where id = $1', [projectId, max]);
}

const INSERT_PARAMETERS = namedParameters([
  'projectId',
  'id',
  'environment',
  'name',
  'status',
  'rsaSelector',
  'rsaPublicKey',
  'rsaPrivateKey',
  'ed25519Selector',
  'ed25519PublicKey',
  'ed25519PrivateKey',
  'ed25519Verified',
  'records',
  'advice',
  'tls',
]);
const NEW = INSERT_PARAMETERS.sql;

const INSERT = `
insert into domains (project_id, id, environment, name, status, created_at, verified_at,
                     rsa_selector, rsa_public_key, rsa_private_key, ed25519_selector,
                     ed25519_public_key, ed25519_private_key, ed25519_verified, records, advice,
                     tls, paused_at)
values (${NEW.projectId}, ${NEW.id}, ${NEW.environment}, ${NEW.name}, ${NEW.status}, app_now(),
        case when ${NEW.status} = 'verified' then app_now() end,
        ${NEW.rsaSelector}, ${NEW.rsaPublicKey}, ${NEW.rsaPrivateKey}, ${NEW.ed25519Selector},
        ${NEW.ed25519PublicKey}, ${NEW.ed25519PrivateKey}, ${NEW.ed25519Verified}, ${NEW.records},
        ${NEW.advice}, ${NEW.tls},
        (select min(reputation_alerts.since) from reputation_alerts
          where reputation_alerts.project_id = ${NEW.projectId}
            and reputation_alerts.environment = ${NEW.environment}
            and reputation_alerts.domain = ${NEW.name} and reputation_alerts.paused))
on conflict (project_id, environment, name) where deleted_at is null do nothing
returning ${DOMAIN_COLUMNS}`;

/**
 * Adds a domain. It is paused if a removed domain of that name was paused (reputation/reputation-store.ts), so
 * removing a domain does not end its pause.
 * Returns null when the project already has the name in this environment.
 */
export async function insertDomain(db: Queryable, domain: NewDomain): Promise<StoredDomain | null> {
  const [row] = await db.query<StoredDomain>(
    INSERT,
    INSERT_PARAMETERS.valuesOf({
      ...domain,
      records: JSON.stringify(domain.records),
      advice: JSON.stringify(domain.advice),
      tls: domain.tls ?? 'opportunistic',
    }),
  );
  return row ?? null;
}

const LIST = `
select ${DOMAIN_COLUMNS} from domains
 where project_id = $1 and environment = $2 and deleted_at is null
   and ($6::text is null or name = $6)
   and ($3::uuid is null or id < $3) and ($4::uuid is null or id > $4)
 order by case when $4::uuid is null then id end desc, id
 limit $5`;

export async function listDomains(
  db: Queryable,
  { projectId, environment, domain = null }: DomainScope,
  page: Page,
): Promise<PageResult<StoredDomain>> {
  const values = [projectId, environment, page.after, page.before, page.limit + 1, domain];
  return cutToPage(await db.query<StoredDomain>(LIST, values), page);
}

/** $4 is the only domain that the key may use; null allows any. */
const IS_PRESENT = `project_id = $1 and environment = $2 and id = $3 and deleted_at is null
   and ($4::text is null or name = $4)`;

const FIND = `
select ${DOMAIN_COLUMNS} from domains
 where ${IS_PRESENT}`;

export async function findDomain(
  db: Queryable,
  scope: DomainScope,
  id: string,
): Promise<StoredDomain | null> {
  return (await db.query<StoredDomain>(FIND, domainKeyOf(scope, id)))[0] ?? null;
}

const IS_VERIFIED = `
select exists (select from domains
                where project_id = $1 and environment = $2 and name = $3 and deleted_at is null
                  and status = 'verified') as "isVerified"`;

/** Returns whether live mail may be sent from the name. For an email, only the accept statement decides this. */
export async function isVerifiedDomain(
  db: Queryable,
  { projectId, environment, name }: Scope & { name: string },
): Promise<boolean> {
  const values = [projectId, environment, name];
  const [row] = await db.query<{ isVerified: boolean }>(IS_VERIFIED, values);
  return row?.isVerified === true;
}

const FIND_UNKNOWN = `
select wanted.name
  from unnest($3::text[]) wanted(name)
 where not exists (
   select from domains
    where domains.project_id = $1 and domains.environment = $2 and domains.deleted_at is null
      and (domains.name = wanted.name
           or left(wanted.name, 2) = '*.' and right(domains.name, length(wanted.name) - 1) = substr(wanted.name, 2)))`;

/** Returns those of the names that are no domains of this scope. `*.acme.com` is one if a subdomain of acme.com is. */
export async function findUnknownDomains(
  db: Queryable,
  { projectId, environment }: Scope,
  names: readonly string[],
): Promise<Set<string>> {
  const rows = await db.query<{ name: string }>(FIND_UNKNOWN, [projectId, environment, names]);
  return new Set(rows.map(({ name }) => name));
}

function domainKeyOf(
  { projectId, environment, domain = null }: DomainScope,
  id: string,
): unknown[] {
  return [projectId, environment, id, domain];
}

const FIND_FOR_UPDATE = `${FIND} for update`;

/** Finds a domain and locks its row until the transaction ends, so that two changes of it follow one another. */
export async function lockDomain(
  tx: Queryable,
  scope: DomainScope,
  id: string,
): Promise<StoredDomain | null> {
  return (await tx.query<StoredDomain>(FIND_FOR_UPDATE, domainKeyOf(scope, id)))[0] ?? null;
}

export type CheckResult = Pick<
  StoredDomain,
  | 'status'
  | 'verifiedAt'
  | 'failingSince'
  | 'ed25519Verified'
  | 'rsaPublished'
  | 'records'
  | 'advice'
>;

const SAVE_CHECK = `
update domains
   set checked_at = app_now(), status = case $3::text when 'degraded' then 'verified' else $3::text end,
       verified_at = $4, failing_since = $5,
       degraded_since = case when $3::text <> 'degraded' then null
                             when degraded_since >= $5 then degraded_since else app_now() end,
       ed25519_verified = $6, rsa_published = $7, records = $8, advice = $9
 where project_id = $1 and id = $2
returning ${DOMAIN_COLUMNS}`;

export async function saveCheck(
  tx: Queryable,
  domain: StoredDomain,
  result: CheckResult,
): Promise<StoredDomain> {
  const [row] = await tx.query<StoredDomain>(SAVE_CHECK, [
    domain.projectId,
    domain.id,
    result.status,
    result.verifiedAt,
    result.failingSince,
    result.ed25519Verified,
    result.rsaPublished,
    JSON.stringify(result.records),
    JSON.stringify(result.advice),
  ]);
  if (!row) throw new Error('a checked domain was not returned');
  return row;
}

const CHANGE = `
update domains
   set tls = coalesce($5, tls), track_opens = coalesce($6, track_opens),
       track_clicks = coalesce($7, track_clicks)
 where ${IS_PRESENT}
returning ${DOMAIN_COLUMNS}`;

export type DomainChange = {
  tls?: DomainTls | undefined;
  tracking?: { opens?: boolean | undefined; clicks?: boolean | undefined } | undefined;
};

/** Changes the settings for emails that are accepted from now on. */
export async function changeDomain(
  db: Queryable,
  scope: DomainScope,
  { id, tls, tracking }: DomainChange & { id: string },
): Promise<StoredDomain | null> {
  const changes = [tls ?? null, tracking?.opens ?? null, tracking?.clicks ?? null];
  return (await db.query<StoredDomain>(CHANGE, [...domainKeyOf(scope, id), ...changes]))[0] ?? null;
}

const DELETE = `
update domains set deleted_at = app_now()
 where ${IS_PRESENT}
returning ${DOMAIN_COLUMNS}`;

export async function deleteDomain(
  tx: Queryable,
  scope: DomainScope,
  id: string,
): Promise<StoredDomain | null> {
  return (await tx.query<StoredDomain>(DELETE, domainKeyOf(scope, id)))[0] ?? null;
}

/** Time between two checks of a domain. */
const RECHECK = {
  daily: '1 day',
  /** While required records are missing, for a week after they were last found. */
  failing: '1 hour',
  failingFor: '7 days',
  /** While a rotation waits for the record of the next keys. */
  rotating: '1 hour',
  rotatingFor: '30 days',
  /** After the first check that missed a record. The second check makes the domain degraded. */
  missing: '5 minutes',
} as const;

const TO_RECHECK = `
select ${DOMAIN_COLUMNS} from (
  select *, row_number() over (partition by project_id order by checked_at) as place
    from domains
   where deleted_at is null and environment = 'live' and status in ('pending', 'verified', 'failed')
     and (checked_at < app_now() - interval '${RECHECK.daily}'
          or next_since > app_now() - interval '${RECHECK.rotatingFor}'
             and checked_at < app_now() - interval '${RECHECK.rotating}'
          or failing_since is not null and checked_at < app_now() - interval '${RECHECK.missing}'
             and (status = 'verified' and degraded_since is null
                  or failing_since > app_now() - interval '${RECHECK.failingFor}'
                     and checked_at < app_now() - interval '${RECHECK.failing}'))) domains
 where place <= $2
 order by place, checked_at
 limit $1`;

/** Returns live domains whose check is due: the oldest of each project, then the second oldest of each. */
export async function listDomainsToRecheck(
  db: Queryable,
  { max, perProjectMax }: { max: number; perProjectMax: number },
): Promise<StoredDomain[]> {
  return db.query<StoredDomain>(TO_RECHECK, [max, perProjectMax]);
}

export async function readDatabaseTime(db: Queryable): Promise<Date> {
  const [row] = await db.query<{ now: Date }>('select app_now() as now');
  if (!row) throw new Error('the database returned no time');
  return row.now;
}

export type SealedKeys = {
  domain: string;
  rsaSelector: string;
  rsaPrivateKey: Buffer;
  ed25519Selector: string;
  ed25519PrivateKey: Buffer;
  rsaPublished: boolean;
  ed25519Verified: boolean;
  previousRsaSelector: string | null;
  previousRsaPrivateKey: Buffer | null;
  previousEd25519Selector: string | null;
  previousEd25519PrivateKey: Buffer | null;
};

const LOAD_KEYS = `
select name as domain, rsa_selector as "rsaSelector", rsa_private_key as "rsaPrivateKey",
       ed25519_selector as "ed25519Selector", ed25519_private_key as "ed25519PrivateKey",
       rsa_published as "rsaPublished", ed25519_verified as "ed25519Verified",
       previous_rsa_selector as "previousRsaSelector", previous_rsa_private_key as "previousRsaPrivateKey",
       previous_ed25519_selector as "previousEd25519Selector",
       previous_ed25519_private_key as "previousEd25519PrivateKey"
  from domains where project_id = $1 and id = $2`;

export async function loadSigningKeys(
  db: Queryable,
  projectId: string,
  domainId: string,
): Promise<SealedKeys | null> {
  const rows = await db.query<SealedKeys>(LOAD_KEYS, [projectId, domainId]);
  return rows[0] ?? null;
}

const WAITING = `
select count(*)::int as count
  from (select from queue
          join emails on emails.project_id = queue.project_id and emails.id = queue.email_id
         where queue.project_id = $1 and queue.environment = $2 and emails.domain_id = $3
         limit ${WAITING_SHOWN_MAX + 1}) waiting`;

/** Counts the recipients that wait for mail of the domain. Stops at WAITING_SHOWN_MAX + 1. */
export async function countWaiting(
  db: Queryable,
  { projectId, environment }: DomainScope,
  domainId: string,
): Promise<number> {
  const [row] = await db.query<{ count: number }>(WAITING, [projectId, environment, domainId]);
  return row?.count ?? 0;
}
