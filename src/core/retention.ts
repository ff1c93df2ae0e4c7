/**
 * Retention of content (html, text, attachments) and of metadata (the email with its recipients, timeline and
 * webhook deliveries). The period starts at acceptance. Mail without a final status is kept at any age.
 * database/partitions.ts and retention/retention-store.ts delete the rows.
 */

/** Hours, or null for ever. Content is never kept for longer than metadata. */
export type Retention = { contentH: number | null; metadataH: number | null };

export const DEFAULT_RETENTION = { contentH: 45 * 24, metadataH: 90 * 24 } as const;

/** Days for which counts of mail by hour and by day are kept (stats/counts.ts). */
export const STATS_KEPT_DAYS = { hour: 31, day: 400 } as const;

/** Idempotency keys are valid for 24 hours, and an email must exist as long as its key. */
const HOURS_MIN = 24;
const HOURS_MAX = 100 * 365 * 24;

/** Parses `45d` or `36h` into hours; null for another form or for less than a day. */
export function parsePeriodH(text: string): number | null {
  const match = /^(\d{1,6})([dh])$/i.exec(text.trim());
  if (!match) return null;
  const hours = Number(match[1]) * (match[2]?.toLowerCase() === 'd' ? 24 : 1);
  return hours >= HOURS_MIN && hours <= HOURS_MAX ? hours : null;
}

/** Formats a period as `45d`, `36h` or `ever`. */
export function showPeriod(hours: number | null): string {
  if (hours === null) return 'ever';
  return hours % 24 === 0 ? `${hours / 24}d` : `${hours}h`;
}

/** Returns whether content would be kept for longer than the metadata that says whose it is. */
export function outlivesMetadata({ contentH, metadataH }: Retention): boolean {
  return (contentH ?? Infinity) > (metadataH ?? Infinity);
}

/**
 * Returns why a project cannot have this retention. It may shorten the retention of the installation, not extend it.
 */
export function retentionProblem(own: Retention, longest: Retention): string | null {
  for (const [part, ownH, longestH] of [
    ['content', own.contentH, longest.contentH],
    ['metadata', own.metadataH, longest.metadataH],
  ] as const) {
    if (ownH === null || longestH === null || ownH <= longestH) continue;
    const variable = `LETTERHAUS_RETENTION_${part.toUpperCase()}`;
    return `This installation keeps ${part} for ${showPeriod(longestH)} (${variable}); a project can only shorten this.`;
  }
  if (own.contentH === null || own.metadataH === null || !outlivesMetadata(own)) return null;
  return 'Content cannot be kept for longer than metadata; set both.';
}

export function retentionInEffect(own: Retention, longest: Retention): Retention {
  const metadataH = own.metadataH ?? longest.metadataH;
  const contentH = own.contentH ?? longest.contentH;
  const hours = [contentH, metadataH].filter((period) => period !== null);
  return { contentH: hours.length === 0 ? null : Math.min(...hours), metadataH };
}
