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
} from './queue-store.ts';
import type { Connections } from '../shaping/connections.ts';
import type { FairQueue } from './fair-queue.ts';
import type { MailRouting } from '../route/mail-routing.ts';
import { SIMULATOR_PROVIDER } from '../attempt/simulator.ts';

/** Limit on one statement's claims. When this many are due there is a backlog. */
const CLAIM_MAX = 128;
const WALK_PROJECTS_MAX = 32;
const WALK_PROVIDERS_MAX = 192;
/** Milliseconds by which claims start before the last due time seen: the time that a transaction may take to commit. */
const LOW_WATER_MARGIN_MS = 60_000;
/** Limits for destinations without a known provider, which may be thousands at one unreachable provider. */
const UNKNOWN_PROVIDER_MAX = 2;
const UNKNOWN_PROVIDERS_MAX = 32;
const WITH_MORE_MAX = 1_000;
const SPREAD_MS = 2 * 365 * 24 * 3600_000;
const FIRST_PROJECT = '00000000-0000-0000-0000-000000000000';

type Claimed = {
  claimed: ClaimedRecipient[];
  /** `more`: poll again at once. `walking`: the walk is not complete. `done`: nothing to do. */
  outlook: 'more' | 'walking' | 'done';
};

type TenantQueue = { projectId: string; provider: string; max: number };

export class Claims {
  readonly #db: Queryable;
  readonly #fairQueue: FairQueue;
  readonly #connections: Pick<Connections, 'suspendedForMs'>;
  readonly #mailRouting: Pick<MailRouting, 'providerOf' | 'knows'>;
  readonly #lowWater: LowWaterMark;
  #isBacklog = false;
  #project: string;
  readonly #cursors = new Map<string, string>();
  #steps = { withoutWork: 0, isRound: false };
  /** Tenant queues that had more mail than was claimed. They are claimed from again without waiting for the walk. */
  readonly #withMore = new Map<string, Omit<TenantQueue, 'max'>>();
  /** True when more is due than was claimed. The table is then polled as soon as a tenant queue has space. */
  hasMore = false;

  constructor(options: {
    db: Queryable;
    world: Pick<World, 'now' | 'monotonicMs' | 'random'>;
    fairQueue: FairQueue;
    connections: Pick<Connections, 'suspendedForMs'>;
    mailRouting: Pick<MailRouting, 'providerOf' | 'knows'>;
  }) {
    this.#db = options.db;
    this.#fairQueue = options.fairQueue;
    this.#connections = options.connections;
    this.#mailRouting = options.mailRouting;
    this.#project = randomProjectId(options.world);
    this.#lowWater = new LowWaterMark(options.world);
  }

  /** Makes claims read all due rows again, because the database may be another server. */
  startAnew(): void {
    this.#lowWater.reset();
  }

  /** Claims due recipients while there is memory. @throws DatabaseUnavailable */
  async take(holder: string): Promise<Claimed> {
    if (this.#fairQueue.claimableInAll === 0) return { claimed: [], outlook: 'done' };
    if (!this.#isBacklog) {
      const claimed = await this.#takeOldest(holder);
      if (claimed !== null) return { claimed, outlook: 'done' };
      this.#isBacklog = true;
      this.hasMore = true;
    }
    return this.#takeFairly(holder);
  }

  #from(): Date {
    return new Date(Math.max(0, this.#lowWater.nextStartMs(LOW_WATER_MARGIN_MS)));
  }

  /** Claims the oldest due recipients; null: there is a backlog. */
  async #takeOldest(holder: string): Promise<ClaimedRecipient[] | null> {
    const queues = this.#fairQueue.fullQueues();
    const max = Math.min(CLAIM_MAX, this.#fairQueue.claimableInAll);
    const { claimed, seen, nowMs } = await claimOldest(this.#db, {
      holder,
      max,
      window: CLAIM_MAX,
      from: this.#from(),
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

  async #takeFairly(holder: string): Promise<Claimed> {
    const from = this.#from();
    const found = await findQueues(this.#db, {
      project: this.#project,
      projects: WALK_PROJECTS_MAX,
      probes: WALK_PROVIDERS_MAX,
      cursors: this.#cursors,
      from,
      oldest: CLAIM_MAX,
    });
    const { queues, leftOut } = this.#shares(found);
    this.#moveOn(found, leftOut);
    const wentBack = found.length > 0 && this.#lowWater.resetIfClockWentBack(found[0]!.nowMs);
    const claimed =
      queues.length === 0
        ? []
        : await claimQueues(this.#db, { holder, queues, from: wentBack ? new Date(0) : from });
    this.#noteMore(queues, claimed);
    return { claimed, outlook: this.#outlook(claimed.length > 0) };
  }

  /** Decides how much to claim of each tenant queue that can be served: projects in turn, equal parts. */
  #shares(found: readonly FoundQueue[]): { queues: TenantQueue[]; leftOut: Set<string> } {
    const known = new Map<string, TenantQueue>();
    const unknown = new Map<string, TenantQueue>();
    const due = found.filter((queue): queue is FoundQueue & { provider: string } => {
      return queue.provider !== null && queue.isDue;
    });
    for (const { projectId, provider } of inTurn([[...this.#withMore.values()], due])) {
      const max = this.#claimable(projectId, provider);
      if (max === 0) continue;
      const queues = this.#knows(provider) ? known : unknown;
      queues.set(tenantQueueKey(projectId, provider), { projectId, provider, max });
    }
    const inAll = Math.min(CLAIM_MAX, this.#fairQueue.claimableInAll);
    const few = byProjectInTurn(unknown.values()).slice(0, UNKNOWN_PROVIDERS_MAX);
    const queues = byProjectInTurn([...known.values(), ...few]).slice(0, inAll);
    for (const { projectId, provider } of queues) known.delete(tenantQueueKey(projectId, provider));
    const part = Math.ceil(inAll / Math.max(1, queues.length));
    let left = inAll;
    for (const queue of queues) {
      queue.max = Math.min(queue.max, part, left);
      left -= queue.max;
    }
    return { queues: queues.filter(({ max }) => max > 0), leftOut: new Set(known.keys()) };
  }

  #knows(provider: string): boolean {
    return provider === SIMULATOR_PROVIDER || this.#mailRouting.knows(provider);
  }

  #claimable(projectId: string, provider: string): number {
    const now = this.#mailRouting.providerOf(provider);
    if (this.#connections.suspendedForMs(now) > 0) return 0;
    const max = this.#fairQueue.claimable(projectId, now);
    return this.#knows(provider) ? max : Math.min(max, UNKNOWN_PROVIDER_MAX);
  }

  #noteMore(queues: readonly TenantQueue[], claimed: readonly ClaimedRecipient[]): void {
    const counts = new Map<string, number>();
    for (const { projectId, provider } of claimed) {
      const key = tenantQueueKey(projectId, provider);
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
    for (const { projectId, provider, max } of queues) {
      const key = tenantQueueKey(projectId, provider);
      this.#withMore.delete(key);
      if (counts.get(key) === max && this.#knows(provider))
        this.#withMore.set(key, { projectId, provider });
    }
    for (const key of this.#withMore.keys()) {
      if (this.#withMore.size <= WITH_MORE_MAX) break;
      this.#withMore.delete(key);
    }
  }

  /**
   * Moves the cursors to the last row seen, but not past queues that were left out for lack of space. At the end of a
   * list a cursor returns to its beginning.
   */
  #moveOn(found: readonly FoundQueue[], leftOut: ReadonlySet<string>): void {
    const walked = found.filter(({ isOldest }) => !isOldest);
    const projects = Map.groupBy(walked, ({ projectId }) => projectId);
    for (const [projectId, queues] of projects) {
      const providers = queues.map(({ provider }) => provider ?? '').toSorted(byCodeUnits);
      const next = providers.findIndex((provider) =>
        leftOut.has(tenantQueueKey(projectId, provider)),
      );
      const isCutShort = queues.some(({ isLast }) => isLast);
      if (next > 0) this.#cursors.set(projectId, providers[next - 1]!);
      else if (next === -1 && isCutShort) this.#cursors.set(projectId, providers.at(-1)!);
      else if (next === -1) this.#cursors.delete(projectId);
    }
    const hasMore = projects.size === WALK_PROJECTS_MAX;
    const last = [...projects.keys()].toSorted(byCodeUnits).at(-1);
    this.#steps.isRound = !hasMore && this.#cursors.size === 0;
    this.#project = hasMore && last !== undefined ? last : FIRST_PROJECT;
  }

  #outlook(hasWork: boolean): Claimed['outlook'] {
    const { isRound } = this.#steps;
    this.#steps.withoutWork = hasWork ? 0 : this.#steps.withoutWork + 1;
    if (hasWork) return 'more';
    // Two complete walks are needed, because the first one may have begun in the middle.
    if (!isRound || this.#steps.withoutWork < 2) return 'walking';
    this.#steps.withoutWork = 0;
    this.#isBacklog = false;
    this.#withMore.clear();
    return 'done';
  }
}

function byProjectInTurn(queues: Iterable<TenantQueue>): TenantQueue[] {
  return inTurn([...Map.groupBy(queues, ({ projectId }) => projectId).values()]);
}

/** Compares in the order of the index; provider names are ASCII. */
function byCodeUnits(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}

function inTurn<Item>(lists: readonly (readonly Item[])[]): Item[] {
  const length = Math.max(0, ...lists.map((list) => list.length));
  return Array.from({ length }, (_, index) =>
    lists.flatMap((list) => list.slice(index, index + 1)),
  ).flat();
}

/** Returns a random project id to begin after, so that workers rarely compete. Ids begin with their time. */
function randomProjectId(world: Pick<World, 'now' | 'random'>): string {
  const createdMs = Math.floor(world.now() - world.random() * SPREAD_MS);
  const digits = createdMs.toString(16).padStart(12, '0');
  return `${digits.slice(0, 8)}-${digits.slice(8)}${FIRST_PROJECT.slice(13)}`;
}
