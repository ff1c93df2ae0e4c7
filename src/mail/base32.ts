/**
 * Base32 (RFC 4648 §6) in lower case and without padding: for what mail systems may change the case
 * of. Whole groups only (5 bytes, 8 characters): then every text has one meaning, and no other text
 * has the same.
 */

const ALPHABET = 'abcdefghijklmnopqrstuvwxyz234567';
const GROUP_BYTES = 5;
const GROUP_CHARACTERS = 8;

/** @param bytes a multiple of 5 */
export function toBase32(bytes: Buffer): string {
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

/** Upper case counts as lower case. Null for what toBase32 cannot have made. */
export function fromBase32(text: string): Buffer | null {
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
