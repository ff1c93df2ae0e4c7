/**
 * The DKIM keys of a domain beside the present ones: those that wait for their record, and those that signed before.
 * Callers hold the row (lockDomain), so that of a switch and the end of a rotation one finds the next keys.
 */
import { WAITING_SHOWN_MAX } from './limits.ts';
import type { Reach } from '../core/scope.ts';
import { DOMAIN_COLUMNS, type NewDomain, type StoredDomain } from './domain-store.ts';
import type { Queryable } from '../database/database.ts';

export type NewKeys = Pick<
  NewDomain,
  | 'rsaSelector'
  | 'rsaPublicKey'
  | 'rsaPrivateKey'
  | 'ed25519Selector'
  | 'ed25519PublicKey'
  | 'ed25519PrivateKey'
>;

type DomainRow = Pick<StoredDomain, 'projectId' | 'id'>;

const BEGIN = `
update domains
   set next_since = app_now(), records = $9,
       next_rsa_selector = $3, next_rsa_public_key = $4, next_rsa_private_key = $5,
       next_ed25519_selector = $6, next_ed25519_public_key = $7, next_ed25519_private_key = $8
 where project_id = $1 and id = $2
returning ${DOMAIN_COLUMNS}`;

/** @param next.records of the domain, with those of the keys */
export function beginRotation(
  tx: Queryable,
  domain: DomainRow,
  { keys, records }: { keys: NewKeys; records: unknown[] },
): Promise<StoredDomain> {
  return change(tx, BEGIN, [
    domain.projectId,
    domain.id,
    keys.rsaSelector,
    keys.rsaPublicKey,
    keys.rsaPrivateKey,
    keys.ed25519Selector,
    keys.ed25519PublicKey,
    keys.ed25519PrivateKey,
    JSON.stringify(records),
  ]);
}

const NO_NEXT = `
       next_since = null, next_rsa_selector = null, next_rsa_public_key = null, next_rsa_private_key = null,
       next_ed25519_selector = null, next_ed25519_public_key = null, next_ed25519_private_key = null`;

const CANCEL = `
update domains
   set records = $3,${NO_NEXT}
 where project_id = $1 and id = $2
returning ${DOMAIN_COLUMNS}`;

/** The next keys have signed nothing, so nothing of them is kept. */
export function cancelRotation(
  tx: Queryable,
  { projectId, id }: DomainRow,
  records: unknown[],
): Promise<StoredDomain> {
  return change(tx, CANCEL, [projectId, id, JSON.stringify(records)]);
}

const SWITCH = `
update domains
   set previous_until = app_now(), dkim_since = app_now(),
       previous_rsa_selector = rsa_selector, previous_rsa_public_key = rsa_public_key,
       previous_rsa_private_key = rsa_private_key, previous_ed25519_selector = ed25519_selector,
       previous_ed25519_public_key = ed25519_public_key, previous_ed25519_private_key = ed25519_private_key,
       rsa_selector = next_rsa_selector, rsa_public_key = next_rsa_public_key,
       rsa_private_key = next_rsa_private_key, ed25519_selector = next_ed25519_selector,
       ed25519_public_key = next_ed25519_public_key, ed25519_private_key = next_ed25519_private_key,
       rsa_published = true, ed25519_verified = false,${NO_NEXT}
 where project_id = $1 and id = $2
returning ${DOMAIN_COLUMNS}`;

/** The next keys become the present ones. The result of the check that found their record is saved after it. */
export function switchKeys(tx: Queryable, { projectId, id }: DomainRow): Promise<StoredDomain> {
  return change(tx, SWITCH, [projectId, id]);
}

async function change(tx: Queryable, statement: string, values: unknown[]): Promise<StoredDomain> {
  const [row] = await tx.query<StoredDomain>(statement, values);
  if (!row) throw new Error('a domain whose keys changed was not returned');
  return row;
}

const WAITING = `
select count(*)::int as count
  from (select from queue q
          join emails e on e.project_id = q.project_id and e.id = q.email_id
         where q.project_id = $1 and q.environment = $2 and e.domain_id = $3
         limit ${WAITING_SHOWN_MAX + 1}) waiting`;

/** How many recipients wait for mail of the domain, up to WAITING_SHOWN_MAX and one. */
export async function countWaiting(
  db: Queryable,
  { projectId, environment }: Reach,
  domainId: string,
): Promise<number> {
  const [row] = await db.query<{ count: number }>(WAITING, [projectId, environment, domainId]);
  return row?.count ?? 0;
}
