/** The maximum of stored mail per project: its default, which bytes count, and the refusal. */
import type { Refusal } from '../../core/refusals.ts';
import type { Email } from '../../mail/email.ts';
import { MIB } from '../../lib/units.ts';

/** Bytes counted for the rows of a recipient: its delivery, timeline and index entries. */
export const RECIPIENT_BYTES = 3 * 1024;

/**
 * The bytes counted for each field; `small`: RECIPIENT_BYTES covers the field, because it has a low limit. A new field
 * of an email does not compile until it is listed here.
 */
const FIELD_BYTES: Record<keyof Email, 'small' | ((email: Email) => number)> = {
  from: 'small',
  to: 'small',
  cc: 'small',
  replyTo: 'small',
  subject: 'small',
  html: ({ html }) => Buffer.byteLength(html ?? ''),
  text: ({ text }) => Buffer.byteLength(text ?? ''),
  headers: ({ headers }) => sum(headers, ([name, value]) => name.length + value.length),
  attachments: ({ attachments }) => sum(attachments, ({ content }) => content.length),
  unsubscribeUrl: 'small',
  tags: ({ tags }) => sum(tags, ({ name, value }) => name.length + value.length),
  metadata: ({ metadata }) =>
    sum(Object.entries(metadata), ([name, value]) => name.length + value.length),
  tls: 'small',
  tracking: 'small',
  submitted: ({ submitted }) => submitted?.raw.length ?? 0,
  dsn: 'small',
  traceparent: 'small',
  templateId: 'small',
};

const COUNTED = Object.values(FIELD_BYTES).filter((bytesOf) => bytesOf !== 'small');

/** Fraction of its maximum from which a project is reported. */
export const STORAGE_WARNING = 0.8;

/** Fraction of the database's disk, or of the database's maximum, that a project may fill by default. */
const DEFAULT_SHARE = 0.5;

export function storedBytes(email: Email & { recipients: readonly unknown[] }): number {
  return email.recipients.length * RECIPIENT_BYTES + sum(COUNTED, (bytesOf) => bytesOf(email));
}

function sum<Item>(items: readonly Item[], bytesOf: (item: Item) => number): number {
  return items.reduce((bytes, item) => bytes + bytesOf(item), 0);
}

/**
 * Returns the maximum of projects without their own; null for none, because the size of the disk is unknown.
 * @param database.freeBytes of the database's disk; null when it is on another machine
 */
export function defaultStorage(
  config: { storageBytesMax: number | null; databaseBytesMax: number | null },
  database: { bytes: number; freeBytes: number | null },
): number | null {
  if (config.storageBytesMax !== null) return config.storageBytesMax;
  const { bytes, freeBytes } = database;
  const spaceBytes = config.databaseBytesMax ?? (freeBytes === null ? null : bytes + freeBytes);
  return spaceBytes === null ? null : Math.floor(spaceBytes * DEFAULT_SHARE);
}

export function storageRefusal(
  { usedBytes, maxBytes }: { usedBytes: number; maxBytes: number },
  neededBytes: number,
): Refusal {
  const message =
    `The storage of this project is full: ${inMegabytes(usedBytes)} of ${inMegabytes(maxBytes)} are used, and ` +
    `${inMegabytes(neededBytes)} are needed. Stored mail is deleted after its retention; for more storage ask the ` +
    'operator (letterhaus projects set-storage-max).';
  return { refused: 'conflict', message, isStorageFull: true };
}

/** Rounds up, so that a few bytes do not show as 0. */
export function inMegabytes(bytes: number): string {
  return `${Math.ceil(bytes / MIB).toLocaleString('en')} MB`;
}
