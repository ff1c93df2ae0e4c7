/**
 * Encodes cursors of the event stream as text. A cursor is valid for one project and environment. It is opaque to
 * clients, contains no secret, and grants no access beyond the key's.
 */
import { hash } from 'node:crypto';
import { type Scope, scopeKey } from '../core/scope.ts';
import type { StreamPoint } from './stream-store.ts';
import { UUID_BYTES, uuidBytes, uuidText } from '../mail/links/uuid.ts';
import { NO_ID } from '../retention/retention-store.ts';

const VERSION = 1;
const BODY_BYTES = 1 + 8 + 6 + 2 + 8 + 16 + 4 + 16;
/** Detects truncated and mistyped cursors, and cursors of other projects. */
const CHECK_BYTES = 8;

export function cursorText(point: StreamPoint, scope: Scope): string {
  const body = Buffer.alloc(BODY_BYTES);
  let at = body.writeUInt8(VERSION);
  at = body.writeBigInt64BE(BigInt(point.history), at);
  at = body.writeUIntBE(Math.max(0, point.asOfMs), at, 6);
  at = body.writeUInt16BE(point.epoch, at);
  at = body.writeBigUInt64BE(point.xactId, at);
  at += uuidBytes(point.subjectId).copy(body, at);
  at = body.writeUInt32BE(point.seq, at);
  uuidBytes(point.eventId ?? NO_ID).copy(body, at);
  return Buffer.concat([body, checkOf(body, scope)]).toString('base64url');
}

/** Returns null unless the text is a cursor of this project and environment. */
export function parseCursor(text: string, scope: Scope): StreamPoint | null {
  const bytes = Buffer.from(text, 'base64url');
  if (bytes.length !== BODY_BYTES + CHECK_BYTES || bytes.toString('base64url') !== text)
    return null;
  const body = bytes.subarray(0, BODY_BYTES);
  if (body[0] !== VERSION || !checkOf(body, scope).equals(bytes.subarray(BODY_BYTES))) return null;
  const [epoch, seq, eventId] = [body.readUInt16BE(15), body.readUInt32BE(41), idAt(body, 45)];
  if (epoch > 0x7fff || seq > 0x7fffffff) return null;
  return {
    history: String(body.readBigInt64BE(1)),
    asOfMs: body.readUIntBE(9, 6),
    epoch,
    xactId: body.readBigUInt64BE(17),
    subjectId: idAt(body, 25),
    seq,
    eventId: eventId === NO_ID ? null : eventId,
  };
}

function checkOf(body: Buffer, scope: Scope): Buffer {
  const text = `${scopeKey(scope)} ${body.toString('hex')}`;
  return hash('sha256', text, 'buffer').subarray(0, CHECK_BYTES);
}

function idAt(body: Buffer, at: number): string {
  return uuidText(body.subarray(at, at + UUID_BYTES));
}
