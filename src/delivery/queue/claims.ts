/**
 * Claims due work from the queue table for this worker. Decides how much to claim of each tenant queue, and where the
 * next poll continues.
 *
 * While less than CLAIM_MAX is due, it is claimed in order of due time. Otherwise there is a backlog. A walk then
 * serves projects in turn, within a project its providers, and within a provider the oldest mail. Suspended providers
 * and those with enough mail in memory cost one index probe each, however much mail waits for them. Every worker
 * starts its walk at a random project.
 */
import type { World } from '../../lib/world.ts';
import type { Queryable } from '../../database/database.ts';
import { LowWaterMark } from '../../database/leased-queue.ts';
import {
  claimQueues,
  claimOldest,
  type ClaimedRecipient,
  findQueues,
  type FoundQueue,
  tenantQueueKey,
} from './claim-store.ts';
import type { SmtpConnections } from '../shaping/smtp-connections.ts';
import type { FairQueue } from '../memory/fair-queue.ts';
import type { MailRouting } from '../route/mail-routing.ts';
import { SIMULATOR_PROVIDER } from '../attempt/simulator.ts';
import { DAY_MS } from '../../lib/units.ts';

/** Limit on one statement's claims. When this many are due there is a backlog. */
const CLAIM_MAX = 128;
const WALK_PROJECTS_MAX = 32;
const WALK_PROVIDERS_MAX = 192;
/** Milliseconds by which claims start before the last due time seen: the time that a transaction may take to commit. */
const LOW_WATER_MARGIN_MS = 60_000;
/** Limits for destinations without a known provider, which may be thousands at one unreachable provider. */
const UNKNOWN_PROVIDER_MAX = 2;
const UNKNOWN_PROVIDERS_MAX = 32;
const QUEUES_WITH_MORE_MAX = 1_000;
const START_SPREAD_MS = 2 * 365 * DAY_MS;
const FIRST_PROJECT = '00000000-0000-0000-0000-000000000000';

type ClaimResult = {
  claimed: ClaimedRecipient[];
  /** When to poll next. `soon`: the walk is not complete. `later`: nothing more is due. */
  nextPoll: 'at_once' | 'soon' | 'later';
};

type QueueClaim = { projectId: string; provider: string; max: number };

export class Claims {
  readonly #db: Queryable;
  readonly #fairQueue: FairQueue;
  readonly #connections: Pick<SmtpConnections, 'suspendedForMs'>;
  readonly #mailRouting: Pick<MailRouting, 'providerOf' | 'isProviderKnown'>;
  readonly #lowWater: LowWaterMark;
  #isBacklog = false;
  #lastProject: string;
  readonly #cursors = new Map<string, string>();
  #walkSteps = { withoutWork: 0, isComplete: false };
  /** Tenant queues that had more mail than was claimed. They are claimed from again without waiting for the walk. */
  readonly #queuesWithMore = new Map<string, Omit<QueueClaim, 'max'>>();
  /** True when more is due than was claimed. The table is then polled as soon as a tenant queue has space. */
  hasMore = false;

  constructor(options: {
    db: Queryable;
    world: Pick<World, 'now' | 'monotonicMs' | 'random'>;
    fairQueue: FairQueue;
    connections: Pick<SmtpConnections, 'suspendedForMs'>;
    mailRouting: Pick<MailRouting, 'providerOf' | 'isProviderKnown'>;
  }) {
    this.#db = options.db;
    this.#fairQueue = options.fairQueue;
    this.#connections = options.connections;
    this.#mailRouting = options.mailRouting;
    this.#lastProject = randomProjectId(options.world);
    this.#lowWater = new LowWaterMark(options.world);
  }

  /** Makes claims read all due rows again, because the database may be another server. */
  resetLowWaterMark(): void {
    this.#lowWater.reset();
  }

  /**
   * Claims due recipients while there is memory.
   * @throws DatabaseUnavailable
   */
  async claimDue(leaseId: string): Promise<ClaimResult> {
    if (this.#fairQueue.totalClaimLimit === 0) return { claimed: [], nextPoll: 'later' };
    if (!this.#isBacklog) {
      const claimed = await this.#claimOldest(leaseId);
      if (claimed !== null) return { claimed, nextPoll: 'later' };
      this.#isBacklog = true;
      this.hasMore = true;
    }
    return this.#claimFairly(leaseId);
  }

  #earliestDueAt(): Date {
    return new Date(Math.max(0, this.#lowWater.nextStartMs(LOW_WATER_MARGIN_MS)));
  }

  /** Claims the oldest due recipients. Returns null when there is a backlog. */
  async #claimOldest(leaseId: string): Promise<ClaimedRecipient[] | null> {
    const queues = this.#fairQueue.fullQueues();
    const max = Math.min(CLAIM_MAX, this.#fairQueue.totalClaimLimit);
    const { claimed, seen, nowMs } = await claimOldest(this.#db, {
      leaseId,
      max,
      readMax: CLAIM_MAX,
      from: this.#earliestDueAt(),
      fullProjects: this.#fairQueue.fullProjects(),
      fullQueues: queues.map(({ projectId, provider }) => tenantQueueKey(projectId, provider)),
    });
    const wentBack = this.#lowWater.resetIfClockWentBack(nowMs);
    if (seen >= CLAIM_MAX) return null;
    this.hasMore = claimed.length < seen;
    const newest = claimed.at(-1);
    // The mark moves only if nothing is left, because unclaimed rows may be older than the newest claimed one.
    if (newest && !this.hasMore && !wentBack) this.#lowWater.raiseTo(newest.dueAt.getTime());
    return claimed;
  }

  async #claimFairly(leaseId: string): Promise<ClaimResult> {
    const from = this.#earliestDueAt();
    const found = await findQueues(this.#db, {
      project: this.#lastProject,
      projects: WALK_PROJECTS_MAX,
      probes: WALK_PROVIDERS_MAX,
      cursors: this.#cursors,
      from,
      oldest: CLAIM_MAX,
    });
    const { queues, leftOut } = this.#planClaims(found);
    this.#advanceCursors(found, leftOut);
    const wentBack = found.length > 0 && this.#lowWater.resetIfClockWentBack(found[0]!.nowMs);
    const claimed =
      queues.length === 0
        ? []
        : await claimQueues(this.#db, { leaseId, queues, from: wentBack ? new Date(0) : from });
    this.#noteQueuesWithMore(queues, claimed);
    return { claimed, nextPoll: this.#nextPoll(claimed.length > 0) };
  }

  /** Decides how much to claim of each tenant queue that can be served: projects in turn, equal parts. */
  #planClaims(found: readonly FoundQueue[]): { queues: QueueClaim[]; leftOut: Set<string> } {
    const known = new Map<string, QueueClaim>();
    const unknown = new Map<string, QueueClaim>();
    const due = found.filter((queue): queue is FoundQueue & { provider: string } => {
      return queue.provider !== null && queue.isDue;
    });
    for (const { projectId, provider } of interleave([[...this.#queuesWithMore.values()], due])) {
      const max = this.#claimLimit(projectId, provider);
      if (max === 0) continue;
      const queues = this.#isRouteKnown(provider) ? known : unknown;
      queues.set(tenantQueueKey(projectId, provider), { projectId, provider, max });
    }
    const claimsMax = Math.min(CLAIM_MAX, this.#fairQueue.totalClaimLimit);
    const ofUnknown = interleaveByProject(unknown.values()).slice(0, UNKNOWN_PROVIDERS_MAX);
    const queues = interleaveByProject([...known.values(), ...ofUnknown]).slice(0, claimsMax);
    for (const { projectId, provider } of queues) known.delete(tenantQueueKey(projectId, provider));
    const equalPart = Math.ceil(claimsMax / Math.max(1, queues.length));
    let remaining = claimsMax;
    for (const queue of queues) {
      queue.max = Math.min(queue.max, equalPart, remaining);
      remaining -= queue.max;
    }
    return { queues: queues.filter(({ max }) => max > 0), leftOut: new Set(known.keys()) };
  }

  #isRouteKnown(provider: string): boolean {
    return provider === SIMULATOR_PROVIDER || this.#mailRouting.isProviderKnown(provider);
  }

  #claimLimit(projectId: string, provider: string): number {
    const current = this.#mailRouting.providerOf(provider);
    if (this.#connections.suspendedForMs(current) > 0) return 0;
    const max = this.#fairQueue.claimLimit(projectId, current);
    return this.#isRouteKnown(provider) ? max : Math.min(max, UNKNOWN_PROVIDER_MAX);
  }

  #noteQueuesWithMore(queues: readonly QueueClaim[], claimed: readonly ClaimedRecipient[]): void {
    const counts = new Map<string, number>();
    for (const { projectId, provider } of claimed) {
      const key = tenantQueueKey(projectId, provider);
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
    for (const { projectId, provider, max } of queues) {
      const key = tenantQueueKey(projectId, provider);
      this.#queuesWithMore.delete(key);
      if (counts.get(key) === max && this.#isRouteKnown(provider))
        this.#queuesWithMore.set(key, { projectId, provider });
    }
    for (const key of this.#queuesWithMore.keys()) {
      if (this.#queuesWithMore.size <= QUEUES_WITH_MORE_MAX) break;
      this.#queuesWithMore.delete(key);
    }
  }

  /**
   * Moves the cursors to the last row seen, but not past queues that were left out for lack of space. At the end of a
   * list a cursor returns to its beginning.
   */
  #advanceCursors(found: readonly FoundQueue[], leftOut: ReadonlySet<string>): void {
    const walked = found.filter(({ isOldest }) => !isOldest);
    const projects = Map.groupBy(walked, ({ projectId }) => projectId);
    for (const [projectId, queues] of projects) {
      const providers = queues.map(({ provider }) => provider ?? '').toSorted(compareCodeUnits);
      const next = providers.findIndex((provider) =>
        leftOut.has(tenantQueueKey(projectId, provider)),
      );
      const isCutShort = queues.some(({ isLast }) => isLast);
      if (next > 0) this.#cursors.set(projectId, providers[next - 1]!);
      else if (next === -1 && isCutShort) this.#cursors.set(projectId, providers.at(-1)!);
      else if (next === -1) this.#cursors.delete(projectId);
    }
    const hasMore = projects.size === WALK_PROJECTS_MAX;
    const last = [...projects.keys()].toSorted(compareCodeUnits).at(-1);
    this.#walkSteps.isComplete = !hasMore && this.#cursors.size === 0;
    this.#lastProject = hasMore && last !== undefined ? last : FIRST_PROJECT;
  }

  #nextPoll(hasWork: boolean): ClaimResult['nextPoll'] {
    const { isComplete } = this.#walkSteps;
    this.#walkSteps.withoutWork = hasWork ? 0 : this.#walkSteps.withoutWork + 1;
    if (hasWork) return 'at_once';
    // Two complete walks are needed, because the first one may have begun in the middle.
    if (!isComplete || this.#walkSteps.withoutWork < 2) return 'soon';
    this.#walkSteps.withoutWork = 0;
    this.#isBacklog = false;
    this.#queuesWithMore.clear();
    return 'later';
  }
}

function interleaveByProject(queues: Iterable<QueueClaim>): QueueClaim[] {
  return interleave([...Map.groupBy(queues, ({ projectId }) => projectId).values()]);
}

/** Compares in the order of the index; provider names are ASCII. */
function compareCodeUnits(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}

function interleave<Item>(lists: readonly (readonly Item[])[]): Item[] {
  const length = Math.max(0, ...lists.map((list) => list.length));
  return Array.from({ length }, (_, index) =>
    lists.flatMap((list) => list.slice(index, index + 1)),
  ).flat();
}

/** Returns a random project id to begin after, so that workers rarely compete. Ids begin with their time. */
function randomProjectId(world: Pick<World, 'now' | 'random'>): string {
  const createdMs = Math.floor(world.now() - world.random() * START_SPREAD_MS);
  const digits = createdMs.toString(16).padStart(12, '0');
  return `${digits.slice(0, 8)}-${digits.slice(8)}${FIRST_PROJECT.slice(13)}`;
}
