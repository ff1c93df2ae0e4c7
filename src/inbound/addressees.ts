/**
 * The addresses that accept mail: the signed return path of a sent email, its unsubscribe address, and the role
 * addresses of mail domains (RFC 2142). All others are refused: there are no mailboxes and nothing is relayed.
 */
import { parseAddress } from '../mail/address.ts';
import { readReturnPath, readUnsubscribeAddress } from '../mail/links/return-path.ts';
import type { Queryable } from '../database/database.ts';
import { findSentRecipient, hasDomain, type SentRecipient } from './report-store.ts';

export type Addressee =
  | { kind: 'recipient'; recipient: SentRecipient }
  | { kind: 'unsubscribe'; recipient: SentRecipient }
  /** `abuse@`, `fbl@`, … of a return-path domain. Operators read this mail. Complaints are processed. */
  | {
      kind: 'role';
      /** The domain whose reports about DMARC come to this address; null for other addresses. */
      dmarcOf: string | null;
    }
  | { kind: 'forged' | 'expired' | 'unknown' };

const ROLES: ReadonlySet<string> = new Set(['abuse', 'fbl', 'postmaster', 'dmarc', 'tlsrpt']);
/** Every server must accept mail to its postmaster, even without a domain (RFC 5321 §4.5.1). */
const POSTMASTER = /^"?postmaster"?$/i;
const RETURN_PATH_DOMAIN = /^send\.([a-z0-9.-]{1,250})$/;

export type AddressBook = { db: Queryable; secrets: () => readonly Buffer[] };

/**
 * @param raw address as in RCPT; quotes do not matter: `"b-token"@send.acme.com` (RFC 5321 §4.1.2)
 * @throws DatabaseUnavailable
 */
export async function addresseeOf(raw: string, { db, secrets }: AddressBook): Promise<Addressee> {
  if (POSTMASTER.test(raw)) return { kind: 'role', dmarcOf: null };
  const address = parseAddress(raw) ?? raw;
  const at = address.lastIndexOf('@');
  const localPart = address.slice(0, at);
  const domain = RETURN_PATH_DOMAIN.exec(address.slice(at + 1).toLowerCase())?.[1];
  if (domain === undefined) return { kind: 'unknown' };
  if (ROLES.has(localPart.toLowerCase())) {
    if (!(await hasDomain(db, domain))) return { kind: 'unknown' };
    return { kind: 'role', dmarcOf: localPart.toLowerCase() === 'dmarc' ? domain : null };
  }
  if (!looksSigned(localPart)) return { kind: 'unknown' };
  const validSecrets = secrets();
  const returnPath = readWithAny(readReturnPath, localPart, validSecrets);
  const token = returnPath ?? readWithAny(readUnsubscribeAddress, localPart, validSecrets);
  if (token === null) return { kind: 'forged' };
  const recipient = await findSentRecipient(db, { ...token, domain });
  if (recipient === null) return { kind: 'expired' };
  // An unsubscribe address does not expire while the email is stored.
  if (returnPath === null) return { kind: 'unsubscribe', recipient };
  return recipient.isTooOld ? { kind: 'expired' } : { kind: 'recipient', recipient };
}

function readWithAny(
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

/** Returns whether this service signed the address. A message from such a sender is part of a mail loop. */
export function isOwnAddress(raw: string, secrets: readonly Buffer[]): boolean {
  const address = parseAddress(raw) ?? raw;
  const localPart = address.slice(0, address.lastIndexOf('@'));
  if (!looksSigned(localPart)) return false;
  return [readReturnPath, readUnsubscribeAddress].some(
    (read) => readWithAny(read, localPart, secrets) !== null,
  );
}
