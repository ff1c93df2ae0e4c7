/** Verifies webhooks with Web Crypto (Standard Webhooks, v1): in Node, Deno, Bun and on the edge. */
import type { StreamEvent } from './api.ts';
import { SignatureError } from './errors.ts';

export type WebhookEvent = Pick<StreamEvent, 'created_at' | 'data'> & {
  type: StreamEvent['type'] | 'webhook.test' | (string & {});
  /** The event: the same in each repeated delivery. */
  id: string;
};

export type WebhookToVerify = {
  /** As received, before any JSON parser. */
  payload: string | Uint8Array;
  headers: Headers | Record<string, string | string[] | undefined>;
  /** `whsec_…`; while a secret is rotated, both. */
  secret: string | readonly string[];
  /** How far the timestamp may be from now; default 300. */
  toleranceSeconds?: number | undefined;
};

const DEFAULT_TOLERANCE_S = 300;

/** @throws SignatureError when it is not from the service, or too old */
export async function verifyWebhook(webhook: WebhookToVerify): Promise<WebhookEvent> {
  const { payload, headers, secret, toleranceSeconds = DEFAULT_TOLERANCE_S } = webhook;
  const id = header(headers, 'webhook-id');
  const timestamp = header(headers, 'webhook-timestamp');
  const signatures = header(headers, 'webhook-signature').split(' ');
  const ageSeconds = Math.abs(Date.now() / 1_000 - Number(timestamp));
  if (!/^\d+$/.test(timestamp) || !(ageSeconds <= toleranceSeconds)) {
    throw new SignatureError('The timestamp of the webhook is too far from the present time.');
  }
  const body = typeof payload === 'string' ? new TextEncoder().encode(payload) : payload;
  const signed = joined(new TextEncoder().encode(`${id}.${timestamp}.`), body);
  const keys = await Promise.all([secret].flat().map(importKey));
  const checks = keys.flatMap((key) =>
    signatures.map((signature) => isSignature(key, signature, signed)),
  );
  if (!(await Promise.all(checks)).includes(true)) {
    throw new SignatureError('No signature of the webhook matches the secret.');
  }
  return { ...(JSON.parse(new TextDecoder().decode(body)) as Omit<WebhookEvent, 'id'>), id };
}

async function isSignature(key: CryptoKey, signature: string, signed: Uint8Array<ArrayBuffer>) {
  if (!signature.startsWith('v1,')) return false;
  const bytes = fromBase64(signature.slice('v1,'.length));
  // Web Crypto compares in constant time.
  return bytes !== null && crypto.subtle.verify('HMAC', key, bytes, signed);
}

function importKey(secret: string): Promise<CryptoKey> {
  const bytes = fromBase64(secret.replace(/^whsec_/, ''));
  if (bytes === null || bytes.length === 0) {
    throw new TypeError('The secret of a webhook begins with whsec_, followed by base64.');
  }
  return crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, [
    'verify',
  ]);
}

function header(headers: WebhookToVerify['headers'], name: string): string {
  const value = headers instanceof Headers ? headers.get(name) : plainHeader(headers, name);
  if (!value) throw new SignatureError(`The webhook has no ${name} header.`);
  return value;
}

function plainHeader(
  headers: Record<string, string | string[] | undefined>,
  name: string,
): string | undefined {
  const [, value] = Object.entries(headers).find(([key]) => key.toLowerCase() === name) ?? [];
  return Array.isArray(value) ? value[0] : value;
}

function joined(one: Uint8Array, other: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(one.length + other.length);
  bytes.set(one);
  bytes.set(other, one.length);
  return bytes;
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> | null {
  try {
    return Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
  } catch {
    return null;
  }
}
