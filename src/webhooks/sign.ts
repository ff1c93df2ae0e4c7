/**
 * Signatures as the Standard Webhooks specification (v1, symmetric) has them, so that every
 * verifier for it works: HMAC-SHA256 over `id.timestamp.body`, one signature per valid secret.
 * The same three values also go out under the `svix-` names, which older verifiers read.
 */
import { createHmac } from 'node:crypto';

const SECRET_PREFIX = 'whsec_';

/** The specification asks for 24 to 64. */
export const SECRET_BYTES = 32;

/** `whsec_` and the base64 of the random bytes: what the owner of the endpoint gets to see. */
export function secretText(random: Buffer): string {
  return SECRET_PREFIX + random.toString('base64');
}

/**
 * The headers of one attempt.
 * @param message.id the event's: the same through all retries
 * @param message.timestampS of this attempt, Unix seconds: verifiers refuse what is 5 minutes off
 * @param secrets newest first; two while a rotation is under way
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
