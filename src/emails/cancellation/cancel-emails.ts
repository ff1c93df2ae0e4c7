/**
 * Cancels many scheduled emails for one request: some by their ids, or all matches of a filter, newest first. Each
 * email has a separate transaction (schedule-store.ts), so it stays canceled when a later one fails.
 *
 * Guarantee: only emails whose time has not come are canceled. A filter may match more than one request can cancel in a
 * few seconds; the client then continues from a position.
 */
import type { Database } from '../../database/database.ts';
import type { Page } from '../../database/page.ts';
import { findEmail, type EmailRef } from '../email-store.ts';
import { type EmailFilter, listEmails } from '../list/email-list-store.ts';
import { cancelIfAhead } from '../schedule-store.ts';

/** Emails that one read of the list returns. */
const PAGE_EMAILS = 100;

export type Canceled = {
  /** Scheduled emails that the request names. */
  found: number;
  canceled: number;
  /** Where to continue; null when all are canceled. */
  next: string | null;
};

export type CancellationContext = {
  db: Database;
  /** The caller's project, environment and restrictions. */
  caller: Omit<EmailRef, 'id'>;
  /** Returns false when the time of the request is over. */
  mayContinue: () => boolean;
};

/** Ignores ids of emails that do not exist for the caller, or are no longer scheduled. */
export async function cancelSelected(
  { db, caller }: CancellationContext,
  ids: readonly string[],
): Promise<Canceled> {
  const sum = { found: 0, canceled: 0 };
  for (const id of new Set(ids)) {
    const ref = { ...caller, id };
    const email = await findEmail(db, ref, 0);
    if (email?.status !== 'scheduled') continue;
    sum.found += 1;
    if (await cancelOne(db, ref)) sum.canceled += 1;
  }
  return { ...sum, next: null };
}

/** @param from the `next` of the previous request */
export async function cancelMatches(
  { db, caller, mayContinue }: CancellationContext,
  { filter, from }: { filter: EmailFilter; from: string | null },
): Promise<Canceled> {
  const sum = { found: 0, canceled: 0 };
  const page: Page = { limit: PAGE_EMAILS, after: from, before: null };
  const scheduled: EmailFilter = { ...filter, status: 'scheduled' };
  do {
    const { rows, hasMore, scannedUntil } = await listEmails(db, caller, {
      page,
      filter: scheduled,
    });
    for (const { id } of rows) {
      sum.found += 1;
      if (await cancelOne(db, { ...caller, id })) sum.canceled += 1;
      page.after = id;
      if (!mayContinue()) return { ...sum, next: id };
    }
    if (!hasMore) return { ...sum, next: null };
    page.after = scannedUntil ?? page.after;
  } while (mayContinue());
  return { ...sum, next: page.after };
}

/** Returns false when its time has come since it was read: a worker may have leased it, or deferred it. */
async function cancelOne(db: Database, ref: EmailRef): Promise<boolean> {
  return ((await cancelIfAhead(db, ref))?.canceled ?? 0) > 0;
}
