/**
 * One batch through the accept statement: requests as it takes them, and its answers as they are
 * understood. Used by accept.ts.
 */
import { failpoint } from '../core/failpoint.ts';
import type { AcceptRow, AcceptStoreOptions, NewEmail } from './accept.ts';
import { ACCEPT_BATCH } from './accept-statement.ts';
import { binaryArray } from './postgres/binary-array.ts';
import type { Queryable } from './postgres/database.ts';

type Row = Omit<
  AcceptRow,
  'domainId' | 'dualSigned' | 'createdAt' | 'suppressedPositions' | 'holder' | 'limit'
> & {
  domain_id: string | null;
  dual_signed: boolean | null;
  is_paused: boolean | null;
  created_at: Date;
  suppressed_positions: number[] | null;
  limit: number;
  remaining: number;
  reset_s: number;
  window_s: number;
  of_recipients: boolean;
  told: number;
};

export async function runBatch(
  db: Queryable,
  emails: readonly NewEmail[],
  options: Omit<AcceptStoreOptions, 'holder'> & { holder: string | null },
): Promise<AcceptRow[]> {
  const { limit, recipientLimit = null, holder, onTold } = options;
  failpoint('accept_before_commit');
  const rows = await db.query<Row>({ name: 'accept', text: ACCEPT_BATCH }, [
    JSON.stringify(emails.map((email, index) => toInput(email, index, holder !== null))),
    binaryArray(
      'text',
      emails.map((email) => email.html),
    ),
    binaryArray(
      'text',
      emails.map((email) => email.bodyText),
    ),
    binaryArray(
      'json',
      emails.map((email) => email.attachments),
    ),
    limit.max,
    limit.windowS,
    holder,
    binaryArray(
      'bytea',
      emails.map((email) => email.written?.raw ?? null),
    ),
    recipientLimit?.max ?? null,
    recipientLimit?.windowS ?? null,
  ]);
  failpoint('accept_after_commit');
  if (rows.length !== emails.length) throw new Error('the accept statement lost a request');
  if ((rows[0]?.told ?? 0) > 0) onTold();
  return rows.map((row, index) => ({
    ...fromRow(row),
    holder: isHandedOver(row, emails[index]!) ? holder : null,
  }));
}

/** What is paused waits on hold in the queue table. */
function isHandedOver({ outcome, is_paused: isPaused }: Row, { handOver }: NewEmail): boolean {
  return outcome === 'accepted' && handOver && isPaused !== true;
}

function toInput(email: NewEmail, index: number, mayHandOver: boolean): object {
  return {
    ord: index + 1,
    project_id: email.projectId,
    environment: email.environment,
    key_id: email.keyId,
    id: email.id,
    event_id: email.eventId,
    domain: email.domain,
    from_address: email.fromAddress,
    from_name: email.fromName,
    to_list: email.toList,
    cc_list: email.ccList,
    bcc_list: email.bccList,
    reply_to: email.replyTo,
    subject: email.subject,
    tags: email.tags,
    metadata: email.metadata,
    headers: email.headers.length > 0 ? email.headers : undefined,
    unsubscribe_url: email.unsubscribeUrl,
    tls: email.tls,
    lifetime_s: email.lifetimeS,
    recipients: email.recipients.map((recipient) => ({
      position: recipient.position,
      address: recipient.address,
      address_key: recipient.addressKey,
      kind: recipient.kind,
      destination: recipient.destination,
      provider: recipient.provider,
      event_id: recipient.eventId,
    })),
    event_data: email.eventData,
    response: email.response,
    hand_over: email.handOver && mayHandOver,
    idempotency_key: email.idempotency?.key,
    fingerprint: email.idempotency?.fingerprint,
    message_id: email.written?.messageId,
  };
}

function fromRow(row: Row): Omit<AcceptRow, 'holder'> {
  return {
    outcome: row.outcome,
    response: row.response,
    fingerprint: row.fingerprint,
    domainId: row.domain_id,
    dualSigned: row.dual_signed ?? false,
    tls: row.tls,
    createdAt: row.created_at,
    suppressedPositions: row.suppressed_positions ?? [],
    limit: {
      limit: row.limit,
      remaining: row.remaining,
      // A window that another worker began while this statement waited for it starts in its future.
      resetS: Math.min(row.reset_s, row.window_s),
      windowS: row.window_s,
      ...(row.of_recipients && { counts: 'recipients' as const }),
    },
  };
}
