/**
 * Return paths: `b-<token>@send.acme.com` (RFC 5321 §4.4). The token names a recipient of an email
 * and is signed, so that a bounce finds its recipient and nobody can make one up: 16 bytes of email
 * id, 1 of position, 13 of HMAC-SHA256 (104 bits), in base32 because some systems change the case
 * of local parts. 50 of the 64 octets that a local part may have.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { fromBase32, toBase32 } from './base32.ts';

const PREFIX = 'b-';
const ID_BYTES = 16;
const NAMED_BYTES = ID_BYTES + 1;
const MAC_BYTES = 13;

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

export function makeReturnPath(options: {
  /** UUID in lower case. */
  emailId: string;
  /** Of the recipient within the email, 0 to 255. */
  position: number;
  domain: string;
  secret: Buffer;
}): string {
  const { emailId, position, domain, secret } = options;
  if (!UUID.test(emailId)) throw new Error('a return path needs the UUID of an email');
  const named = Buffer.alloc(NAMED_BYTES);
  named.write(emailId.replaceAll('-', ''), 'hex');
  named.writeUInt8(position, ID_BYTES);
  return `${PREFIX}${toBase32(Buffer.concat([named, macOf(named, secret)]))}@${domain}`;
}

/** The recipient that a return path names; null when it was not made with this secret. */
export function readReturnPath(
  localPart: string,
  secret: Buffer,
): { emailId: string; position: number } | null {
  if (localPart.slice(0, PREFIX.length).toLowerCase() !== PREFIX) return null;
  const token = fromBase32(localPart.slice(PREFIX.length));
  if (token?.length !== NAMED_BYTES + MAC_BYTES) return null;
  const named = token.subarray(0, NAMED_BYTES);
  if (!timingSafeEqual(token.subarray(NAMED_BYTES), macOf(named, secret))) return null;
  const id = named.toString('hex', 0, ID_BYTES);
  const emailId = id.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
  return { emailId, position: named.readUInt8(ID_BYTES) };
}

function macOf(named: Buffer, secret: Buffer): Buffer {
  return createHmac('sha256', secret).update(named).digest().subarray(0, MAC_BYTES);
}
