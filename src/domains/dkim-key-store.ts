/**
 * The next and the previous DKIM keys of a domain. The next keys wait until their record is published. The previous
 * keys signed before the current ones. Callers lock the row (`lockDomain`), so that a switch and the end of a
 * rotation cannot both use the next keys.
 */
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

/**
 * Stores the next keys.
 * @param options.records all records of the domain, including the records of the next keys
 */
export function beginRotation(
  tx: Queryable,
  domain: DomainRow,
  { keys, records }: { keys: NewKeys; records: unknown[] },
): Promise<StoredDomain> {
  return updateKeys(tx, BEGIN, [
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

/** Deletes the next keys. They have signed nothing, so no record of them is kept. */
export function cancelRotation(
  tx: Queryable,
  { projectId, id }: DomainRow,
  records: unknown[],
): Promise<StoredDomain> {
  return updateKeys(tx, CANCEL, [projectId, id, JSON.stringify(records)]);
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

/** Makes the next keys current. The caller then saves the result of the check that found their record. */
export function switchKeys(tx: Queryable, { projectId, id }: DomainRow): Promise<StoredDomain> {
  return updateKeys(tx, SWITCH, [projectId, id]);
}

async function updateKeys(
  tx: Queryable,
  statement: string,
  values: unknown[],
): Promise<StoredDomain> {
  const [row] = await tx.query<StoredDomain>(statement, values);
  if (!row) throw new Error('a domain whose keys changed was not returned');
  return row;
}
