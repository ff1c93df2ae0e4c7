/**
 * Identifies a request with an Idempotency-Key: a SHA-256 of the endpoint and the parsed body. White space and the
 * order of fields do not change it. A message submitted by SMTP counts by its fields and decoded parts.
 */
import { hash } from 'node:crypto';
import { isObject } from '../lib/json.ts';
import { partsWithin, readMessage } from '../mail/mime/reader.ts';

const IDEMPOTENCY_KEY = /^[\x20-\x7e]{1,256}$/;

export function isIdempotencyKey(text: string): boolean {
  return IDEMPOTENCY_KEY.test(text);
}

/** @param body a result of JSON.parse */
export function fingerprintOf(endpoint: string, body: unknown): string {
  return hash('sha256', `${endpoint}\n${JSON.stringify(body, sortFields)}`, 'hex');
}

/** For JSON.stringify. Unlike the canonical JSON of RFC 8785, it takes any text that a request may contain. */
function sortFields(_name: string, value: unknown): unknown {
  return isObject(value) ? Object.fromEntries(Object.entries(value).toSorted(byName)) : value;
}

function byName([a]: [string, unknown], [b]: [string, unknown]): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/** Fields that differ in each repetition, or that are not content. */
const NOT_FINGERPRINTED =
  /^(?:date|message-id|received|received-spf|return-path|authentication-results|arc-.*|dkim-signature|mime-version|content-.*|x-mailer|user-agent|x-letterhaus-idempotency-key|resend-idempotency-key)$/i;

/**
 * Returns the same hex fingerprint for repetitions of a message. A program that repeats a message has its mail
 * library build it again, with another Date, Message-ID and boundaries. The other fields and the decoded parts stay
 * the same.
 */
export function fingerprintOfMessage(content: Buffer, recipients: readonly string[]): string {
  const message = readMessage(content);
  const fields = message.fields
    .filter(({ name }) => !NOT_FINGERPRINTED.test(name))
    .map(({ name, value }) => [name.toLowerCase(), value]);
  const parts = [...partsWithin(message)]
    .filter(({ contentType }) => !contentType.type.startsWith('multipart/'))
    .map(({ contentType, body }) => [contentType.type, hash('sha256', body, 'hex')]);
  return fingerprintOf('SMTP', { recipients: recipients.toSorted(), fields, parts });
}
