/** Emails as the API returns them. */
import { domainOf, formatMailbox } from '../mail/address.ts';
import { bodyPartsOf } from '../mail/mime/body-parts.ts';
import { messageIdOf } from '../mail/compose.ts';
import { readMessage, partText } from '../mail/mime/reader.ts';
import { trackedEvents, parseTracking } from '../mail/links/tracking-link.ts';
import type { EmailDetail, EmailSummary, TimelineEvent } from './email-store.ts';
import { tagOfEmail } from './schedule-store.ts';

export function summaryToWire(email: EmailSummary) {
  const from = { name: email.fromName, address: email.fromAddress };
  return {
    object: 'email' as const,
    id: email.id,
    message_id: email.messageId ?? messageIdOf(email.id, domainOf(from.address)),
    from: formatMailbox(from),
    to: email.to,
    cc: email.cc,
    bcc: email.bcc,
    reply_to: email.replyTo,
    subject: email.subject,
    status: email.status,
    last_event: email.lastEvent,
    created_at: email.createdAt.toISOString(),
    scheduled_at: email.scheduledAt?.toISOString() ?? null,
    sent_at: email.sentAt?.toISOString() ?? null,
    completed_at: email.completedAt?.toISOString() ?? null,
    tags: email.tags,
    metadata: email.metadata,
    environment: email.environment,
  };
}

export function emailToWire(email: EmailDetail) {
  const { recipients, raw } = email;
  const { html, text } = raw === null ? email : textsOf(raw);
  const tracking = trackedEvents(parseTracking(email.tracking));
  return { ...summaryToWire(email), html, text, tracking, recipients };
}

/** For the API: the email with the tag that a change of its time is compared with. */
export function taggedEmailToWire(email: EmailDetail) {
  return { ...emailToWire(email), etag: tagOfEmail(email) };
}

/** Returns the first text and html of a submitted message; null where there is none. */
function textsOf(raw: Buffer): { html: string | null; text: string | null } {
  const texts = [...bodyPartsOf(readMessage(raw))];
  const first = (type: string): string | null => {
    const part = texts.find(({ contentType }) => contentType.type === type);
    // JSON has no lone surrogates, and some readers refuse NUL.
    return part === undefined ? null : partText(part).toWellFormed().replaceAll('\0', '');
  };
  return { html: first('text/html'), text: first('text/plain') };
}

export function eventToWire(event: TimelineEvent) {
  const { number, id, type, createdAt, recipient, data, attempt } = event;
  return {
    object: 'event' as const,
    number,
    id,
    type,
    created_at: createdAt.toISOString(),
    recipient,
    data,
    attempt,
  };
}
