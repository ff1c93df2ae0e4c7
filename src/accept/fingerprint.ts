/**
 * Identifies a request with an Idempotency-Key: a SHA-256 of the endpoint and the parsed body. White space and the
 * order of fields do not change it.
 */
import { hash } from 'node:crypto';

const IDEMPOTENCY_KEY = /^[\x20-\x7e]{1,256}$/;

export function isIdempotencyKey(text: string): boolean {
  return IDEMPOTENCY_KEY.test(text);
}

/** @param body a result of JSON.parse */
export function fingerprintOf(endpoint: string, body: unknown): string {
  return hash('sha256', `${endpoint}\n${canonicalJson(body)}`, 'hex');
}

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
