/**
 * The fingerprint that identifies a request with an Idempotency-Key: a SHA-256 of the endpoint and the
 * parsed body, so that white space and the order of fields do not matter.
 */
import { hash } from 'node:crypto';

const IDEMPOTENCY_KEY = /^[\x20-\x7e]{1,256}$/;

/** Whether the text may be an Idempotency-Key: 1-256 printable ASCII characters. */
export function isIdempotencyKey(text: string): boolean {
  return IDEMPOTENCY_KEY.test(text);
}

/** Hex SHA-256 of endpoint and body. `body` is a result of JSON.parse. */
export function fingerprintOf(endpoint: string, body: unknown): string {
  return hash('sha256', `${endpoint}\n${canonicalJson(body)}`, 'hex');
}

/** JSON with the members of every object sorted by name. */
function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_name, inner: unknown) =>
    isPlainObject(inner) ? Object.fromEntries(Object.entries(inner).toSorted(byName)) : inner,
  );
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function byName([a]: [string, unknown], [b]: [string, unknown]): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
