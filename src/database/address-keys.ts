/**
 * The comparing form of stored addresses: addressKey (mail/address.ts), which only TypeScript computes, because
 * PostgreSQL folds letters by the locale and version of each server. SQL compares its bytes.
 *
 * Lists of suppressions have a column for it. Mail has one only for addresses outside of ASCII: the form of others is
 * `lower(address collate "C")`, so that they cost nothing.
 */
import { type Address, addressKey, needsSmtpUtf8 } from '../mail/address.ts';
import type { Queryable } from './database.ts';

/** SQL: the form of a row of `recipients`. */
export const keyOf = (row: string): string =>
  `coalesce(${row}.address_key, lower(${row}.address collate "C"))`;

/** The value of the column; null for an address in ASCII. */
export function storedKeyOf({ address, addressKey: key }: Addressed): string | null {
  return needsSmtpUtf8(address) ? (key ?? addressKey(address)) : null;
}

type Addressed = { address: Address; addressKey?: string };

/**
 * SQL: the conditions for recipients of project $1 by an index: by the address, for those in ASCII, and by the form, for
 * others. Either index has a hash of both, which may collide, so they are compared as well.
 * @param key a parameter with the form
 */
export const BY_INDEX = {
  address: (key: string): string => `
           hashtextextended(project_id::text || lower(address collate "C"), 0)
             = hashtextextended($1::uuid::text || ${key}::text, 0)
       and project_id::text = $1::uuid::text and lower(address collate "C") = ${key}::text
       and address_key is null`,
  key: (key: string): string => `
           hashtextextended(project_id::text || address_key, 0)
             = hashtextextended($1::uuid::text || ${key}::text, 0)
       and project_id::text = $1::uuid::text and address_key = ${key}::text`,
} as const;

export type AddressIndex = keyof typeof BY_INDEX;

const FIND_KEYED = `select from recipients where ${BY_INDEX.key('$2')} limit 1`;

/**
 * The indexes that have recipients with this form. A form in ASCII may be that of an address which is not: `ss` of `ß`.
 * One index is the rule, because the rows of both have to be sorted.
 */
export async function indexesOf(
  db: Queryable,
  { projectId, key }: { projectId: string; key: string },
): Promise<readonly AddressIndex[]> {
  if (/[\u0080-\uffff]/.test(key)) return ['key'];
  const keyed = await db.query(FIND_KEYED, [projectId, key]);
  return keyed.length === 0 ? ['address'] : ['address', 'key'];
}
