/** Writes DNS records as zone files and providers do, and decides whether two records are the same. Pure. */

export type DnsRecordType = 'A' | 'AAAA' | 'CNAME' | 'MX' | 'TXT';

/**
 * @property name complete, without trailing dot
 * @property value an MX has the form `10 host`; a TXT is the whole text, without quotes; hosts have no trailing dot
 */
export type DnsRecord = { name: string; type: DnsRecordType; value: string; ttlS: number };

const TYPES: readonly DnsRecordType[] = ['A', 'AAAA', 'CNAME', 'MX', 'TXT'];
const STRING_BYTES_MAX = 255;

export function asRecordType(text: string): DnsRecordType | null {
  return TYPES.find((type) => type === text) ?? null;
}

/** Names are compared without case and trailing dot. A TXT is compared exactly. */
export function isSameRecord(
  a: Pick<DnsRecord, 'name' | 'type' | 'value'>,
  b: Pick<DnsRecord, 'name' | 'type' | 'value'>,
): boolean {
  if (a.type !== b.type || plainName(a.name) !== plainName(b.name)) return false;
  return a.type === 'TXT' ? a.value === b.value : plainName(a.value) === plainName(b.value);
}

export function plainName(text: string): string {
  return text.toLowerCase().replace(/\.$/, '');
}

/** Returns the value as in a zone file: hosts end with a dot, and a TXT is quoted strings of at most 255 bytes. */
export function toZoneFile({ type, value }: Pick<DnsRecord, 'type' | 'value'>): string {
  if (type === 'TXT') return quoted(value);
  return type === 'MX' || type === 'CNAME' ? `${plainName(value)}.` : value;
}

export function fromZoneFile(type: DnsRecordType, text: string): string {
  if (type === 'TXT') return unquoted(text);
  const [first = '', ...others] = text.trim().split(/\s+/);
  return type === 'MX' ? `${first} ${plainName(others.join(' '))}` : plainName(first);
}

function quoted(text: string): string {
  const bytes = Buffer.from(text);
  const strings: string[] = [];
  for (let at = 0; at === 0 || at < bytes.length; at += STRING_BYTES_MAX) {
    const part = bytes.subarray(at, at + STRING_BYTES_MAX);
    strings.push(`"${Array.from(part, escaped).join('')}"`);
  }
  return strings.join(' ');
}

function escaped(byte: number): string {
  if (byte === 0x22 || byte === 0x5c) return `\\${String.fromCodePoint(byte)}`;
  if (byte >= 0x20 && byte < 0x7f) return String.fromCodePoint(byte);
  return `\\${String(byte).padStart(3, '0')}`;
}

/** Some providers return a TXT without quotes, as it was entered. */
function unquoted(text: string): string {
  if (!text.startsWith('"')) return text;
  const bytes: number[] = [];
  for (const [, string = ''] of text.matchAll(/"((?:[^"\\]|\\.)*)"/gs)) {
    for (const [part, decimal, character] of string.matchAll(/\\(\d{3})|\\(.)|[^\\]/gsu)) {
      if (decimal === undefined) bytes.push(...Buffer.from(character ?? part));
      else bytes.push(Number(decimal) & 0xff);
    }
  }
  return Buffer.from(bytes).toString('utf8');
}
