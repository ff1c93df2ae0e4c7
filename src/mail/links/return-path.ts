/**
 * Return paths: `b-<token>@send.acme.com` (RFC 5321 §4.4). The signed token names a recipient of an email, so a
 * bounce identifies its recipient and cannot be forged. It contains 16 bytes of email id, 1 of position and 13 of
 * HMAC-SHA256 (104 bits), in base32, because some systems change the case of local parts. The local part has 50
 * octets of at most 64.
 *
 * Unsubscribe addresses (RFC 2369, `mailto:` in List-Unsubscribe) have the same form, `u-<token>`. Their signature
 * is not valid for return paths.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { UUID_BYTES, uuidBytes, uuidText } from './uuid.ts';

/** The key purpose of return paths and unsubscribe addresses (secrets/secret-box.ts). */
export const RETURN_PATH = 'return path';

const RETURN_PATH_PREFIX = 'b-';
const UNSUBSCRIBE_PREFIX = 'u-';
const RECIPIENT_BYTES = UUID_BYTES + 1;
const MAC_BYTES = 13;

/** `emailId`: a lower-case UUID. `position`: the recipient's place in the email, 0 to 255. */
export type NamedRecipient = { emailId: string; position: number };

type AddressContext = { domain: string; secret: Buffer };

/** Base32 (RFC 4648 §6), lower case, only whole groups (5 bytes, 8 characters): one form per token. */
const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567';
const GROUP_BYTES = 5;
const GROUP_CHARACTERS = 8;

export function makeReturnPath(options: NamedRecipient & AddressContext): string {
  return makeAddress(RETURN_PATH_PREFIX, options);
}

/** Returns the recipient of a return path; null when the signature is invalid. */
export function readReturnPath(localPart: string, secret: Buffer): NamedRecipient | null {
  return readAddress(RETURN_PATH_PREFIX, localPart, secret);
}

export function makeUnsubscribeAddress(options: NamedRecipient & AddressContext): string {
  return makeAddress(UNSUBSCRIBE_PREFIX, options);
}

export function readUnsubscribeAddress(localPart: string, secret: Buffer): NamedRecipient | null {
  return readAddress(UNSUBSCRIBE_PREFIX, localPart, secret);
}

function makeAddress(
  prefix: string,
  { emailId, position, domain, secret }: NamedRecipient & AddressContext,
): string {
  const recipient = Buffer.alloc(RECIPIENT_BYTES);
  uuidBytes(emailId).copy(recipient);
  recipient.writeUInt8(position, UUID_BYTES);
  const token = toBase32(Buffer.concat([recipient, macOf(prefix, recipient, secret)]));
  return `${prefix}${token}@${domain}`;
}

function readAddress(prefix: string, localPart: string, secret: Buffer): NamedRecipient | null {
  if (localPart.slice(0, prefix.length).toLowerCase() !== prefix) return null;
  const token = fromBase32(localPart.slice(prefix.length));
  if (token?.length !== RECIPIENT_BYTES + MAC_BYTES) return null;
  const recipient = token.subarray(0, RECIPIENT_BYTES);
  if (!timingSafeEqual(token.subarray(RECIPIENT_BYTES), macOf(prefix, recipient, secret)))
    return null;
  const emailId = uuidText(recipient.subarray(0, UUID_BYTES));
  return { emailId, position: recipient.readUInt8(UUID_BYTES) };
}

/** For compatibility, the signature of a return path does not cover its prefix. */
function macOf(prefix: string, recipient: Buffer, secret: Buffer): Buffer {
  const hmac = createHmac('sha256', secret).update(recipient);
  if (prefix !== RETURN_PATH_PREFIX) hmac.update(prefix);
  return hmac.digest().subarray(0, MAC_BYTES);
}

/** @param bytes a multiple of 5 bytes */
function toBase32(bytes: Buffer): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += GROUP_BYTES) {
    let group = bytes.readUIntBE(at, GROUP_BYTES);
    let characters = '';
    for (let count = 0; count < GROUP_CHARACTERS; count += 1) {
      characters = ALPHABET[group % 32] + characters;
      group = Math.floor(group / 32);
    }
    text += characters;
  }
  return text;
}

/** Decodes in any case. Returns null for a text that toBase32 cannot produce. */
function fromBase32(text: string): Buffer | null {
  if (text.length % GROUP_CHARACTERS !== 0 || !/^[A-Za-z2-7]*$/.test(text)) return null;
  const digits = Array.from(text.toLowerCase(), (character) => ALPHABET.indexOf(character));
  const bytes = Buffer.alloc((text.length / GROUP_CHARACTERS) * GROUP_BYTES);
  for (let at = 0, group = 0; at < bytes.length; at += GROUP_BYTES, group += GROUP_CHARACTERS) {
    const number = digits
      .slice(group, group + GROUP_CHARACTERS)
      .reduce((sum, digit) => sum * 32 + digit, 0);
    bytes.writeUIntBE(number, at, GROUP_BYTES);
  }
  return bytes;
}
