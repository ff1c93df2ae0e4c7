/**
 * The relaxed canonical form of DKIM (RFC 6376 §3.4.2, §3.4.4): what a signature is about, so that
 * changes of white space on the way do not break it.
 */
import { createHash, type Hash } from 'node:crypto';
import type { HeaderField } from './header.ts';

/** `name:value`: name in lower case, folds undone, runs of white space as one space. No CRLF. */
export function relaxedField({ name, value }: HeaderField): string {
  // Not trim(): that takes what verifiers leave, as a non-breaking space at the end.
  const relaxed = value.replace(/[ \t\r\n]+/g, ' ').replace(/^ | $/g, '');
  return `${name.toLowerCase()}:${relaxed}`;
}

/**
 * SHA-256 in base64 of the canonical body: runs of white space as one space, none at the ends of
 * lines, no empty lines at the end.
 * @param body pieces of whole lines that end with CRLF (a ComposedMessage's)
 */
export function relaxedBodyHash(body: readonly Buffer[]): string {
  const hash = createHash('sha256');
  let emptyLines = 0;
  for (const piece of body) emptyLines = hashPiece(hash, relaxedPiece(piece), emptyLines);
  return hash.digest('base64');
}

/** What needs no change is not copied: bodies in base64, and most in quoted-printable. */
function relaxedPiece(piece: Buffer): Buffer {
  if (!piece.includes('  ') && !piece.includes('\t') && !piece.includes(' \r')) return piece;
  const text = piece.toString('latin1').replace(/[ \t]{2,}|\t/g, ' ');
  return Buffer.from(text.replaceAll(' \r\n', '\r\n'), 'latin1');
}

/**
 * Empty lines count only once another line follows them.
 * @param emptyLines those before this piece that nothing has followed yet
 * @returns those at the end of this piece
 */
function hashPiece(hash: Hash, piece: Buffer, emptyLines: number): number {
  let end = piece.length;
  while (end >= 2 && piece[end - 1] === LF && piece[end - 2] === CR) end -= 2;
  const lineEnds = (piece.length - end) / 2;
  if (end === 0) return emptyLines + lineEnds;
  if (emptyLines > 0) hash.update('\r\n'.repeat(emptyLines));
  // Up to the end of the last line with something on it: one CRLF belongs to that.
  hash.update(piece.subarray(0, end + 2));
  return lineEnds - 1;
}

const LF = 10;
const CR = 13;
