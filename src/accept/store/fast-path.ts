/**
 * The fast path of accepting: one statement (fast-path-sql.ts) stores emails to one recipient that are due now and
 * that nothing prevents. It costs PostgreSQL less CPU than the full path, and one round trip
 * (docs/decisions/0004-accept-and-settle.md).
 *
 * The full path (full-path.ts) remains the specification. The fast path stores an email exactly as the full path would,
 * or skips it. The full path then decides the skipped emails in a separate commit: refusals, suppressed recipients,
 * known idempotency keys, paused domains, and limits without capacity for the whole batch. fast-path.test.ts compares
 * both paths.
 */
import { ALLOW_ALL, scopeKey } from '../../core/scope.ts';
import { domainOf, formatMailbox } from '../../mail/address.ts';
import { parseTracking } from '../../mail/links/tracking-link.ts';
import {
  FAST_BATCH,
  FAST_WITH_KEYS,
  FAST_WITHOUT_KEYS,
  type GroupRow,
  type IdempotencyRow,
  type StatementVariants,
  valuesOf,
} from './fast-path-sql.ts';
import { type EmailBatch, type EmailResult, fillResponse, type NewEmail } from './new-email.ts';
import type { FullPathOptions } from './full-path.ts';
import { isFromAllowedNetwork, refusalByLists } from '../accept-refusals.ts';
import { commitAccepted } from './insert.ts';
import { binaryArray, literalArray } from '../../database/parameters/binary-array.ts';
import type { Queryable } from '../../database/database.ts';

export type FastPathOptions = FullPathOptions & {
  /** True when the limit of one of the projects is known to have blocks. */
  hasBlocks?: boolean;
};

export function isForFastPath(email: NewEmail): boolean {
  const { scheduledAt, recipients, to, cc, bcc, dsn, allowLists = ALLOW_ALL } = email;
  const [recipient] = recipients;
  return (
    scheduledAt === null &&
    dsn === undefined &&
    recipients.length === 1 &&
    recipient?.kind === 'to' &&
    recipient.position === 0 &&
    to.length === 1 &&
    cc.length === 0 &&
    bcc.length === 0 &&
    isFromAllowedNetwork(email, allowLists) &&
    refusalByLists(email, allowLists) === null
  );
}

/**
 * Stores emails for which `isForFastPath` holds, in one transaction.
 * @returns one row per email, in order, null for an email that the full path has to decide
 */
export async function storeEmailsFast(
  db: Queryable,
  emails: readonly NewEmail[],
  options: FastPathOptions,
): Promise<(EmailResult | null)[]> {
  const hasKeys = emails.some(({ idempotency }) => idempotency !== null);
  const statement = hasKeys ? FAST_WITH_KEYS : FAST_WITHOUT_KEYS;
  const keys = emails.map(
    ({ idempotency, response }) => idempotency && { ...idempotency, response },
  );
  return runStatement(db, statement, { ...options, emails, keys: hasKeys ? keys : null });
}

/** Stores the emails of one request. @returns null when nothing was stored */
export async function storeBatchFast(
  db: Queryable,
  batch: EmailBatch,
  options: FastPathOptions,
): Promise<EmailResult[] | null> {
  const { emails, idempotency } = batch;
  const response = batch.respond(emails.map(() => 'accepted'));
  const keys = [idempotency && { ...idempotency, response }];
  const rows = await runStatement(db, FAST_BATCH, { ...options, emails, keys });
  const stored = rows.filter((row) => row !== null);
  if (stored.length < rows.length) return null;
  return stored.map((row, index) => ({ ...row, response: index === 0 ? response : null }));
}

type FastPathInput = FastPathOptions & {
  emails: readonly NewEmail[];
  keys: readonly (IdempotencyRow | null)[] | null;
};

async function runStatement(
  db: Queryable,
  { plain, withBlocks }: StatementVariants,
  { emails, keys, ...options }: FastPathInput,
): Promise<(EmailResult | null)[]> {
  const statement = options.hasBlocks ? withBlocks : plain;
  const shared = sharedValues(emails, options.leaseId);
  const values = valuesOf({ limits: options, shared, emails, keys });
  const groups = await commitAccepted<GroupRow>(
    db,
    { statement, values },
    options.onWebhooksQueued,
  );
  return acceptRowsOf(emails, groups, options.leaseId);
}

function sharedValues(emails: readonly NewEmail[], leaseId: string | null) {
  const { groups, groupNumbers } = groupRecords(emails, leaseId !== null);
  const addressKeys = emails.map((email) => email.recipients[0]!.addressKey);
  return {
    groups: JSON.stringify(groups),
    leaseId,
    emailCount: emails.length,
    ids: literalArray(emails.map((email) => email.id)),
    groupNumbers: literalArray(groupNumbers),
    addressKeys: binaryArray('text', addressKeys),
    projectIds: literalArray([...new Set(emails.map((email) => email.projectId))]),
  };
}

type EmailGroup = ReturnType<typeof groupOf>;

/**
 * Groups emails that share look-ups. Returns the records of the groups in the order in which limits are locked, and the
 * number of each email's group from 1.
 */
function groupRecords(
  emails: readonly NewEmail[],
  hasLease: boolean,
): { groups: object[]; groupNumbers: number[] } {
  const byText = new Map<string, EmailGroup>();
  const counts = new Map<string, number>();
  const texts = emails.map((email) => {
    const group = groupOf(email, hasLease);
    const text = JSON.stringify(group);
    byText.set(text, group);
    counts.set(scopeKey(email), (counts.get(scopeKey(email)) ?? 0) + 1);
    return text;
  });
  // The lock order of the full path: project and environment come first in the text, and both sort by bytes.
  const sorted = [...byText.keys()].toSorted();
  const numbers = new Map(sorted.map((text, index) => [text, index + 1]));
  const groups = sorted.map((text, index) => {
    const group = byText.get(text)!;
    const scope = { projectId: group.project_id, environment: group.environment };
    const projectEmails = counts.get(scopeKey(scope));
    return { ...group, group_number: index + 1, project_emails: projectEmails };
  });
  return { groups, groupNumbers: texts.map((text) => numbers.get(text)!) };
}

function groupOf(email: NewEmail, hasLease: boolean) {
  return {
    project_id: email.projectId,
    environment: email.environment,
    key_id: email.keyId,
    domain: domainOf(email.from.address),
    reply_to: email.replyTo.map(formatMailbox),
    tags: email.tags,
    template_id: email.templateId,
    tls: email.tls ?? undefined,
    track_opens: email.tracking.opens ?? undefined,
    track_clicks: email.tracking.clicks ?? undefined,
    tracking_base: email.tracking.base ?? undefined,
    lifetime_s: email.lifetimeS,
    hand_over: email.mayHandOver && hasLease,
    allowed_networks: email.allowLists?.allowedNetworks ?? undefined,
    allowed_senders: email.allowLists?.allowedSenders ?? undefined,
    allowed_recipients: email.allowLists?.allowedRecipients ?? undefined,
  };
}

function acceptRowsOf(
  emails: readonly NewEmail[],
  groups: readonly GroupRow[],
  leaseId: string | null,
): (EmailResult | null)[] {
  const storedCounts = new Map<string, number>();
  for (const { email_numbers: numbers } of groups) {
    const key = scopeKey(emails[numbers[0]! - 1]!);
    storedCounts.set(key, (storedCounts.get(key) ?? 0) + numbers.length);
  }
  const rows = emails.map((): EmailResult | null => null);
  for (const group of groups) {
    for (const number of group.email_numbers) {
      const email = emails[number - 1]!;
      const remaining = group.remaining - storedCounts.get(scopeKey(email))!;
      rows[number - 1] = resultOf(email, { ...group, remaining }, leaseId);
    }
  }
  return rows;
}

function resultOf(email: NewEmail, group: GroupRow, leaseId: string | null): EmailResult {
  return {
    outcome: 'accepted',
    response: fillResponse(email, { createdAt: group.time, isScheduled: false }),
    fingerprint: email.idempotency?.fingerprint ?? null,
    domainId: group.domain_id,
    dualSigned: group.dual_signed,
    tls: group.tls,
    tracking: parseTracking(group.tracking),
    createdAt: group.created_at,
    suppressedPositions: [],
    leaseId: email.mayHandOver ? leaseId : null,
    limit: {
      limit: group.limit,
      remaining: group.remaining,
      resetS: Math.min(group.reset_s, group.window_s),
      windowS: group.window_s,
    },
  };
}
