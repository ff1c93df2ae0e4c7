/**
 * The marks of a reader in the test inbox: emails that are read, and emails that are removed from it. Pure.
 *
 * Ids sort by time, so one id stands for "everything up to now", and only single emails after it are listed.
 */

export type Marks = {
  /** All emails up to this id are read; '' for none. */
  readUntil: string;
  /** Single ones after it, in the order in which they were read. */
  read: readonly string[];
  /** Single ones that were marked as unread. */
  unread: readonly string[];
  removedUntil: string;
  removed: readonly string[];
};

export const NO_MARKS: Marks = {
  readUntil: '',
  read: [],
  unread: [],
  removedUntil: '',
  removed: [],
};

/** Beyond it the oldest are forgotten: they become unread, or appear, again. */
const SINGLE_MAX = 1_000;

export function isUnread({ readUntil, read, unread }: Marks, id: string): boolean {
  return unread.includes(id) || (id > readUntil && !read.includes(id));
}

export function isRemoved({ removedUntil, removed }: Marks, id: string): boolean {
  return id <= removedUntil || removed.includes(id);
}

export function withRead(marks: Marks, id: string): Marks {
  if (!isUnread(marks, id)) return marks;
  return { ...marks, read: limited([...marks.read, id]), unread: without(marks.unread, id) };
}

export function withUnread(marks: Marks, id: string): Marks {
  if (isUnread(marks, id)) return marks;
  return { ...marks, read: without(marks.read, id), unread: limited([...marks.unread, id]) };
}

/** @param newest the id of the newest email, or one after it */
export function withAllRead(marks: Marks, newest: string): Marks {
  return { ...marks, readUntil: newest, read: marks.read.filter((id) => id > newest), unread: [] };
}

export function withRemoved(marks: Marks, id: string): Marks {
  return isRemoved(marks, id) ? marks : { ...marks, removed: limited([...marks.removed, id]) };
}

export function withAllRemoved(marks: Marks, newest: string): Marks {
  return { ...marks, removedUntil: newest, removed: marks.removed.filter((id) => id > newest) };
}

/** Returns an id after those of all emails that were accepted until this time. */
export function lastIdAt(ms: number): string {
  const time = ms.toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-7fff-bfff-ffffffffffff`;
}

/** Reads what the browser has stored, which another version may have written. */
export function parseMarks(text: string | null): Marks {
  try {
    const stored = JSON.parse(text ?? 'null') as Partial<Marks> | null;
    return {
      readUntil: asText(stored?.readUntil),
      read: asTexts(stored?.read),
      unread: asTexts(stored?.unread),
      removedUntil: asText(stored?.removedUntil),
      removed: asTexts(stored?.removed),
    };
  } catch {
    return NO_MARKS;
  }
}

function asText(value: unknown): string {
  return typeof value === 'string' ? value : '';
}

function asTexts(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === 'string') : [];
}

function without(ids: readonly string[], id: string): readonly string[] {
  return ids.filter((one) => one !== id);
}

function limited(ids: readonly string[]): readonly string[] {
  return ids.slice(-SINGLE_MAX);
}
