/**
 * Takes responsibility for emails: group commit of the accept statement.
 *
 * Promise: a result `accepted` or `replayed` means that email, recipients, first event and
 * idempotency key are one committed transaction on disk. Everything that arrives while a commit is
 * in flight joins the next one. When the connection dies around the commit, the truth is looked up
 * (accept-truth.ts). A project whose limit somebody has locked waits for nobody and keeps nobody
 * waiting: its emails go in batches of their own, which give up at once.
 */
import { Overloaded } from '../core/overloaded.ts';
import type { Environment } from '../core/scope.ts';
import type { Limit, LimitState } from '../core/limits.ts';
import { runBatch } from './accept-batch.ts';
import { findOutWhatHappened } from './accept-truth.ts';
import {
  type Database,
  DatabaseUnavailable,
  impatient,
  isLockTimeout,
  type Queryable,
} from './postgres/database.ts';
import { GroupCommit } from './postgres/group-commit.ts';
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
  provider: string;
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

/** What accepting needs of its connection. */
export type AcceptConnection = Queryable & Pick<Database, 'transaction'>;

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

/** For the lock of a project that has had a batch wait in vain; its batches keep a pace. */
const BUSY_LOCK_TIMEOUT_MS = 100;
const BUSY_PACE_MS = 1_000;

/** What a sender waits longer at the most, for half of the commits at medium load (bench/README.md). */
const ACCEPT_PACE_MS = 4;

export class AcceptStore {
  readonly #commits: GroupCommit<NewEmail, AcceptRow>;
  /** Of projects whose limit was locked for too long, until an email of theirs gets through. */
  readonly #busyCommits: GroupCommit<NewEmail, AcceptRow>;
  readonly #busy = new Set<string>();
  /** Equal requests in this process share one commit (sharedBy). */
  readonly #byKey = new Map<string, Promise<AcceptRow>>();

  constructor(db: AcceptConnection, options: AcceptStoreOptions) {
    const busyDb = impatient(db, BUSY_LOCK_TIMEOUT_MS);
    const apart = (emails: readonly NewEmail[]) => this.#commitApart(busyDb, emails, options);
    const common = {
      sizeBytes: (email: NewEmail) => email.sizeBytes,
      mayTryOneByOne: (error: unknown) => !(error instanceof DatabaseUnavailable),
      exclusiveKey: (email: NewEmail) => keyOf(email),
    };
    this.#busyCommits = new GroupCommit({ ...common, commit: apart, paceMs: BUSY_PACE_MS });
    this.#commits = new GroupCommit({
      ...common,
      commit: async (emails) => {
        try {
          // Those that waited for this batch when the one before found their row locked.
          if (emails.some((email) => this.#busy.has(limitOf(email)))) return await apart(emails);
          return await commitOrFindOut(db, emails, options);
        } catch (error) {
          if (isLockTimeout(error)) return apart(emails);
          // Others would wait as long as these did, for the same answer.
          if (error instanceof DatabaseUnavailable) this.#commits.rejectWaiting(error);
          throw error;
        }
      },
      paceMs: ACCEPT_PACE_MS,
    });
  }

  /** Project by project: the one whose row is locked fails by itself, and at once. */
  async #commitApart(
    db: Queryable,
    emails: readonly NewEmail[],
    options: AcceptStoreOptions,
  ): Promise<(AcceptRow | Promise<AcceptRow>)[]> {
    const results = new Map<NewEmail, AcceptRow | Promise<AcceptRow>>();
    for (const [limit, own] of Map.groupBy(emails, limitOf)) {
      try {
        const rows = await commitOrFindOut(db, own, options);
        own.forEach((email, index) => results.set(email, rows[index]!));
        this.#busy.delete(limit);
      } catch (error) {
        if (!(error instanceof DatabaseUnavailable)) throw error;
        if (isLockTimeout(error)) this.#busy.add(limit);
        for (const email of own) results.set(email, refusing(error));
      }
    }
    return emails.map((email) => results.get(email)!);
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
    const commits = this.#busy.has(limitOf(email)) ? this.#busyCommits : this.#commits;
    const commit = commits.add(email);
    return shared === null ? commit : this.#shared(shared, commit);
  }

  #refuseOverload(bytes: number): void {
    const pendingItems = this.#commits.pendingItems + this.#busyCommits.pendingItems;
    const pendingBytes = this.#commits.pendingBytes + this.#busyCommits.pendingBytes;
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

/** Emails with the same lock the same row. */
function limitOf({ projectId, environment }: NewEmail): string {
  return `${projectId} ${environment}`;
}

/** Of one among others: theirs are answered. */
function refusing(reason: unknown): Promise<never> {
  const refused = Promise.reject(reason);
  refused.catch(() => {});
  return refused;
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
