/**
 * Retention of mail: content (html, text, attachments) and metadata (the email with its recipients,
 * timeline and webhook deliveries). Counts from acceptance; mail that has not ended is kept at any age.
 * database/partitions.ts and retention/retention-store.ts remove.
 */

/** In hours; null: forever. Content is never kept for longer than metadata. */
export type Retention = { contentH: number | null; metadataH: number | null };

export const DEFAULT_RETENTION = { contentH: 45 * 24, metadataH: 90 * 24 } as const;

/** Idempotency keys are valid for 24 hours, and an email is kept as long as its key. */
const HOURS_MIN = 24;
const HOURS_MAX = 100 * 365 * 24;

/** Parses `45d` or `36h` into hours; null for another form or less than a day. */
export function parsePeriodH(text: string): number | null {
  const match = /^(\d{1,6})([dh])$/i.exec(text.trim());
  if (!match) return null;
  const hours = Number(match[1]) * (match[2]?.toLowerCase() === 'd' ? 24 : 1);
  return hours >= HOURS_MIN && hours <= HOURS_MAX ? hours : null;
}

/** `45d`, `36h`, `ever`. */
export function showPeriod(hours: number | null): string {
  if (hours === null) return 'ever';
  return hours % 24 === 0 ? `${hours / 24}d` : `${hours}h`;
}

/** Whether content would be kept for longer than the metadata that names its owner. */
export function outlivesMetadata({ contentH, metadataH }: Retention): boolean {
  return (contentH ?? Infinity) > (metadataH ?? Infinity);
}
