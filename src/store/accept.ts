/**
 * Group commit of accepted emails.
 *
 * Guarantee: a result `accepted` or `replayed` means that email, recipients, first event and
 * idempotency key are one committed transaction on disk. Everything that arrives while a commit is
 * in flight joins the next one. When the connection dies around the commit, the database is asked
 * which of the emails it has (`findStored`): their ids were made before the statement.
 *
 * Emails of a project whose limit row is locked by another transaction are committed apart from the
 * others, with a short lock timeout, so that they delay no other project.
 */
import { Overloaded } from '../core/refusals.ts';
import { type AcceptRow, type BatchOptions, type NewEmail, runBatch } from './accept-statement.ts';
import {
  type Database,
  DatabaseUnavailable,
  impatient,
  isLockTimeout,
  type Queryable,
} from './postgres/database.ts';
import { GroupCommit } from './postgres/group-commit.ts';

/** The connection died around the commit, and whether it committed could not be learned in time. */
export class AcceptedUnknown extends Error {
  override readonly name = 'AcceptedUnknown';
}

/** Messages waiting for their commit, in memory: beyond this a request is turned away. */
const PENDING_BYTES_MAX = 96 * 1024 * 1024;
/** 10,000 requests at once are stored, not refused, even when all of them come to one worker. */
const PENDING_ITEMS_MAX = 20_000;

/** What accepting needs of its connection. */
export type AcceptConnection = Queryable & Pick<Database, 'transaction'>;

export type AcceptStoreOptions = Omit<BatchOptions, 'holder'> & {
  /** This worker's lease, for handing over; null while it holds none. */
  holder: () => string | null;
  /** Called for emails that may be stored, held by this worker, before its outcome is known. */
  onUnknown: (emailIds: readonly string[]) => void;
};

/** For projects whose limit row was locked for longer than a batch waits. */
const BUSY_LOCK_TIMEOUT_MS = 100;
const BUSY_PACE_MS = 1_000;

/** The longest added wait of a request; halves the commits at medium load (bench/README.md). */
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
          return await commitOrFind(db, emails, options);
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
        const rows = await commitOrFind(db, own, options);
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
async function commitOrFind(
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
    const truth = findStored(db, emails, holder).then((rows) => {
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

/** How long, and how far apart, the truth is asked for. */
const TRUTH_WITHIN_MS = 4_000;
const TRUTH_PAUSE_MS = 400;

/** The columns of an AcceptRow as the accept statement (accept-statement.ts) stored them: change both together. */
const FIND_EMAILS = `
select e.id, wire_time(e.created_at) as created_at, e.created_at as at,
       e.scheduled_at is not null as is_scheduled, e.domain_id, e.dual_signed,
       (select c.tls from contents c where c.project_id = e.project_id and c.email_id = e.id) as tls,
       (select array_agg(r.position) from recipients r
         where r.project_id = e.project_id and r.email_id = e.id and r.status = 'suppressed')
         as suppressed_positions,
       coalesce((select bool_or(q.held) from queue q where q.email_id = e.id), false) as is_held
  from unnest($1::uuid[], $2::text[], $3::uuid[]) as i(project_id, environment, id)
 cross join lateral (
    select * from emails e
     where e.project_id = i.project_id and e.environment = i.environment and e.id = i.id limit 1) e`;

type FoundEmail = {
  id: string;
  created_at: string;
  at: Date;
  is_scheduled: boolean;
  domain_id: string;
  dual_signed: boolean;
  tls: AcceptRow['tls'];
  suppressed_positions: number[] | null;
  is_held: boolean;
};

/**
 * The connection died. What is found stored now was accepted. What is not found is unknown: the
 * statement may still be running on a server that has not noticed that its client is gone.
 */
export async function findStored(
  db: Queryable,
  emails: readonly NewEmail[],
  holder: string | null,
): Promise<AcceptRow[] | null> {
  const timeUp = AbortSignal.timeout(TRUTH_WITHIN_MS);
  const late = new Promise<[]>((resolve) => timeUp.addEventListener('abort', () => resolve([])));
  while (!timeUp.aborted) {
    await new Promise((resolve) => setTimeout(resolve, TRUTH_PAUSE_MS));
    const asked = db.query<FoundEmail>(FIND_EMAILS, [
      emails.map((email) => email.projectId),
      emails.map((email) => email.environment),
      emails.map((email) => email.id),
    ]);
    const found = await Promise.race([asked.catch(() => []), late]);
    if (found.length === 0) continue;
    const byId = new Map(found.map((row) => [row.id, row]));
    return emails.map((email) => truthOf(email, byId.get(email.id), holder));
  }
  return null;
}

/** One batch is one transaction: an email that is missing beside others was refused by its rules. */
function truthOf(email: NewEmail, row: FoundEmail | undefined, holder: string | null): AcceptRow {
  // The limit's state is not asked again: it is only a hint for headers.
  const limit = { limit: 0, remaining: 0, resetS: 0, windowS: 60 };
  if (!row) {
    return {
      outcome: 'unknown',
      response: null,
      fingerprint: null,
      domainId: null,
      dualSigned: false,
      tls: null,
      createdAt: new Date(0),
      suppressedPositions: [],
      holder: null,
      limit,
    };
  }
  return {
    outcome: 'accepted',
    response: email.response
      .replace('@created_at', row.created_at)
      .replace('@status', row.is_scheduled ? 'scheduled' : 'queued'),
    fingerprint: null,
    domainId: row.domain_id,
    dualSigned: row.dual_signed,
    tls: row.tls,
    createdAt: row.at,
    suppressedPositions: row.suppressed_positions ?? [],
    holder: email.handOver && !row.is_held ? holder : null,
    limit,
  };
}
