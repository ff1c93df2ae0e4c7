/**
 * Whom mail that comes in may be for: the signed return path of an email that we sent, the address at
 * which its recipient unsubscribes, and the addresses that every mail domain has (RFC 2142). Everything else is refused: this is no mailbox
 * and no relay.
 */
import { readReturnPath, readUnsubscribeAddress } from '../mail/return-path.ts';
import type { Queryable } from '../store/postgres/database.ts';
import { findSentRecipient, hasDomain, type SentRecipient } from '../store/inbound.ts';

export type Addressee =
  | { kind: 'recipient'; recipient: SentRecipient }
  /** Whoever wrote wants this recipient to get no more mail. */
  | { kind: 'unsubscribe'; recipient: SentRecipient }
  /** `abuse@`, `fbl@`, ... of a return-path domain: people read it, complaints are settled. */
  | { kind: 'role' }
  | { kind: 'forged' | 'expired' | 'unknown' };

const ROLES: ReadonlySet<string> = new Set(['abuse', 'fbl', 'postmaster', 'dmarc', 'tlsrpt']);
const RETURN_PATH_DOMAIN = /^send\.([a-z0-9.-]{1,250})$/;

/** `secrets`: return paths were signed with one of them. */
export type AddressBook = { db: Queryable; secrets: () => readonly Buffer[] };

/** @throws DatabaseUnavailable */
export async function addresseeOf(
  address: string,
  { db, secrets }: AddressBook,
): Promise<Addressee> {
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
  // Unsubscribing does not grow old: it is as good as long as we know the email.
  if (reported === null) return { kind: 'unsubscribe', recipient };
  return recipient.isTooOld ? { kind: 'expired' } : { kind: 'recipient', recipient };
}

/** Whom it names, if it was signed with one of these secrets. */
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

/** Whether this is an address that only we make: mail that has one for its sender goes in circles. */
export function isOwnAddress(address: string, secrets: readonly Buffer[]): boolean {
  const localPart = address.slice(0, address.lastIndexOf('@'));
  if (!looksSigned(localPart)) return false;
  return [readReturnPath, readUnsubscribeAddress].some(
    (read) => readWith(read, localPart, secrets) !== null,
  );
}
