/**
 * Takes responsibility for emails: group commit of the accept statement.
 *
 * Promise: a result `accepted` or `replayed` means that email, recipients, first event and
 * idempotency key are one committed transaction on disk. Everything that arrives while a commit is
 * in flight joins the next one. When the connection dies around the commit, the truth is looked up
 * (accept-truth.ts).
 * Next: accept-statement.ts, what is committed; then sending/accept.ts hands the accepted
 * recipients to delivery/dispatcher.ts.
 */
import { failpoint } from '../core/failpoint.ts';
import { Overloaded } from '../core/overloaded.ts';
import type { Environment } from '../core/scope.ts';
import type { Limit, LimitState } from '../core/limits.ts';
import { ACCEPT_BATCH } from './accept-statement.ts';
import { findOutWhatHappened } from './accept-truth.ts';
import { binaryArray } from './binary-array.ts';
import { DatabaseUnavailable, type Queryable } from './database.ts';
import { GroupCommit } from './group-commit.ts';
import type { WrittenMessage } from './messages.ts';

/** One request, ready to be stored. Ids are made before the statement, so the truth can be asked. */
export type NewEmail = {
  projectId: string;
  environment: Environment;
  keyId: string;
  id: string;
  eventId: string;
  /** Domain of the from address. */
  domain: string;
  fromAddress: string;
  fromName: string | null;
  toList: readonly string[];
  ccList: readonly string[];
  bccList: readonly string[];
  replyTo: readonly string[];
  subject: string;
  html: string | null;
  bodyText: string | null;
  headers: readonly (readonly [string, string])[];
  /** JSON text, or null for none. */
  attachments: string | null;
  tags: readonly { name: string; value: string }[];
  metadata: Readonly<Record<string, string>>;
  unsubscribeUrl: string | null;
  tls: string | null;
  lifetimeS: number;
  recipients: readonly NewRecipient[];
  /** `data` of the email.queued event. */
  eventData: object;
  /** The answer's body; `@created_at` stands for the time the database gives. */
  response: string;
  /** Whether this worker takes the recipients at once, without the queue being polled. */
  handOver: boolean;
  idempotency: { key: string; fingerprint: string } | null;
  /** Of a message that goes on as it was written. */
  written: WrittenMessage | null;
  sizeBytes: number;
};

export type NewRecipient = {
  position: number;
  address: string;
  addressKey: string;
  kind: 'to' | 'cc' | 'bcc';
  destination: string;
  /** Whose turn and trouble it shares: the provider as far as is known, else the destination. */
  lane: string;
  eventId: string;
};

export type AcceptRow = {
  outcome:
    | 'accepted'
    | 'replayed'
    | 'key_refused'
    | 'domain_refused'
    | 'suppressed'
    | 'limited'
    /** Not stored, and the reason was lost with the connection: the client should repeat. */
    | 'unknown';
  /** The answer's body, when accepted or replayed. */
  response: string | null;
  /** Hex; of the request that the key belongs to, when replayed. */
  fingerprint: string | null;
  domainId: string | null;
  dualSigned: boolean;
  /** The email's own wish, else its domain's; null: opportunistic. */
  tls: 'opportunistic' | 'enforced' | null;
  createdAt: Date;
  /** Recipients that end at once. */
  suppressedPositions: readonly number[];
  /** The lease under which this worker holds the recipients; null: they wait in the queue table. */
  holder: string | null;
  /** Of emails, unless it is the one of recipients that refuses. */
  limit: LimitState;
};

/** The connection died around the commit and the truth could not be learned in time. */
export class AcceptedUnknown extends Error {
  override readonly name = 'AcceptedUnknown';
}

/** Messages waiting for their commit, in memory: beyond this a request is turned away. */
const PENDING_BYTES_MAX = 96 * 1024 * 1024;
/** 10,000 requests at once are stored, not refused, even when all of them come to one worker. */
const PENDING_ITEMS_MAX = 20_000;

export type AcceptStoreOptions = {
  /** Of emails, where a project has none of its own. */
  limit: Limit;
  /** Of recipients; null: 50 for each email, which is as many as it can have. */
  recipientLimit?: Limit | null;
  /** This worker's lease, for handing over; null while it holds none. */
  holder: () => string | null;
  /** Webhook deliveries were queued. */
  onTold: () => void;
  /** Told of emails that may be stored, held by this worker, without anybody knowing. */
  onUnknown: (emailIds: readonly string[]) => void;
};

/** What a sender waits longer at the most, for half of the commits at medium load (bench/README.md). */
const ACCEPT_PACE_MS = 4;

export class AcceptStore {
  readonly #commits: GroupCommit<NewEmail, AcceptRow>;
  /** Equal requests in this process share one commit (sharedBy). */
  readonly #byKey = new Map<string, Promise<AcceptRow>>();

  constructor(db: Queryable, options: AcceptStoreOptions) {
    this.#commits = new GroupCommit({
      commit: async (emails) => {
        try {
          return await commitOrFindOut(db, emails, options);
        } catch (error) {
          // Others would wait as long as these did, for the same answer.
          if (error instanceof DatabaseUnavailable) this.#commits.rejectWaiting(error);
          throw error;
        }
      },
      sizeBytes: (email) => email.sizeBytes,
      mayTryOneByOne: (error) => !(error instanceof DatabaseUnavailable),
      exclusiveKey: (email) => keyOf(email),
      paceMs: ACCEPT_PACE_MS,
    });
  }

  /**
   * Stores one email, or says why not. The statement itself re-checks key, domain, suppressions
   * and limit, so that what changed a moment ago counts.
   * @throws Overloaded before anything was stored
   * @throws DatabaseUnavailable when certainly nothing was stored
   * @throws AcceptedUnknown when it may have been stored
   */
  async accept(email: NewEmail): Promise<AcceptRow> {
    const shared = sharedBy(email);
    const twin = shared === null ? undefined : this.#byKey.get(shared);
    if (twin) return asReplay(await twin, email);
    this.#refuseOverload(email.sizeBytes);
    const commit = this.#commits.add(email);
    return shared === null ? commit : this.#shared(shared, commit);
  }

  #refuseOverload(bytes: number): void {
    const { pendingItems, pendingBytes } = this.#commits;
    if (pendingItems < PENDING_ITEMS_MAX && pendingBytes + bytes <= PENDING_BYTES_MAX) return;
    throw new Overloaded('too many messages are waiting to be stored');
  }

  #shared(key: string, commit: Promise<AcceptRow>): Promise<AcceptRow> {
    this.#byKey.set(key, commit);
    const forget = (): void => void this.#byKey.delete(key);
    commit.then(forget, forget);
    return commit;
  }
}

function keyOf(email: NewEmail): string | null {
  if (email.idempotency === null) return null;
  return `${email.projectId} ${email.environment} ${email.idempotency.key} `;
}

/** The API key as well: what is refused because one was revoked is not refused to another. */
function sharedBy(email: NewEmail): string | null {
  const key = keyOf(email);
  return key === null ? null : `${key}${email.keyId} ${email.idempotency?.fingerprint}`;
}

/** What a second request with the same key gets from the first one's result. */
function asReplay(row: AcceptRow, email: NewEmail): AcceptRow {
  if (row.outcome !== 'accepted') return row;
  const fingerprint = email.idempotency?.fingerprint ?? null;
  return { ...row, outcome: 'replayed', fingerprint, holder: null };
}

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

/** @throws DatabaseUnavailable when certainly nothing was stored */
async function commitOrFindOut(
  db: Queryable,
  emails: readonly NewEmail[],
  options: AcceptStoreOptions,
): Promise<(AcceptRow | Promise<AcceptRow>)[]> {
  const holder = options.holder();
  try {
    const rows = await runBatch(db, emails, { ...options, holder });
    // Committed: whatever happens from here on, that does not change any more.
    return await lookAgainAtRefusedKeys(db, emails, rows).catch(() => rows);
  } catch (error) {
    if (!(error instanceof DatabaseUnavailable) || error.isUndone) throw error;
    const truth = findOutWhatHappened(db, emails, holder).then((rows) => {
      if (rows !== null) return rows;
      options.onUnknown(emails.map((email) => email.id));
      const message = 'the database went away while the email was being stored';
      throw new AcceptedUnknown(message, { cause: error });
    });
    return emails.map((_, index) => truth.then((rows) => rows[index]!));
  }
}

async function runBatch(
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
      lane: recipient.lane,
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

const FIND_KEYS = `
select m.project_id || ' ' || m.environment || ' ' || m.key || ' ' as id, m.response,
       encode(m.fingerprint, 'hex') as fingerprint
  from unnest($1::uuid[], $2::text[], $3::text[]) as i(project_id, environment, key)
  join idempotency m using (project_id, environment, key)
 where m.expires_at > app_now()`;

/**
 * A keyed request that the limit refused may be the repeat of one that another worker committed
 * while this statement waited for the limit's lock: its snapshot could not see that.
 */
async function lookAgainAtRefusedKeys(
  db: Queryable,
  emails: readonly NewEmail[],
  rows: AcceptRow[],
): Promise<AcceptRow[]> {
  const refused = emails.filter(
    (email, index) => email.idempotency && rows[index]?.outcome === 'limited',
  );
  if (refused.length === 0) return rows;
  const found = await db.query<{ id: string; response: string; fingerprint: string }>(FIND_KEYS, [
    refused.map((email) => email.projectId),
    refused.map((email) => email.environment),
    refused.map((email) => email.idempotency?.key),
  ]);
  const byKey = new Map(found.map((row) => [row.id, row]));
  return rows.map((row, index) => {
    const earlier = row.outcome === 'limited' && byKey.get(keyOf(emails[index]!) ?? '');
    return earlier ? { ...row, ...earlier, outcome: 'replayed' } : row;
  });
}
