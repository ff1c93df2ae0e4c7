/** The records of a domain as lines of a zone file (RFC 1035 §5), which DNS servers and providers import. */
import type { Domain, DomainRecord } from '../../../../sdk/src/api.ts';

/** Limit of one string in a TXT record. */
const STRING_BYTES_MAX = 255;

export function zoneFileOf({ name, records }: Pick<Domain, 'name' | 'records'>): string {
  const lines = records.map(lineOf);
  return [`; Records for sending from ${name}`, ...lines, ''].join('\n');
}

function lineOf({ name, type, ttl, value, priority, required }: DomainRecord): string {
  const seconds = typeof ttl === 'number' ? ` ${ttl}` : '';
  const data = type === 'TXT' ? stringsOf(value) : `${value.replace(/\.$/, '')}.`;
  const preference = priority === undefined ? '' : `${priority} `;
  const note = required ? '' : ' ; optional';
  return `${name.replace(/\.$/, '')}.${seconds} IN ${type} ${preference}${data}${note}`;
}

function stringsOf(text: string): string {
  const pieces = text.match(new RegExp(`[^]{1,${STRING_BYTES_MAX}}`, 'g')) ?? [''];
  return pieces.map((piece) => `"${piece.replaceAll(/["\\]/g, String.raw`\$&`)}"`).join(' ');
}
