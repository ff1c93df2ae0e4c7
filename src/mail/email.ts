/**
 * An email: what its sender said, without who gets it and without what the service adds. The draft
 * that a request becomes, what accepting stores and what delivery composes all embed this one type.
 *
 * Every string in it was checked when the draft was made (sending/draft.ts, sending/submission.ts).
 * Recipients, blind copies among them, are not part of it, so that no header can name one.
 */
import type { Mailbox } from './address.ts';

export type Email = MessageContent & {
  tags: readonly Tag[];
  metadata: Readonly<Record<string, string>>;
  /** null: the domain's setting. */
  tls: 'opportunistic' | 'enforced' | null;
  /** null: the message is composed from the fields above. */
  written: WrittenMessage | null;
};

/** The fields that the message is composed from. */
export type MessageContent = {
  from: Mailbox;
  to: readonly Mailbox[];
  cc: readonly Mailbox[];
  replyTo: readonly Mailbox[];
  subject: string;
  html: string | null;
  /** null: derived from the html; '': no text part. */
  text: string | null;
  /** Custom ones that checkCustomHeader let pass. */
  headers: readonly (readonly [name: string, value: string])[];
  attachments: readonly Attachment[];
  /**
   * For one-click unsubscription (RFC 8058): a web address in printable ASCII, or where links of
   * this service are hosted (unsubscribe-link.ts).
   */
  unsubscribeUrl: string | null;
};

export type Attachment = {
  filename: string;
  /** What is no media type, or a composite one, is sent as application/octet-stream. */
  contentType: string;
  /** For `cid:` links from the html, which make it inline; null for an attachment of its own. */
  contentId: string | null;
  /** base64 in its canonical form: the same text is stored and, in lines, sent. */
  content: string;
};

export type Tag = { name: string; value: string };

/** A message that is sent as an SMTP client wrote it; the other fields are for showing it. */
export type WrittenMessage = {
  /** The whole message except our signatures. */
  raw: Buffer;
  /** Its own, with angle brackets. */
  messageId: string;
};

/** What a field is when its sender leaves it out. */
export const EMAIL_DEFAULTS = {
  cc: [],
  replyTo: [],
  html: null,
  text: null,
  headers: [],
  attachments: [],
  unsubscribeUrl: null,
  tags: [],
  metadata: {},
  tls: null,
  written: null,
} as const satisfies Partial<Email>;
