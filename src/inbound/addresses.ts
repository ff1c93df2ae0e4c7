/**
 * The addresses that accept mail: the signed return path of a sent email, its unsubscribe address, and
 * the role addresses of mail domains (RFC 2142). All others are refused: there are no mailboxes and
 * nothing is relayed.
 */
import { parseAddress } from '../mail/address.ts';
import { readReturnPath, readUnsubscribeAddress } from '../mail/links/return-path.ts';
import type { Queryable } from '../database/database.ts';
import { findSentRecipient, hasDomain, type SentRecipient } from './report-store.ts';

export type Addressee =
  | { kind: 'recipient'; recipient: SentRecipient }
  /** The sender requests that this recipient gets no more mail. */
  | { kind: 'unsubscribe'; recipient: SentRecipient }
  /** `abuse@`, `fbl@`, … of a return-path domain. Operators read this mail; complaints are processed. */
  | { kind: 'role' }
  | { kind: 'forged' | 'expired' | 'unknown' };

const ROLES: ReadonlySet<string> = new Set(['abuse', 'fbl', 'postmaster', 'dmarc', 'tlsrpt']);
/** Each server takes mail to its postmaster without a domain, too (RFC 5321 §4.5.1). */
const POSTMASTER = /^"?postmaster"?$/i;
const RETURN_PATH_DOMAIN = /^send\.([a-z0-9.-]{1,250})$/;

/** `secrets`: the keys that may have signed a return path. */
export type AddressBook = { db: Queryable; secrets: () => readonly Buffer[] };

/**
 * @param written as in RCPT: `"b-token"@send.acme.com` is the same address as without quotes (RFC 5321 §4.1.2)
 * @throws DatabaseUnavailable
 */
export async function addresseeOf(
  written: string,
  { db, secrets }: AddressBook,
): Promise<Addressee> {
  if (POSTMASTER.test(written)) return { kind: 'role' };
  const address = parseAddress(written) ?? written;
  const at = address.lastIndexOf('@');
  const localPart = address.slice(0, at);
  const domain = RETURN_PATH_DOMAIN.exec(address.slice(at + 1).toLowerCase())?.[1];
  if (domain === undefined) return { kind: 'unknown' };
  if (ROLES.has(localPart.toLowerCase())) {
    return { kind: (await hasDomain(db, domain)) ? 'role' : 'unknown' };
  }
  if (!looksSigned(localPart)) return { kind: 'unknown' };
  const known = secrets();
  const reported = readWith(readReturnPath, localPart, known);
  const token = reported ?? readWith(readUnsubscribeAddress, localPart, known);
  if (token === null) return { kind: 'forged' };
  const recipient = await findSentRecipient(db, { ...token, domain });
  if (recipient === null) return { kind: 'expired' };
  // An unsubscribe address does not expire while the email is stored.
  if (reported === null) return { kind: 'unsubscribe', recipient };
  return recipient.isTooOld ? { kind: 'expired' } : { kind: 'recipient', recipient };
}

/** The recipient that the address names if one of the keys signed it; else null. */
function readWith(
  read: typeof readReturnPath,
  localPart: string,
  secrets: readonly Buffer[],
): ReturnType<typeof readReturnPath> {
  for (const secret of secrets) {
    const token = read(localPart, secret);
    if (token !== null) return token;
  }
  return null;
}

function looksSigned(localPart: string): boolean {
  return /^[bu]-/i.test(localPart);
}

/** Whether this is an address of ours. A message from such a sender is part of a mail loop. */
export function isOwnAddress(written: string, secrets: readonly Buffer[]): boolean {
  const address = parseAddress(written) ?? written;
  const localPart = address.slice(0, address.lastIndexOf('@'));
  if (!looksSigned(localPart)) return false;
  return [readReturnPath, readUnsubscribeAddress].some(
    (read) => readWith(read, localPart, secrets) !== null,
  );
}
