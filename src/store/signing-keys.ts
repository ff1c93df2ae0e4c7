/** The DKIM keys of a domain, still sealed. Deleted domains keep theirs: old mail stays readable. */
import type { Queryable } from './postgres/database.ts';

export type SealedKeys = {
  domain: string;
  rsaSelector: string;
  rsaPrivateKey: Buffer;
  ed25519Selector: string;
  ed25519PrivateKey: Buffer;
};

const LOAD_KEYS = `
select name as domain, rsa_selector as "rsaSelector", rsa_private_key as "rsaPrivateKey",
       ed25519_selector as "ed25519Selector", ed25519_private_key as "ed25519PrivateKey"
  from domains where project_id = $1 and id = $2`;

export async function loadSigningKeys(
  db: Queryable,
  projectId: string,
  domainId: string,
): Promise<SealedKeys | null> {
  const rows = await db.query<SealedKeys>(LOAD_KEYS, [projectId, domainId]);
  return rows[0] ?? null;
}
