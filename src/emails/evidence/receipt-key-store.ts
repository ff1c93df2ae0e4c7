/** The keys that sign case files: one is current, and earlier ones remain for the files that they signed. */
import type { Queryable } from '../../database/database.ts';

export type StoredReceiptKey = {
  id: string;
  /** Base64 of 32 octets. */
  publicKey: string;
  /** Sealed with the secret key, for the id. */
  privateKey: Buffer;
  createdAt: Date;
  retiredAt: Date | null;
};

const LIST = `
select id, public_key as "publicKey", private_key as "privateKey", created_at as "createdAt",
       retired_at as "retiredAt"
  from receipt_keys
 order by retired_at desc nulls first, created_at desc`;

/** Returns the current key first, if there is one. */
export function listReceiptKeys(db: Queryable): Promise<StoredReceiptKey[]> {
  return db.query<StoredReceiptKey>(LIST);
}

const ADD = `
insert into receipt_keys (id, public_key, private_key, created_at) values ($1, $2, $3, app_now())
on conflict do nothing`;

/** Adds a current key, unless another node has added one. */
export async function addReceiptKey(
  db: Queryable,
  { id, publicKey, privateKey }: Pick<StoredReceiptKey, 'id' | 'publicKey' | 'privateKey'>,
): Promise<void> {
  await db.query(ADD, [id, publicKey, privateKey]);
}

const RETIRE = `
update receipt_keys set retired_at = app_now() where id = $1 and retired_at is null`;

export async function retireReceiptKey(db: Queryable, id: string): Promise<void> {
  await db.query(RETIRE, [id]);
}
