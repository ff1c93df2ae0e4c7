/** UUIDs as the 16 bytes that tokens in links contain. */

export const UUID_BYTES = 16;

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** @throws unless it is a lower-case UUID */
export function uuidBytes(uuid: string): Buffer {
  if (!UUID.test(uuid)) throw new Error('a token needs UUIDs');
  return Buffer.from(uuid.replaceAll('-', ''), 'hex');
}

/** @param bytes exactly 16 bytes */
export function uuidText(bytes: Buffer): string {
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-');
}
