/**
 * The body of a webhook request, and the headers that sign it.
 *
 * Signatures follow the Standard Webhooks specification (v1, symmetric): HMAC-SHA256 over `id.timestamp.body`, one
 * signature per valid secret. The same three values are also sent under the `svix-` names, which older verifiers
 * read.
 */
import { createHmac } from 'node:crypto';
import type { StoredEvent } from '../delivery-store.ts';
import type { PayloadFormat } from '../endpoint-store.ts';

/** The specification requires 24 to 64. */
export const SECRET_BYTES = 32;
const SECRET_PREFIX = 'whsec_';

/** Formats of other services. The service passes them, so this room knows none of them. */
export type OtherFormats = Readonly<
  Record<Exclude<PayloadFormat, 'letterhaus'>, (event: StoredEvent) => string>
>;

/** Returns the request body. It contains `data` byte for byte, except in another service's format. */
export function formatPayload(
  event: StoredEvent,
  format: PayloadFormat,
  otherFormats: OtherFormats,
): string {
  return format === 'letterhaus' ? ownPayload(event) : otherFormats[format](event);
}

export function ownPayload({ type, createdAt, data }: StoredEvent): string {
  return `{"type":${JSON.stringify(type)},"created_at":"${createdAt}","data":${data}}`;
}

/** Returns the headers of a JSON body that `secrets` sign, with the User-Agent. */
export function signedHeaders(
  message: { id: string; timestampS: number; body: string },
  secrets: readonly string[],
): Record<string, string> {
  return {
    'content-type': 'application/json',
    'user-agent': 'Letterhaus-Webhooks',
    ...signatureHeaders(message, secrets),
  };
}

/**
 * Returns the headers that sign one attempt.
 * @param options.id id of the event, the same for all retries
 * @param options.timestampS time of this attempt, Unix seconds; verifiers refuse a difference of 5 minutes
 * @param secrets newest first; two or three within 24 hours of a rotation
 */
export function signatureHeaders(
  { id, timestampS, body }: { id: string; timestampS: number; body: string },
  secrets: readonly string[],
): Record<string, string> {
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.slice(SECRET_PREFIX.length), 'base64');
    const mac = createHmac('sha256', key).update(`${id}.${timestampS}.${body}`).digest('base64');
    return `v1,${mac}`;
  });
  const values = { id, timestamp: String(timestampS), signature: signatures.join(' ') };
  return Object.fromEntries(
    Object.entries(values).flatMap(([name, value]) => [
      [`webhook-${name}`, value],
      [`svix-${name}`, value],
    ]),
  );
}

/** Returns a secret in the form that its owner sees and that verifiers accept. */
export function formatSecret(randomBytes: Buffer): string {
  return SECRET_PREFIX + randomBytes.toString('base64');
}
