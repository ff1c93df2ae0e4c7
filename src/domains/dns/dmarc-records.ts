/** Finds and reads DMARC records (RFC 9989). */
import { type DnsLookups, organizationOf } from './zone-names.ts';

export type DmarcRecords =
  /** `at` is the domain that publishes the records. Each is a DMARC record, perhaps with mistakes. */
  { kind: 'records'; at: string; texts: readonly string[] } | { kind: 'error'; message: string };

/**
 * Looks up the DMARC records of a domain. Falls back to the domain's organization (RFC 9989). Returns null when neither
 * has a record.
 */
export async function findDmarcRecords(
  name: string,
  lookups: Pick<DnsLookups, 'txt'>,
): Promise<DmarcRecords | null> {
  for (const at of new Set([name, organizationOf(name)])) {
    const response = await lookups.txt(`_dmarc.${at}`);
    if (response.kind === 'error') return response;
    const texts = response.kind === 'records' ? response.records : [];
    const candidates = texts.filter((text) => /dmarc1/i.test(text));
    if (candidates.length > 0) return { kind: 'records', at, texts: candidates };
  }
  return null;
}

export function isDmarc(text: string): boolean {
  return /^v\s*=\s*DMARC1\s*(;|$)/.test(text);
}

/** Returns the values by tag, in lower case. */
export function parseDmarcTags(text: string): ReadonlyMap<string, string> {
  return new Map(
    text.split(';').map((tag): [string, string] => {
      const [name = '', value = ''] = tag.split('=');
      return [name.trim().toLowerCase(), value.trim().toLowerCase()];
    }),
  );
}
