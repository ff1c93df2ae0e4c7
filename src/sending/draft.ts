/**
 * An email as a client asked for it, parsed and checked: from here on every string is trusted to be
 * what its type says. SMTP submission makes the same (submission.ts).
 *
 * All problems are found in one go, each with the name of its field as the client wrote it. What is
 * in the contract but does not work yet is refused by name, never ignored.
 */
import { refuseFields } from '../core/field-problems.ts';
import type { FieldProblem, Refusal } from '../core/refusals.ts';
import type { Environment } from '../core/scope.ts';
import type { Address, Mailbox } from '../mail/address.ts';
import { isClear } from '../mail/author.ts';
import { estimateSizeBytes } from '../mail/compose.ts';
import { type AttachmentInput, readAttachments } from './draft-attachments.ts';
import {
  readExpiry,
  readHeaders,
  readMetadata,
  readSubject,
  readTags,
  readUnsubscribe,
} from './draft-fields.ts';
import { readMailbox, readRecipients } from './draft-recipients.ts';

export type Attachment = {
  filename: string;
  contentType: string;
  /** For `cid:` references from the html; the attachment is then inline. */
  contentId: string | null;
  content: Buffer;
};

export type Tag = { name: string; value: string };

export type EmailDraft = {
  from: Mailbox;
  to: readonly Mailbox[];
  cc: readonly Mailbox[];
  bcc: readonly Mailbox[];
  replyTo: readonly Mailbox[];
  subject: string;
  html: string | null;
  /** null: derived from the html; '': no text part. */
  text: string | null;
  headers: readonly (readonly [string, string])[];
  attachments: readonly Attachment[];
  tags: readonly Tag[];
  metadata: Readonly<Record<string, string>>;
  /** Seconds after which undelivered recipients end `failed`; null: the default of 72 h. */
  expiresInS: number | null;
  /** Also where links are hosted (mail/unsubscribe-link.ts). */
  unsubscribeUrl: string | null;
  /** null: the domain's setting. */
  tls: 'opportunistic' | 'enforced' | null;
  /** Size of the message once composed, at most; for back-pressure and the 30 MB rule. */
  sizeBytes: number;
  /** It came by SMTP and goes on as it was written; the above is then for showing it. */
  written?: WrittenDraft;
};

export type WrittenDraft = {
  /** The id that its trace names. */
  emailId: string;
  raw: Buffer;
  messageId: string;
  recipients: readonly { kind: 'to' | 'cc' | 'bcc'; address: Address }[];
};

type Optional<Value> = Value | null | undefined;

/** The request with its wire names; types are checked, contents are not. null is as good as absent. */
export type DraftInput = {
  from: string;
  to: string | readonly string[];
  cc?: Optional<string | readonly string[]>;
  bcc?: Optional<string | readonly string[]>;
  reply_to?: Optional<string | readonly string[]>;
  subject: string;
  html?: Optional<string>;
  text?: Optional<string>;
  headers?: Optional<Readonly<Record<string, string>>>;
  attachments?: Optional<readonly AttachmentInput[]>;
  tags?: Optional<readonly Tag[]>;
  metadata?: Optional<Readonly<Record<string, string>>>;
  expires_in?: Optional<number>;
  unsubscribe?: Optional<string | boolean>;
  tls?: Optional<'opportunistic' | 'enforced'>;
  tracking?: Optional<{ opens?: boolean | undefined; clicks?: boolean | undefined }>;
  scheduled_at?: unknown;
};

export type DraftRules = {
  environment: Environment;
  /** Development: reserved domains are allowed with a live key. */
  allowPrivateNetworks: boolean;
  /** Where recipients reach the pages of this service; null or absent: nowhere yet. */
  pagesAt?: string | null;
  /** Mail comes in, so that it unsubscribes as the pages do. */
  takesMail?: boolean;
};

/** Notes a problem; `message` is the rest of the sentence after the name of the field. */
export type Complain = (field: string, message: string) => void;

const MESSAGE_MAX_BYTES = 30 * 1024 * 1024;

export function makeDraft(input: DraftInput, rules: DraftRules): EmailDraft | Refusal {
  const problems: FieldProblem[] = [];
  const complain: Complain = (field, message) => void problems.push({ field, message });

  const from = readMailbox('from', input.from, complain);
  if (from !== null && !isClear(from.address)) {
    complain('from', 'has an @ in quotes before its @, which some receivers take for the address');
  }
  const recipients = readRecipients(input, rules, complain);
  const fields = {
    ...recipients,
    subject: readSubject(input.subject, complain),
    html: input.html || null,
    text: input.text ?? null,
    headers: readHeaders(input, complain),
    attachments: readAttachments(input.attachments ?? [], complain),
    tags: readTags(input.tags ?? [], complain),
    metadata: readMetadata(input.metadata ?? {}, complain),
    expiresInS: readExpiry(input.expires_in, complain),
    unsubscribeUrl: readUnsubscribe(input, rules, complain),
    tls: input.tls ?? null,
  };
  if (!fields.html && !fields.text) complain('html', 'is required, unless there is text');
  refuseWhatIsNotThereYet(input, complain);
  if (problems.length > 0 || from === null) return refuseFields(problems);

  const sizeBytes = estimateSizeBytes({ from, ...fields });
  if (sizeBytes <= MESSAGE_MAX_BYTES) return { from, ...fields, sizeBytes };
  return refuseFields([{ field: '', message: TOO_LARGE }]);
}

const TOO_LARGE = 'The message would be larger than 30 MB; send smaller attachments, or links.';

function refuseWhatIsNotThereYet(input: DraftInput, complain: Complain): void {
  if (input.scheduled_at != null) {
    complain('scheduled_at', 'is not available yet; leave it out to send at once');
  }
  for (const name of ['opens', 'clicks'] as const) {
    if (input.tracking?.[name]) complain(`tracking.${name}`, 'is not available yet; leave it out');
  }
}
