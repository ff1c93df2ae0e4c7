/** Pages of emails, newest first, and how a newer first page joins those that are shown. */
import type { EmailList, EmailSummary } from '../../../../../sdk/src/api.ts';

export type EmailPage = EmailList;

/** Returns `after` of the next page, or undefined after the last one. A search returns how far it has searched. */
export function nextAfter({ data, has_more: hasMore, scanned_until: scanned }: EmailPage) {
  return hasMore ? (scanned ?? data.at(-1)?.id) : undefined;
}

/** Puts a newer first page before the others. Rows that it pushed out stay, before the next page. */
export function mergeFirst(page: EmailPage, [first, ...rest]: readonly EmailPage[]): EmailPage[] {
  const fresh = new Set(page.data.map(({ id }) => id));
  const last = page.data.at(-1)?.id ?? '';
  const pushed = (first?.data ?? []).filter(({ id }) => !fresh.has(id) && id < last);
  return [
    { ...page, data: [...page.data, ...pushed], has_more: first?.has_more ?? false },
    ...rest,
  ];
}

/** The rows up to the one that was the newest when reading began. @param newest null: all are shown */
export function rowsUpTo(
  rows: readonly EmailSummary[],
  newest: string | null,
): readonly EmailSummary[] {
  return newest === null ? rows : rows.filter(({ id }) => id <= newest);
}
