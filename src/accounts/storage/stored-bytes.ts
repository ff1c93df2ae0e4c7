/** The maximum of stored mail per project: its default, which bytes count, and the refusal. */
import type { Refusal } from '../../core/refusals.ts';

/** Bytes counted for the rows of a recipient: its delivery, timeline and index entries. */
export const RECIPIENT_BYTES = 3 * 1024;

type Stored = {
  html: string | null;
  text: string | null;
  attachments: readonly { content: string }[];
  headers: readonly (readonly [name: string, value: string])[];
  tags: readonly { name: string; value: string }[];
  metadata: Readonly<Record<string, string>>;
  submitted: { raw: Buffer } | null;
  recipients: readonly unknown[];
};

/** Fraction of its maximum from which a project is reported. */
export const STORAGE_WARNING = 0.8;

/** Fraction of the database's disk, or of the database's maximum, that a project may fill by default. */
const DEFAULT_SHARE = 0.5;

const MEGABYTE = 1024 ** 2;

export function storedBytes(email: Stored): number {
  const { html, text, attachments, headers, tags, metadata, submitted, recipients } = email;
  let bytes = recipients.length * RECIPIENT_BYTES + (submitted?.raw.length ?? 0);
  bytes += Buffer.byteLength(html ?? '') + Buffer.byteLength(text ?? '');
  for (const { content } of attachments) bytes += content.length;
  for (const [name, value] of headers) bytes += name.length + value.length;
  for (const { name, value } of tags) bytes += name.length + value.length;
  for (const name in metadata) bytes += name.length + metadata[name]!.length;
  return bytes;
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
  return `${Math.ceil(bytes / MEGABYTE).toLocaleString('en')} MB`;
}
