/**
 * Group commit of accepted emails.
 *
 * Guarantee: a result `accepted` or `replayed` means that email, recipients, first event and
 * idempotency key are one committed transaction on disk. Everything that arrives while a commit is
 * in flight joins the next one. When the connection dies around the commit, the database is asked
 * which of the emails it has (`findStored`): their ids were made before the statement.
 *
 * The emails of one request (email-batch.ts) are a commit by themselves.
 *
 * Emails of a project whose limit row is locked by another transaction are committed apart from the
 * others, with a short lock timeout, so that they delay no other project.
 */
import { Overloaded } from '../core/refusals.ts';
import { type AcceptRow, type BatchOptions, type NewEmail, runBatch } from './accept-statement.ts';
import { type EmailBatch, runEmailBatch } from './email-batch.ts';
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

/** One request: an email, or several to be stored in one commit. */
type AcceptRequest = NewEmail | EmailBatch;

/** A row for each email of a request; or they have to be found out first. */
type Answer = readonly AcceptRow[] | Promise<readonly AcceptRow[]>;

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
  readonly #commits: GroupCommit<AcceptRequest, readonly AcceptRow[]>;
  /** Of projects whose limit was locked for too long, until an email of theirs gets through. */
  readonly #busyCommits: GroupCommit<AcceptRequest, readonly AcceptRow[]>;
  readonly #busy = new Set<string>();
  /** Equal requests in this process share one commit (sharedBy). */
  readonly #byKey = new Map<string, Promise<readonly AcceptRow[]>>();

  constructor(db: AcceptConnection, options: AcceptStoreOptions) {
    const busyDb = impatient(db, BUSY_LOCK_TIMEOUT_MS);
    const apart = (requests: readonly AcceptRequest[]) =>
      this.#commitApart(busyDb, requests, options);
    const common = {
      sizeBytes: (request: AcceptRequest) => request.sizeBytes,
      mayTryOneByOne: (error: unknown) => !(error instanceof DatabaseUnavailable),
      exclusiveKey: (request: AcceptRequest) => keyOf(request),
      isAlone: (request: AcceptRequest) => isBatch(request),
    };
    this.#busyCommits = new GroupCommit({ ...common, commit: apart, paceMs: BUSY_PACE_MS });
    this.#commits = new GroupCommit({
      ...common,
      commit: async (requests) => {
        try {
          // Those that waited for this batch when the one before found their row locked.
          const isBusy = requests.some((request) => this.#busy.has(limitOf(request)));
          return isBusy ? await apart(requests) : await commitOrFind(db, requests, options);
        } catch (error) {
          if (isLockTimeout(error)) return apart(requests);
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
    requests: readonly AcceptRequest[],
    options: AcceptStoreOptions,
  ): Promise<Answer[]> {
    const results = new Map<AcceptRequest, Answer>();
    for (const [limit, own] of Map.groupBy(requests, limitOf)) {
      try {
        const answers = await commitOrFind(db, own, options);
        own.forEach((request, index) => results.set(request, answers[index]!));
        this.#busy.delete(limit);
      } catch (error) {
        if (!(error instanceof DatabaseUnavailable)) throw error;
        if (isLockTimeout(error)) this.#busy.add(limit);
        for (const request of own) results.set(request, refusing(error));
      }
    }
    return requests.map((request) => results.get(request)!);
  }

  /**
   * Stores one email, or says why not. The statement itself re-checks key, domain, suppressions
   * and limit, so that what changed a moment ago counts.
   * @throws Overloaded before anything was stored
   * @throws DatabaseUnavailable when certainly nothing was stored
   * @throws AcceptedUnknown when it may have been stored
   */
  async accept(email: NewEmail): Promise<AcceptRow> {
    const [row] = await this.#add(email);
    return row!;
  }

  /** The same for the emails of one request, in one commit. @returns one row per email */
  acceptBatch(batch: EmailBatch): Promise<readonly AcceptRow[]> {
    return this.#add(batch);
  }

  async #add(request: AcceptRequest): Promise<readonly AcceptRow[]> {
    const shared = sharedBy(request);
    const twin = shared === null ? undefined : this.#byKey.get(shared);
    if (twin) return asReplay(await twin, request);
    this.#refuseOverload(request.sizeBytes);
    const commits = this.#busy.has(limitOf(request)) ? this.#busyCommits : this.#commits;
    const commit = commits.add(request);
    return shared === null ? commit : this.#shared(shared, commit);
  }

  #refuseOverload(bytes: number): void {
    const pendingItems = this.#commits.pendingItems + this.#busyCommits.pendingItems;
    const pendingBytes = this.#commits.pendingBytes + this.#busyCommits.pendingBytes;
    if (pendingItems < PENDING_ITEMS_MAX && pendingBytes + bytes <= PENDING_BYTES_MAX) return;
    throw new Overloaded('too many messages are waiting to be stored');
  }

  #shared(key: string, commit: Promise<readonly AcceptRow[]>): Promise<readonly AcceptRow[]> {
    this.#byKey.set(key, commit);
    const forget = (): void => void this.#byKey.delete(key);
    commit.then(forget, forget);
    return commit;
  }
}

/** Emails with the same lock the same row. */
function limitOf({ projectId, environment }: AcceptRequest): string {
  return `${projectId} ${environment}`;
}

function isBatch(request: AcceptRequest): request is EmailBatch {
  return 'emails' in request;
}

function isEmail(request: AcceptRequest): request is NewEmail {
  return !isBatch(request);
}

/** Of one among others: theirs are answered. */
function refusing(reason: unknown): Promise<never> {
  const refused = Promise.reject(reason);
  refused.catch(() => {});
  return refused;
}

function keyOf(request: AcceptRequest): string | null {
  if (request.idempotency === null) return null;
  return `${request.projectId} ${request.environment} ${request.idempotency.key} `;
}

/** The API key as well: what is refused because one was revoked is not refused to another. */
function sharedBy(request: AcceptRequest): string | null {
  const key = keyOf(request);
  return key === null ? null : `${key}${request.keyId} ${request.idempotency?.fingerprint}`;
}

/** What a second request with the same key gets from the first one's result. */
function asReplay(rows: readonly AcceptRow[], { idempotency }: AcceptRequest): AcceptRow[] {
  const isAccepted = rows.some(({ outcome }) => outcome === 'accepted');
  const fingerprint = idempotency?.fingerprint ?? null;
  return rows.map((row) =>
    isAccepted ? { ...row, outcome: 'replayed', fingerprint, holder: null } : row,
  );
}

/** @throws DatabaseUnavailable when certainly nothing was stored */
async function commitOrFind(
  db: Queryable,
  requests: readonly AcceptRequest[],
  options: AcceptStoreOptions,
): Promise<Answer[]> {
  const holder = options.holder();
  const settings = { ...options, holder };
  try {
    const [first] = requests;
    if (first && isBatch(first)) {
      const rows = await runEmailBatch(db, first, settings);
      return [await lookAgainAtRefusedBatch(db, first, rows).catch(() => rows)];
    }
    const emails = requests.filter(isEmail);
    const rows = await runBatch(db, emails, settings);
    // Committed: whatever happens from here on, that does not change any more.
    const known = await lookAgainAtRefusedKeys(db, emails, rows).catch(() => rows);
    return known.map((row) => [row]);
  } catch (error) {
    if (!(error instanceof DatabaseUnavailable) || error.isUndone) throw error;
    const truth = findTruth(db, requests, { holder, options, cause: error });
    return requests.map((_, index) => truth.then((answers) => answers[index]!));
  }
}

/** @throws AcceptedUnknown */
async function findTruth(
  db: Queryable,
  requests: readonly AcceptRequest[],
  {
    holder,
    options,
    cause,
  }: { holder: string | null; options: AcceptStoreOptions; cause: DatabaseUnavailable },
): Promise<readonly (readonly AcceptRow[])[]> {
  const [first] = requests;
  const batch = first && isBatch(first) ? first : null;
  const emails = batch?.emails ?? requests.filter(isEmail);
  // The response of a permissive batch is known to nobody but the database.
  const rows = batch?.rest.kind === 'permissive' ? null : await findStored(db, emails, holder);
  if (rows !== null && batch?.rest.kind === 'strict') {
    const { response } = batch.rest;
    return [rows.map((row) => ({ ...row, response }))];
  }
  if (rows !== null) return rows.map((row) => [row]);
  options.onUnknown(emails.map((email) => email.id));
  const message = 'the database went away while the email was being stored';
  throw new AcceptedUnknown(message, { cause });
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
  const byKey = await findKeys(db, refused);
  return rows.map((row, index) => {
    const earlier = row.outcome === 'limited' && byKey.get(keyOf(emails[index]!) ?? '');
    return earlier ? { ...row, ...earlier, outcome: 'replayed' } : row;
  });
}

async function lookAgainAtRefusedBatch(
  db: Queryable,
  batch: EmailBatch,
  rows: AcceptRow[],
): Promise<AcceptRow[]> {
  const isLimited = rows.some(({ outcome }) => outcome === 'limited');
  const isStored = rows.some(({ outcome }) => outcome === 'accepted');
  if (batch.idempotency === null || !isLimited || isStored) return rows;
  const earlier = (await findKeys(db, [batch])).get(keyOf(batch) ?? '');
  return earlier ? rows.map((row) => ({ ...row, ...earlier, outcome: 'replayed' })) : rows;
}

type Remembered = { id: string; response: string; fingerprint: string };

/** @returns what is remembered, by keyOf */
async function findKeys(
  db: Queryable,
  requests: readonly AcceptRequest[],
): Promise<Map<string, Remembered>> {
  const found = await db.query<Remembered>(FIND_KEYS, [
    requests.map(({ projectId }) => projectId),
    requests.map(({ environment }) => environment),
    requests.map(({ idempotency }) => idempotency?.key),
  ]);
  return new Map(found.map((row) => [row.id, row]));
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
