/**
 * The form in which stored addresses are compared: `addressKey` (mail/address.ts). Only TypeScript computes it, because
 * PostgreSQL folds letters by the locale and version of each server. SQL compares its bytes.
 *
 * Suppression lists store the form in a column. Mail stores it only for addresses outside ASCII. For all others it is
 * `lower(address collate "C")`, which takes no space.
 */
import { type Address, addressKey, needsSmtpUtf8 } from '../mail/address.ts';
import type { Queryable } from './database.ts';

/** @param row the alias of a row of recipients in the statement */
export const addressKeySql = (row: string): string =>
  `coalesce(${row}.address_key, lower(${row}.address collate "C"))`;

/** Returns the form that the row of a recipient stores; null for an address in ASCII. */
export function storedAddressKey(recipient: {
  address: Address;
  addressKey?: string;
}): string | null {
  const { address, addressKey: key } = recipient;
  return needsSmtpUtf8(address) ? (key ?? addressKey(address)) : null;
}

/**
 * SQL conditions that find recipients of project $1 by an index: `address` for addresses in ASCII, `key` for others.
 * Each index is on a hash, which may collide, so the conditions compare the values as well.
 * @param key the parameter that has the form
 */
export const INDEX_CONDITIONS = {
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

export type AddressIndex = keyof typeof INDEX_CONDITIONS;

const FIND_BY_KEY = `select from recipients where ${INDEX_CONDITIONS.key('$2')} limit 1`;

/**
 * Returns the indexes that have recipients with this form. An address outside ASCII may have a form in ASCII: `ß`
 * becomes `ss`. Usually there is one index; with two, PostgreSQL has to sort the rows of both.
 */
export async function findAddressIndexes(
  db: Queryable,
  { projectId, key }: { projectId: string; key: string },
): Promise<readonly AddressIndex[]> {
  if (/[\u0080-\uffff]/.test(key)) return ['key'];
  const keyed = await db.query(FIND_BY_KEY, [projectId, key]);
  return keyed.length === 0 ? ['address'] : ['address', 'key'];
}
