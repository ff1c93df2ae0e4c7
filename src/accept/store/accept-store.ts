/**
 * Group commit of accepted emails. The fast path (fast-path.ts) stores most emails with one statement. The full path
 * (full-path.ts) decides the others, in commits of its own.
 *
 * Guarantee: a result `accepted` or `replayed` means that email, recipients, first event and idempotency key are one
 * committed transaction on disk. The emails of one batch request are one commit. If the connection is lost around the
 * commit, `findStored` asks the database for the emails by their ids, which were generated before.
 *
 * Emails of a project whose limit row is locked by another transaction are committed separately, with a short lock
 * timeout, so that they do not delay other projects. Large limits get blocks (limit-blocks.ts).
 */
import { Overloaded } from '../../core/refusals.ts';
import type { Scope } from '../../core/scope.ts';
import { NOT_TRACKED, trackingOf } from '../../mail/links/tracking-link.ts';
import type { EmailFacts } from './decision.ts';
import type { AcceptRow, EmailBatch, NewEmail } from './new-email.ts';
import {
  type FastPathOptions,
  isForFastPath,
  storeEmailsFast,
  storeBatchFast,
} from './fast-path.ts';
import { storeEmails, storeBatch } from './full-path.ts';
import { makeBlocks, needsBlocks } from './limit-blocks.ts';
import type { QueuedEmail } from '../../delivery/queue/queue-store.ts';
import { DatabaseUnavailable, isLockTimeout, type Queryable } from '../../database/database.ts';
import { GroupCommit } from '../../database/group-commit.ts';

/** The connection was lost around the commit, and its result could not be determined in time. */
export class AcceptedUnknown extends Error {
  override readonly name = 'AcceptedUnknown';
}

/** Limit on the memory of emails that wait for their commit. Beyond it, requests are refused. */
const PENDING_BYTES_MAX = 96 * 1024 * 1024;
/** High enough for 10,000 concurrent requests at one worker. */
const PENDING_ITEMS_MAX = 20_000;

type AcceptRequest = NewEmail | EmailBatch;

/** One row per email of a request; a promise if the rows must be read after a lost connection. */
type Answer = readonly AcceptRow[] | Promise<readonly AcceptRow[]>;

export type AcceptStoreOptions = Pick<
  FastPathOptions,
  'limit' | 'recipientLimit' | 'onNotified'
> & {
  holder: () => string | null;
  /** Called for emails that may be stored under this worker's lease, before the result is known. */
  onUnknown: (emails: readonly QueuedEmail[]) => void;
};

type CommitOptions = AcceptStoreOptions & {
  withBlocks: Set<string>;
  lockTimeoutMs?: number;
};

const BUSY_LOCK_TIMEOUT_MS = 100;
const BUSY_PACE_MS = 1_000;

/** Longest delay that grouping adds to a request. It halves the number of commits at medium load (bench/README.md). */
const ACCEPT_PACE_MS = 8;

export class AcceptStore {
  readonly #fastCommits: GroupCommit<AcceptRequest, readonly AcceptRow[]>;
  readonly #commits: GroupCommit<AcceptRequest, readonly AcceptRow[]>;
  /** Projects whose limit row was locked too long, until one of their emails is stored. */
  readonly #busyCommits: GroupCommit<AcceptRequest, readonly AcceptRow[]>;
  readonly #busy = new Set<string>();
  readonly #withBlocks = new Set<string>();
  readonly #byKey = new Map<string, Promise<readonly AcceptRow[]>>();

  constructor(db: Queryable, given: AcceptStoreOptions) {
    const options = { ...given, withBlocks: this.#withBlocks };
    const busyOptions = { ...options, lockTimeoutMs: BUSY_LOCK_TIMEOUT_MS };
    const apart = (requests: readonly AcceptRequest[]) =>
      this.#commitApart(db, requests, busyOptions);
    const common = {
      sizeBytes: (request: AcceptRequest) => request.sizeBytes,
      mayTryOneByOne: (error: unknown) => !(error instanceof DatabaseUnavailable),
      exclusiveKey: (request: AcceptRequest) => keyOf(request),
      needsOwnBatch: (request: AcceptRequest) => isBatch(request),
    };
    this.#busyCommits = new GroupCommit({ ...common, commit: apart, paceMs: BUSY_PACE_MS });
    const unlessBusy =
      (commit: (requests: readonly AcceptRequest[]) => Promise<Answer[]>) =>
      async (requests: readonly AcceptRequest[]): Promise<Answer[]> => {
        try {
          // A request may have joined this batch before its project was found to be locked.
          const isBusy = requests.some((request) => this.#busy.has(limitOf(request)));
          return isBusy ? await apart(requests) : await commit(requests);
        } catch (error) {
          if (isLockTimeout(error)) return apart(requests);
          // Waiting requests would take as long and fail too.
          if (error instanceof DatabaseUnavailable) this.#rejectWaiting(error);
          throw error;
        }
      };
    const decide = unlessBusy((requests) => commitOrFind(db, requests, options));
    const store = unlessBusy(async (requests) => {
      const answers = await this.#commitByFastPath(db, requests, options);
      this.#makeBlocks(db, requests, answers);
      return answers;
    });
    this.#commits = new GroupCommit({ ...common, commit: decide, paceMs: ACCEPT_PACE_MS });
    this.#fastCommits = new GroupCommit({ ...common, commit: store, paceMs: ACCEPT_PACE_MS });
  }

  #rejectWaiting(error: DatabaseUnavailable): void {
    this.#fastCommits.rejectQueued(error);
    this.#commits.rejectQueued(error);
  }

  async #commitByFastPath(
    db: Queryable,
    requests: readonly AcceptRequest[],
    options: CommitOptions,
  ): Promise<Answer[]> {
    const answers = await storeOrFind(db, requests, { options, store: storeByFastPath });
    return answers.map((answer, index) => answer ?? this.#commits.add(requests[index]!));
  }

  /** Creates blocks for projects that need them. After a failure the next batch tries again. */
  #makeBlocks(db: Queryable, requests: readonly AcceptRequest[], answers: readonly Answer[]): void {
    for (const [index, request] of requests.entries()) {
      const answer = answers[index]!;
      const limit = limitOf(request);
      if (answer instanceof Promise || this.#withBlocks.has(limit)) continue;
      const state = answer[0]!.limit;
      if (state === null || !needsBlocks(state)) continue;
      this.#withBlocks.add(limit);
      makeBlocks(db, request, BUSY_LOCK_TIMEOUT_MS).catch(() => this.#withBlocks.delete(limit));
    }
  }

  /** Commits project by project, so that a locked row fails only its own project. */
  async #commitApart(
    db: Queryable,
    requests: readonly AcceptRequest[],
    options: CommitOptions,
  ): Promise<Answer[]> {
    const results = new Map<AcceptRequest, Answer>();
    for (const [limit, own] of Map.groupBy(requests, limitOf)) {
      try {
        const answers = await commitOrFind(db, own, options);
        own.forEach((request, index) => results.set(request, answers[index]!));
        this.#busy.delete(limit);
      } catch (error) {
        // Not thrown: other projects of the batch may be committed and would be stored twice.
        if (isLockTimeout(error)) this.#busy.add(limit);
        const failed = own.length === 1 || error instanceof DatabaseUnavailable;
        if (failed) own.forEach((request) => results.set(request, refusing(error)));
        else await commitOneByOne(db, own, { options, results });
      }
    }
    return requests.map((request) => results.get(request)!);
  }

  /**
   * Stores one email or returns the refusal. Both paths check key, domain, suppressions and limit when they store,
   * whatever the request was checked for before.
   * @throws Overloaded before anything was stored
   * @throws DatabaseUnavailable when nothing was stored
   * @throws AcceptedUnknown when it may have been stored
   */
  async accept(email: NewEmail): Promise<AcceptRow> {
    const [row] = await this.#add(email);
    return row!;
  }

  acceptBatch(batch: EmailBatch): Promise<readonly AcceptRow[]> {
    return this.#add(batch);
  }

  async #add(request: AcceptRequest): Promise<readonly AcceptRow[]> {
    const shared = sharedBy(request);
    const twin = shared === null ? undefined : this.#byKey.get(shared);
    if (twin) return asReplay(await twin, request);
    this.#refuseOverload(request.sizeBytes);
    const commit = this.#commitsFor(request).add(request);
    return shared === null ? commit : this.#shared(shared, commit);
  }

  #commitsFor(request: AcceptRequest): GroupCommit<AcceptRequest, readonly AcceptRow[]> {
    if (this.#busy.has(limitOf(request))) return this.#busyCommits;
    const emails = isBatch(request) ? request.emails : [request];
    return emails.every(isForFastPath) ? this.#fastCommits : this.#commits;
  }

  isOverloaded(bytes = 0): boolean {
    const all = [this.#fastCommits, this.#commits, this.#busyCommits];
    const pendingItems = all.reduce((sum, commits) => sum + commits.pendingItems, 0);
    const pendingBytes = all.reduce((sum, commits) => sum + commits.pendingBytes, 0);
    return pendingItems >= PENDING_ITEMS_MAX || pendingBytes + bytes > PENDING_BYTES_MAX;
  }

  #refuseOverload(bytes: number): void {
    if (!this.isOverloaded(bytes)) return;
    throw new Overloaded('too many messages are waiting to be stored');
  }

  #shared(key: string, commit: Promise<readonly AcceptRow[]>): Promise<readonly AcceptRow[]> {
    this.#byKey.set(key, commit);
    const forget = (): void => void this.#byKey.delete(key);
    commit.then(forget, forget);
    return commit;
  }
}

function limitOf({ projectId, environment }: Scope): string {
  return `${projectId} ${environment}`;
}

function isBatch(request: AcceptRequest): request is EmailBatch {
  return 'emails' in request;
}

function isEmail(request: AcceptRequest): request is NewEmail {
  return !isBatch(request);
}

/** Commits requests one by one, so that a request that the database refuses fails alone. */
async function commitOneByOne(
  db: Queryable,
  requests: readonly AcceptRequest[],
  { options, results }: { options: CommitOptions; results: Map<AcceptRequest, Answer> },
): Promise<void> {
  for (const request of requests) {
    try {
      const [answer] = await commitOrFind(db, [request], options);
      results.set(request, answer!);
    } catch (error) {
      results.set(request, refusing(error));
    }
  }
}

function refusing(reason: unknown): Promise<never> {
  const refused = Promise.reject(reason);
  refused.catch(() => {});
  return refused;
}

function keyOf(request: AcceptRequest): string | null {
  if (request.idempotency === null) return null;
  return `${request.projectId} ${request.environment} ${request.idempotency.key} `;
}

/**
 * Identifies equal requests. Includes the API key, because a revoked key's refusal must not apply to a request with
 * another key.
 */
function sharedBy(request: AcceptRequest): string | null {
  const key = keyOf(request);
  return key === null ? null : `${key}${request.keyId} ${request.idempotency?.fingerprint}`;
}

/** Returns the result of a second request with the same idempotency key, from the first one's. */
function asReplay(rows: readonly AcceptRow[], { idempotency }: AcceptRequest): AcceptRow[] {
  const isAccepted = rows.some(({ outcome }) => outcome === 'accepted');
  const fingerprint = idempotency?.fingerprint ?? null;
  return rows.map((row) =>
    isAccepted ? { ...row, outcome: 'replayed', fingerprint, holder: null } : row,
  );
}

type Store<Rows> = (
  db: Queryable,
  requests: readonly AcceptRequest[],
  options: FastPathOptions,
) => Promise<Rows[]>;

/** @throws DatabaseUnavailable when nothing was stored */
function commitOrFind(
  db: Queryable,
  requests: readonly AcceptRequest[],
  options: CommitOptions,
): Promise<Answer[]> {
  return storeOrFind(db, requests, { options, store: decideAll });
}

/** @throws DatabaseUnavailable when nothing was stored */
async function storeOrFind<Rows extends readonly AcceptRow[] | null>(
  db: Queryable,
  requests: readonly AcceptRequest[],
  { options, store }: { options: CommitOptions; store: Store<Rows> },
): Promise<(Rows | Answer)[]> {
  const holder = options.holder();
  const { withBlocks } = options;
  const hasBlocks = requests.some((request) => withBlocks.has(limitOf(request)));
  const onBlocksFound = (scope: Scope): void => void withBlocks.add(limitOf(scope));
  try {
    return await store(db, requests, { ...options, holder, hasBlocks, onBlocksFound });
  } catch (error) {
    if (!(error instanceof DatabaseUnavailable) || error.isUndone) throw error;
    const truth = findTruth(db, requests, { holder, options, cause: error });
    return requests.map((_, index) => truth.then((answers) => answers[index]!));
  }
}

const storeByFastPath: Store<readonly AcceptRow[] | null> = async (db, requests, options) => {
  const [first] = requests;
  if (first && isBatch(first)) return [await storeBatchFast(db, first, options)];
  const rows = await storeEmailsFast(db, requests.filter(isEmail), options);
  return rows.map((row) => row && [row]);
};

const decideAll: Store<readonly AcceptRow[]> = async (db, requests, options) => {
  const [first] = requests;
  if (first && isBatch(first)) return [await storeBatch(db, first, options)];
  const rows = await storeEmails(db, requests.filter(isEmail), options);
  return rows.map((row) => [row]);
};

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
  // The reasons for which emails of a permissive batch were refused are not stored.
  const rows = batch?.isStrict === false ? null : await findStoredEmails(db, emails, holder);
  if (rows !== null && batch !== null) {
    const response = batch.respond(rows.map(() => 'accepted'));
    return [rows.map((row) => ({ ...row, response }))];
  }
  if (rows !== null) return rows.map((row) => [row]);
  options.onUnknown(emails);
  const message = 'the connection to the database was lost while the email was being stored';
  throw new AcceptedUnknown(message, { cause });
}

const FIND_KEY = `
select response, encode(fingerprint, 'hex') as fingerprint from idempotency
 where project_id = $1 and environment = $2 and key = $3 and expires_at > app_now()`;

/** Returns the answer to an earlier request with this Idempotency-Key, or null when there was none within 24 hours. */
export async function findEarlierRequest(
  db: Queryable,
  { projectId, environment }: Scope,
  key: string,
): Promise<EmailFacts['earlierRequest']> {
  const found = await db.query<NonNullable<EmailFacts['earlierRequest']>>(FIND_KEY, [
    projectId,
    environment,
    key,
  ]);
  return found[0] ?? null;
}

const TRUTH_WITHIN_MS = 4_000;
const TRUTH_PAUSE_MS = 400;

/** Reads the columns of an AcceptRow that insert.ts stored. Change both together. */
const FIND_EMAILS = `
select e.id, wire_time(e.created_at) as created_at, e.created_at as at,
       e.scheduled_at is not null as is_scheduled, e.domain_id, e.dual_signed,
       c.tls, c.tracking,
       (select array_agg(r.position) from recipients r
         where r.project_id = e.project_id and r.email_id = e.id and r.status = 'suppressed')
         as suppressed_positions,
       coalesce((select bool_or(q.held) from queue q
                  where q.project_id = e.project_id and q.email_id = e.id), false) as is_on_hold
  from unnest($1::uuid[], $2::text[], $3::uuid[]) as i(project_id, environment, id)
 cross join lateral (
    select * from emails e
     where e.project_id = i.project_id and e.environment = i.environment and e.id = i.id limit 1) e
  left join lateral (
    select c.tls, c.tracking from contents c
     where c.project_id = e.project_id and c.email_id = e.id limit 1) c on true`;

type FoundEmail = {
  id: string;
  created_at: string;
  at: Date;
  is_scheduled: boolean;
  domain_id: string;
  dual_signed: boolean;
  tls: AcceptRow['tls'];
  tracking: string | null;
  suppressed_positions: number[] | null;
  is_on_hold: boolean;
};

/**
 * Looks for emails after a lost connection. Found emails were accepted. Null: none was found in time, and all are
 * unknown, because the statement may still run on a server that has not noticed the lost connection.
 */
export async function findStoredEmails(
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

/** A batch is one transaction: if others of the batch are stored, a missing email was refused. */
function truthOf(email: NewEmail, row: FoundEmail | undefined, holder: string | null): AcceptRow {
  if (!row) {
    return {
      outcome: 'unknown',
      response: null,
      fingerprint: null,
      domainId: null,
      dualSigned: false,
      tls: null,
      tracking: NOT_TRACKED,
      createdAt: new Date(0),
      suppressedPositions: [],
      holder: null,
      limit: null,
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
    tracking: trackingOf(row.tracking),
    createdAt: row.at,
    suppressedPositions: row.suppressed_positions ?? [],
    holder: email.mayHandOver && !row.is_on_hold ? holder : null,
    limit: null,
  };
}
