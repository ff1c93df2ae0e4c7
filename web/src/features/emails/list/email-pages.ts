/**
 * Pages of emails, newest first, and the merge of refreshed parts into the shown list. The rows are contiguous: no
 * email of the list is missing between two of them. So a refresh reads each part of the list that has events
 * (`partsToRead`), and new rows down to the newest known one.
 */
import type { EmailList, EmailSummary } from '../../../../../sdk/src/api.ts';

export type EmailPage = EmailList;

export const PAGE = 50;

/** Returns `after` of the next page, or undefined after the last one. A search returns how far it has searched. */
export function nextAfter({ data, has_more: hasMore, scanned_until: scanned }: EmailPage) {
  return hasMore ? (scanned ?? data.at(-1)?.id) : undefined;
}

/** Parts of the list to read, each of them from its beginning until it has passed the id `until`. */
export type Part = {
  /** The row before it; undefined: the beginning of the list. */
  after: string | undefined;
  until: string;
};

/**
 * Returns the parts of the list in which these emails are, newest first. The first one closes the gap between new
 * rows and the known ones. Emails that are older than the rows are not shown, so they need no reading.
 */
export function partsToRead(pages: readonly EmailPage[], touched: Iterable<string>): Part[] {
  const rows = pages.flatMap(({ data }) => data);
  const end = endOf(pages);
  const parts: Part[] = [];
  let place = 0;
  for (const id of [...new Set(touched)].toSorted().toReversed()) {
    if (end !== undefined && id < end) break;
    while (place < rows.length && rows[place]!.id > id) place += 1;
    const first = Math.floor(place / PAGE) * PAGE;
    const after = rows[first - 1]?.id;
    const isNew = first === 0;
    const until = isNew && rows[0] && rows[0].id < id ? rows[0].id : id;
    const last = parts.at(-1);
    if (last !== undefined && last.after === after)
      last.until = until < last.until ? until : last.until;
    else parts.push({ after, until });
  }
  return parts;
}

/** Replaces the rows of one part by those that were read again. @param read consecutive pages, at least one */
export function withPart(
  pages: readonly EmailPage[],
  after: string | undefined,
  read: readonly EmailPage[],
): EmailPage[] {
  const last = read.at(-1)!;
  const until = nextAfter(last);
  const isRead = (id: string): boolean =>
    (after === undefined || id < after) && (until === undefined || id >= until);
  const kept = pages.flatMap(({ data }) => data).filter(({ id }) => !isRead(id));
  const rows = [...kept, ...read.flatMap(({ data }) => data)].toSorted((one, other) =>
    one.id < other.id ? 1 : -1,
  );
  const end = endOf(pages);
  const isToEnd = until === undefined || (end !== undefined && until < end) || pages.length === 0;
  return inPages(rows, isToEnd ? last : pages.at(-1)!);
}

/** The cursor after the last row; undefined when the list has no more. */
function endOf(pages: readonly EmailPage[]): string | undefined {
  const last = pages.at(-1);
  return last && nextAfter(last);
}

/** Pages of the size that is read, so that reading all of them again gets the same rows. */
function inPages(rows: readonly EmailSummary[], end: EmailPage): EmailPage[] {
  const count = Math.max(1, Math.ceil(rows.length / PAGE));
  return Array.from({ length: count }, (_, index) => {
    const data = rows.slice(index * PAGE, (index + 1) * PAGE);
    if (index < count - 1) return { object: 'list', data, has_more: true, scanned_until: null };
    return { ...end, data, scanned_until: end.has_more ? (nextAfter(end) ?? null) : null };
  });
}

/** Returns what was read from the beginning of the list as one page, which ends where the shown one did. */
export function asFirst(read: readonly EmailPage[], shown: EmailPage): EmailPage {
  const rows = read.flatMap(({ data }) => data);
  const until = nextAfter(shown);
  if (until === undefined) return { ...read.at(-1)!, data: rows };
  const data = rows.filter(({ id }) => id >= until);
  return { object: 'list', data, has_more: true, scanned_until: until };
}

/** Returns the rows of that many pages; the others are read again when somebody scrolls to them. */
export function firstPages(pages: readonly EmailPage[], count: number): EmailPage[] {
  const rows = pages.flatMap(({ data }) => data);
  const end = pages.at(-1);
  if (end === undefined || rows.length <= count * PAGE) return [...pages];
  const more: EmailPage = { object: 'list', data: [], has_more: true, scanned_until: null };
  return inPages(rows.slice(0, count * PAGE), more);
}

/** The rows up to the one that was the newest when reading began. @param newest null: all are shown */
export function rowsUpTo(
  rows: readonly EmailSummary[],
  newest: string | null,
): readonly EmailSummary[] {
  return newest === null ? rows : rows.filter(({ id }) => id <= newest);
}
