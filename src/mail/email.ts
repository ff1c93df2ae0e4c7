/**
 * An email as its sender defined it, without recipients and without additions of the service. Drafts, the accept
 * statement and the composer use this type.
 *
 * All strings were checked when the draft was made (accept/draft.ts, accept/submitted-message.ts). Recipients,
 * including blind copies, are separate, so no header can contain a blind copy.
 */
import type { Address, Mailbox } from './address.ts';
import type { Dsn } from './dsn-parameters.ts';
import { NOT_TRACKED, type Tracking } from './links/tracking-link.ts';

export type Email = MessageContent & {
  tags: readonly Tag[];
  metadata: Readonly<Record<string, string>>;
  /** null: the domain's setting. */
  tls: 'opportunistic' | 'enforced' | null;
  tracking: Tracking;
  /** null: the message is composed from the fields above. */
  submitted: RawMessage | null;
  /** The delivery notices that the sender asks for; absent: none, as over HTTP. */
  dsn?: Dsn;
  /** The template of the request; absent: the request had its own content. */
  templateId?: string;
  /** The span that accepted it (lib/tracing/spans.ts); absent: none was recorded. */
  traceparent?: string;
};

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
  /** A URL for one-click unsubscription (RFC 8058), or a hosted link (mail/links/unsubscribe-link.ts). */
  unsubscribeUrl: string | null;
};

export type Attachment = {
  filename: string;
  /** An invalid or composite media type is sent as application/octet-stream. */
  contentType: string;
  /** The id of `cid:` links in the html, which make it inline; null for a separate attachment. */
  contentId: string | null;
  /** Canonical base64. This text is stored and, split into lines, sent. */
  content: string;
};

export type Tag = { name: string; value: string };

/** A message that is sent as its SMTP client wrote it. The other fields of the email only describe it. */
export type RawMessage = {
  /** The whole message except our signatures. */
  raw: Buffer;
  messageId: string;
  /** The address of its Sender, which some mail programs show beside From. Not stored: accepting checks it. */
  sender?: Address;
};

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
  submitted: null,
} as const satisfies Partial<Email>;
