/** Verifies webhooks with Web Crypto (Standard Webhooks, v1): in Node, Deno, Bun and on the edge. */
import { SignatureError } from './errors.ts';
import type { WebhookEvent } from './events.ts';

/** Headers in the form of any framework. Names are case-insensitive. */
export type WebhookHeaders =
  | { get(name: string): string | null | undefined }
  | Iterable<readonly [name: string, value: string]>
  /** `rawHeaders` of Node: names and values alternate. */
  | readonly string[]
  | Record<string, string | readonly string[] | undefined>;

export type WebhookToVerify = {
  /** As received, before any JSON parser. */
  payload: string | ArrayBufferView | ArrayBufferLike;
  headers: WebhookHeaders;
  /** `whsec_…`. Pass both while a secret is rotated. */
  secret: string | readonly string[];
  /** Maximum difference between the timestamp and now. Default: 300. */
  toleranceSeconds?: number | undefined;
};

const DEFAULT_TOLERANCE_S = 300;

/**
 * @throws SignatureError when the webhook is not from the service, or too old
 * @throws TypeError when the payload is not the body as received, or a secret is invalid
 */
export async function verifyWebhook(webhook: WebhookToVerify): Promise<WebhookEvent> {
  const { payload, headers, secret, toleranceSeconds = DEFAULT_TOLERANCE_S } = webhook;
  const body = bytesOf(payload);
  const keys = await Promise.all([secret].flat().map(importKey));
  const { id, timestamp, signatures } = signedHeaders(headers);
  const ageSeconds = Math.abs(Date.now() / 1_000 - Number(timestamp));
  if (!/^\d+$/.test(timestamp) || !(ageSeconds <= toleranceSeconds)) {
    throw new SignatureError('The timestamp of the webhook is too far from the current time.');
  }
  const signed = joined(new TextEncoder().encode(`${id}.${timestamp}.`), body);
  const checks = keys.flatMap((key) =>
    signatures.map((signature) => isSignature(key, signature, signed)),
  );
  if (!(await Promise.all(checks)).includes(true)) {
    const hint = body.length === 0 ? ' The payload is empty: was the body read before?' : '';
    throw new SignatureError(`No signature of the webhook matches the secret.${hint}`);
  }
  return { ...(JSON.parse(new TextDecoder().decode(body)) as WebhookEvent), id };
}

async function isSignature(key: CryptoKey, signature: string, signed: Uint8Array<ArrayBuffer>) {
  const bytes = fromBase64(signature);
  // Web Crypto compares in constant time.
  return bytes !== null && crypto.subtle.verify('HMAC', key, bytes, signed);
}

function importKey(secret: string): Promise<CryptoKey> {
  const text = typeof secret === 'string' ? secret.trim() : '';
  const bytes = fromBase64(text.replace(/^whsec_/, ''));
  if (bytes === null || bytes.length === 0) {
    throw new TypeError('The secret of a webhook begins with whsec_, followed by base64.');
  }
  return crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, [
    'verify',
  ]);
}

/** The signature covers the raw body, which a parser does not preserve. */
function bytesOf(payload: unknown): Uint8Array {
  if (typeof payload === 'string') return new TextEncoder().encode(payload);
  if (ArrayBuffer.isView(payload)) {
    return new Uint8Array(payload.buffer, payload.byteOffset, payload.byteLength);
  }
  const kind = Object.prototype.toString.call(payload);
  if (/^\[object (?:Shared)?ArrayBuffer\]$/.test(kind)) {
    return new Uint8Array(payload as ArrayBufferLike);
  }
  throw new TypeError(`payload must be the body as it was received, ${adviceAbout(payload)}`);
}

function adviceAbout(payload: unknown): string {
  if (payload === undefined || payload === null) {
    return `not ${payload}: was the body read before, or left to a parser that does not know its type?`;
  }
  const isObject = typeof payload === 'object';
  if (isObject && 'then' in payload) return 'not a promise: await it.';
  if (isObject && ('text' in payload || 'getReader' in payload || 'pipe' in payload)) {
    return 'not a request or a stream: pass await request.text(), or text(request) of node:stream/consumers.';
  }
  return (
    'not a parsed body: the signature covers the received bytes, which JSON.stringify does not restore. ' +
    "Pass await request.text(), or with Express the request.body of express.raw({ type: 'application/json' })."
  );
}

type Signed = { id: string; timestamp: string; signatures: string[] };

/** Returns the `webhook-` headers, or the `svix-` headers when a proxy keeps only those. Never mixes both. */
function signedHeaders(headers: WebhookHeaders): Signed {
  const find = finder(headers);
  const prefix = find('webhook-id') === '' && find('svix-id') !== '' ? 'svix-' : 'webhook-';
  const needed = (name: string): string => {
    const value = find(`${prefix}${name}`);
    if (value === '') throw new SignatureError(`The webhook has no ${prefix}${name} header.`);
    return value;
  };
  // Proxies join a header that arrives twice by a space or a comma.
  const [id = ''] = needed('id').split(/[\s,]+/);
  const [timestamp = ''] = needed('timestamp').split(/[\s,]+/);
  const signatures = [...needed('signature').matchAll(/(?:^|[\s,])v1,([A-Za-z0-9+/]+=*)/g)];
  return { id, timestamp, signatures: signatures.map(([, text = '']) => text) };
}

/** @returns a function that finds the value of a header, or '' */
function finder(headers: WebhookHeaders): (name: string) => string {
  if (typeof headers !== 'object' || headers === null) {
    throw new TypeError('headers must be those of the request.');
  }
  if (isHeaders(headers)) return (name) => headers.get(name)?.trim() ?? '';
  const found = new Map<string, string>();
  for (const [name, value] of pairsOf(headers)) {
    const text = (typeof value === 'string' ? [value] : (value ?? [])).join(' ').trim();
    if (text !== '') found.set(name.toLowerCase(), text);
  }
  return (name) => found.get(name) ?? '';
}

/**
 * Checks the method, because Headers of another library or realm are not instances of the global class. A Map
 * distinguishes upper and lower case.
 */
function isHeaders(headers: WebhookHeaders): headers is { get(name: string): string | null } {
  return 'get' in headers && typeof headers.get === 'function' && !(headers instanceof Map);
}

function pairsOf(
  headers: object,
): Iterable<readonly [string, string | readonly string[] | undefined]> {
  if (!(Symbol.iterator in headers)) return Object.entries(headers);
  const all = [...(headers as Iterable<string | readonly [string, string]>)];
  return all.flatMap((one, index) => {
    if (typeof one !== 'string') return [one];
    return index % 2 === 0 ? [[one, all[index + 1] as string] as const] : [];
  });
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
