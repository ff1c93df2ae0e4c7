/**
 * Group commit of accepted emails. The fast path (fast-path.ts) stores most emails with one statement. The full path
 * (full-path.ts) decides the others, in separate commits.
 *
 * Guarantee: a result `accepted` or `repeated` means that email, recipients, first event and idempotency key are one
 * committed transaction on disk. The emails of one batch request are one commit. If the connection is lost around the
 * commit, lost-commits.ts asks the database whether the emails are stored.
 *
 * Emails of a project whose limit row is locked by another transaction are committed separately, with a short lock
 * timeout, so that they do not delay other projects. Large limits get blocks (limits/limit-blocks.ts).
 */
import { Overloaded } from '../../core/refusals.ts';
import { scopeKey } from '../../core/scope.ts';
import {
  type CommitOptions,
  commitOneByOne,
  commitOnFastPath,
  commitOnFullPath,
  type CommittedRows,
  rejectionOf,
} from './commit-requests.ts';
import { LimitsWithBlocks } from './limits/limit-blocks.ts';
import { SHORT_LOCK_TIMEOUT_MS } from './limits/limit-windows.ts';
import {
  type AcceptRequest,
  type EmailResult,
  type EmailResults,
  type EmailBatch,
  emailsOf,
  idempotencyKeyOf,
  isBatch,
  type NewEmail,
  repeatKeyOf,
  toRepetition,
} from './new-email.ts';
import { isForFastPath } from './fast-path.ts';
import { DatabaseUnavailable, isLockTimeout, type Queryable } from '../../database/database.ts';
import { GroupCommit } from '../../database/group-commit.ts';
import { MIB } from '../../lib/units.ts';

export type AcceptStoreOptions = Omit<CommitOptions, 'limitsWithBlocks' | 'lockTimeoutMs'>;

type Commits = GroupCommit<AcceptRequest, EmailResults>;

/** Limit on the memory of emails that wait for their commit. Beyond it, requests are refused. */
const PENDING_BYTES_MAX = 96 * MIB;
/** High enough for 10,000 concurrent requests at one worker. */
const PENDING_ITEMS_MAX = 20_000;
/** Longest delay that grouping adds to a request. It halves the number of commits at medium load (bench/README.md). */
const ACCEPT_PACE_MS = 8;
const BUSY_PACE_MS = 1_000;

export class AcceptStore {
  readonly #db: Queryable;
  readonly #options: CommitOptions;
  readonly #fastCommits: Commits;
  readonly #fullCommits: Commits;
  /** For projects whose limit row was locked too long, until one of their emails is stored. */
  readonly #busyCommits: Commits;
  readonly #busyLimits = new Set<string>();
  readonly #limitsWithBlocks = new LimitsWithBlocks();
  /** Commits of requests with an idempotency key. A repeated request waits for the first one's commit. */
  readonly #commitsByRepeatKey = new Map<string, Promise<EmailResults>>();

  constructor(db: Queryable, options: AcceptStoreOptions) {
    this.#db = db;
    this.#options = { ...options, limitsWithBlocks: this.#limitsWithBlocks };
    const common = {
      sizeBytes: (request: AcceptRequest) => request.sizeBytes,
      mayTryOneByOne: (error: unknown) => !(error instanceof DatabaseUnavailable),
      exclusiveKey: (request: AcceptRequest) => idempotencyKeyOf(request),
      needsOwnBatch: (request: AcceptRequest) => isBatch(request),
    };
    this.#busyCommits = new GroupCommit({
      ...common,
      commit: (requests) => this.#commitByProject(requests),
      paceMs: BUSY_PACE_MS,
    });
    this.#fullCommits = new GroupCommit({
      ...common,
      commit: (requests) => this.#commitUnlessBusy(requests, () => this.#commitFull(requests)),
      paceMs: ACCEPT_PACE_MS,
    });
    this.#fastCommits = new GroupCommit({
      ...common,
      commit: (requests) => this.#commitUnlessBusy(requests, () => this.#commitFast(requests)),
      paceMs: ACCEPT_PACE_MS,
    });
  }

  /**
   * Stores one email or returns the refusal. Both paths check key, domain, suppressions and limit when they store,
   * whatever the request was checked for before.
   * @throws Overloaded before anything was stored
   * @throws DatabaseUnavailable when nothing was stored
   * @throws AcceptedUnknown when it may have been stored
   */
  async accept(email: NewEmail): Promise<EmailResult> {
    const [row] = await this.#add(email);
    return row!;
  }

  acceptBatch(batch: EmailBatch): Promise<EmailResults> {
    return this.#add(batch);
  }

  isOverloaded(bytes = 0): boolean {
    const all = [this.#fastCommits, this.#fullCommits, this.#busyCommits];
    const pendingItems = all.reduce((sum, commits) => sum + commits.pendingItems, 0);
    const pendingBytes = all.reduce((sum, commits) => sum + commits.pendingBytes, 0);
    return pendingItems >= PENDING_ITEMS_MAX || pendingBytes + bytes > PENDING_BYTES_MAX;
  }

  async #add(request: AcceptRequest): Promise<EmailResults> {
    const repeatKey = repeatKeyOf(request);
    const firstCommit = repeatKey === null ? undefined : this.#commitsByRepeatKey.get(repeatKey);
    if (firstCommit) return toRepetition(await firstCommit, request);
    if (this.isOverloaded(request.sizeBytes)) {
      throw new Overloaded('too many messages are waiting to be stored');
    }
    const commit = this.#commitsFor(request).add(request);
    if (repeatKey !== null) this.#shareCommit(repeatKey, commit);
    return commit;
  }

  #shareCommit(repeatKey: string, commit: Promise<EmailResults>): void {
    this.#commitsByRepeatKey.set(repeatKey, commit);
    const remove = (): void => void this.#commitsByRepeatKey.delete(repeatKey);
    commit.then(remove, remove);
  }

  #commitsFor(request: AcceptRequest): Commits {
    if (this.#busyLimits.has(scopeKey(request))) return this.#busyCommits;
    return emailsOf(request).every(isForFastPath) ? this.#fastCommits : this.#fullCommits;
  }

  /** Commits by project instead if a limit row is known to be locked, or proves to be. */
  async #commitUnlessBusy(
    requests: readonly AcceptRequest[],
    commit: () => Promise<CommittedRows[]>,
  ): Promise<CommittedRows[]> {
    try {
      // A request may have joined this batch before its project was found to be locked.
      const isBusy = requests.some((request) => this.#busyLimits.has(scopeKey(request)));
      return isBusy ? await this.#commitByProject(requests) : await commit();
    } catch (error) {
      if (isLockTimeout(error)) return this.#commitByProject(requests);
      // Waiting requests would take as long and fail too.
      if (error instanceof DatabaseUnavailable) this.#rejectWaiting(error);
      throw error;
    }
  }

  #rejectWaiting(error: DatabaseUnavailable): void {
    this.#fastCommits.rejectQueued(error);
    this.#fullCommits.rejectQueued(error);
  }

  #commitFull(requests: readonly AcceptRequest[]): Promise<CommittedRows[]> {
    return commitOnFullPath(this.#db, requests, this.#options);
  }

  /** Passes the emails that the fast path skips on to the full path, and creates blocks for limits that need them. */
  async #commitFast(requests: readonly AcceptRequest[]): Promise<CommittedRows[]> {
    const committed = await commitOnFastPath(this.#db, requests, this.#options);
    return committed.map((rows, index) => {
      const request = requests[index]!;
      if (rows === null) return this.#fullCommits.add(request);
      if (!(rows instanceof Promise)) {
        this.#limitsWithBlocks.makeIfNeeded(this.#db, request, rows[0]!.limit);
      }
      return rows;
    });
  }

  /** Commits project by project, so that a locked row fails only its own project. */
  async #commitByProject(requests: readonly AcceptRequest[]): Promise<CommittedRows[]> {
    const committed = new Map<AcceptRequest, CommittedRows>();
    for (const [key, own] of Map.groupBy(requests, scopeKey)) {
      const rows = await this.#commitProject(key, own);
      own.forEach((request, index) => committed.set(request, rows[index]!));
    }
    return requests.map((request) => committed.get(request)!);
  }

  /** Rejects single results and never throws: others of the batch may be committed, and would be stored twice. */
  async #commitProject(key: string, requests: readonly AcceptRequest[]): Promise<CommittedRows[]> {
    const options = { ...this.#options, lockTimeoutMs: SHORT_LOCK_TIMEOUT_MS };
    try {
      const committed = await commitOnFullPath(this.#db, requests, options);
      this.#busyLimits.delete(key);
      return committed;
    } catch (error) {
      if (isLockTimeout(error)) this.#busyLimits.add(key);
      const mayRetry = requests.length > 1 && !(error instanceof DatabaseUnavailable);
      return mayRetry
        ? commitOneByOne(this.#db, requests, options)
        : requests.map(() => rejectionOf(error));
    }
  }
}
