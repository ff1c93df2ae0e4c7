/**
 * Checks the signature of a webhook request that a member pastes, as a receiver does (Standard Webhooks, v1). Unlike a
 * receiver it also says what is probably wrong: it compares the signature with forms that frameworks make of a body.
 * Nothing leaves the browser.
 */

export type SignatureResult =
  | { kind: 'valid'; ageS: number; isRecent: boolean }
  | { kind: 'problem'; message: string };

type Request = { headers: string; body: string; secret: string; nowMs: number };

/** Verifiers refuse an older or newer timestamp. */
const TOLERANCE_S = 300;

const problem = (message: string): SignatureResult => ({ kind: 'problem', message });

export async function checkSignature(request: Request): Promise<SignatureResult> {
  const { body, secret, nowMs } = request;
  const headers = parseHeaders(request.headers);
  const signed = signedHeaders(headers);
  if (typeof signed === 'string') return problem(signed);
  const key = await importKey(secret);
  if (key === null) return problem('The secret must begin with whsec_, followed by base64.');
  const { id, timestamp, signatures } = signed;
  const matches = async (text: string): Promise<boolean> => {
    const mac = await crypto.subtle.sign('HMAC', key, bytesOf(`${id}.${timestamp}.${text}`));
    return signatures.includes(btoa(String.fromCharCode(...new Uint8Array(mac))));
  };
  if (await matches(body)) {
    const ageS = Math.round(nowMs / 1000 - Number(timestamp));
    return { kind: 'valid', ageS, isRecent: Math.abs(ageS) <= TOLERANCE_S };
  }
  for (const [text, cause] of changedBodies(body)) if (await matches(text)) return problem(cause);
  return problem(
    body === ''
      ? 'No signature matches an empty body. Paste the body as received.'
      : 'No signature matches. The secret is wrong, or the body, webhook-id or webhook-timestamp was changed.',
  );
}

/** Bodies that the pasted one may have been, each with what happened to it. */
function changedBodies(body: string): [text: string, cause: string][] {
  const bodies: [string, string][] = [
    [
      body.replace(/\r?\n$/, ''),
      'The signature matches without the line break at the end of the body. The service sends none: verify the bytes as received.',
    ],
    [
      body.replaceAll('\r\n', '\n').trim(),
      'The signature matches without the white space around the body. Verify the bytes as received.',
    ],
  ];
  try {
    bodies.push([
      JSON.stringify(JSON.parse(body)),
      'The signature matches the body without spaces and line breaks. A parser has formatted it: verify the raw body instead.',
    ]);
  } catch {
    // It is no JSON, so no parser wrote it again.
  }
  return bodies;
}

type Signed = { id: string; timestamp: string; signatures: string[] };

/** Returns a sentence when a header is missing. */
function signedHeaders(headers: ReadonlyMap<string, string>): Signed | string {
  const prefix = !headers.has('webhook-id') && headers.has('svix-id') ? 'svix-' : 'webhook-';
  const [id, timestamp, signature] = ['id', 'timestamp', 'signature'].map(
    (name) => headers.get(prefix + name) ?? '',
  ) as [string, string, string];
  if (id === '') return `There is no header ${prefix}id. Paste all headers of the request.`;
  if (!/^\d+$/.test(timestamp)) return `There is no header ${prefix}timestamp with a number.`;
  const signatures = [...signature.matchAll(/(?:^|[\s,])v1,([A-Za-z0-9+/]+=*)/g)];
  if (signatures.length === 0)
    return `There is no header ${prefix}signature with v1 and a signature.`;
  return { id, timestamp, signatures: signatures.map(([, text = '']) => text) };
}

/** Lines such as `webhook-id: 0193…`, or JSON such as a log of headers; quotes around names do not matter. */
export function parseHeaders(text: string): ReadonlyMap<string, string> {
  const lines = text.matchAll(
    /["']?((?:webhook|svix)-(?:id|timestamp|signature))["']?\s*[:=]\s*["']?([^"'\r\n]*)/gi,
  );
  return new Map([...lines].map(([, name = '', value = '']) => [name.toLowerCase(), value.trim()]));
}

async function importKey(secret: string): Promise<CryptoKey | null> {
  try {
    const key = Uint8Array.from(atob(secret.trim().replace(/^whsec_/, '')), (one) =>
      one.charCodeAt(0),
    );
    if (key.length === 0) return null;
    return await crypto.subtle.importKey('raw', key, { name: 'HMAC', hash: 'SHA-256' }, false, [
      'sign',
    ]);
  } catch {
    return null;
  }
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}
