/**
 * An email as its sender defined it, without recipients and without what the service adds. The draft of a
 * request, the accept statement and the composer all embed this type.
 *
 * All strings were checked when the draft was made (accept/draft.ts, accept/submitted-message.ts). Recipients,
 * including blind copies, are not part of it, so that no header can contain one.
 */
import type { Mailbox } from './address.ts';
import type { Dsn } from './dsn-parameters.ts';
import { NOT_TRACKED, type Tracking } from './links/tracking-link.ts';

export type Email = MessageContent & {
  tags: readonly Tag[];
  metadata: Readonly<Record<string, string>>;
  /** null: the domain's setting. */
  tls: 'opportunistic' | 'enforced' | null;
  /** Of opens and clicks. */
  tracking: Tracking;
  /** null: the message is composed from the fields above. */
  written: WrittenMessage | null;
  /** Notices about delivery that are asked for. Absent: none, as by HTTP. */
  dsn?: Dsn;
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
  /** Custom headers that checkCustomHeader accepted. */
  headers: readonly (readonly [name: string, value: string])[];
  attachments: readonly Attachment[];
  /**
   * For one-click unsubscription (RFC 8058): a URL in printable ASCII, or the base of links that this
   * service hosts (mail/links/unsubscribe-link.ts).
   */
  unsubscribeUrl: string | null;
};

export type Attachment = {
  filename: string;
  /** An invalid or composite media type is sent as application/octet-stream. */
  contentType: string;
  /** For `cid:` links in the html, which make it inline; null for a separate attachment. */
  contentId: string | null;
  /** Canonical base64: the same text is stored and, in lines, sent. */
  content: string;
};

export type Tag = { name: string; value: string };

/** A message that is sent as an SMTP client wrote it; the other fields of the email only describe it. */
export type WrittenMessage = {
  /** The whole message except our signatures. */
  raw: Buffer;
  messageId: string;
};

/** The values of omitted fields. */
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
  tracking: NOT_TRACKED,
  written: null,
} as const satisfies Partial<Email>;
