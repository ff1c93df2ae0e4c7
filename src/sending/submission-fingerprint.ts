/**
 * What makes two messages with one idempotency key the same message. A program that tries again lets
 * its mail library write the message anew: Date, Message-ID and the boundaries differ then, what it
 * says does not. So this is about the other fields, and the parts as they are decoded.
 */
import { hash } from 'node:crypto';
import { fingerprintOf } from '../core/fingerprint.ts';
import { partsWithin, readMessage } from '../mail/mime-reader.ts';

/** Written anew each time, or not about what the message says. */
const LEFT_OUT =
  /^(?:date|message-id|received|return-path|dkim-signature|mime-version|content-.*|x-mailer|user-agent|x-posthorn-idempotency-key|resend-idempotency-key)$/i;

/** @returns hex */
export function fingerprintOfMessage(content: Buffer, recipients: readonly string[]): string {
  const message = readMessage(content);
  const fields = message.fields
    .filter(({ name }) => !LEFT_OUT.test(name))
    .map(({ name, value }) => [name.toLowerCase(), value]);
  const parts = [...partsWithin(message)]
    .filter(({ contentType }) => !contentType.type.startsWith('multipart/'))
    .map(({ contentType, body }) => [contentType.type, hash('sha256', body, 'hex')]);
  return fingerprintOf('SMTP', { recipients: recipients.toSorted(), fields, parts });
}
