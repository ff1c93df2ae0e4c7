/**
 * Fair queueing of webhooks: projects with due deliveries are served in turn, and within a project its endpoints.
 * Each endpoint has a limit of concurrent attempts, which starts at 2, grows with every quick success and halves with
 * every failure. Pure: the loop claims.
 *
 * An attempt without a response after a second is **waiting**. It frees its slot of the sender for quick attempts and
 * counts against the limits of waiting attempts. One project may have a quarter of those. So an endpoint that responds
 * after 14 s delays neither other projects nor quick endpoints of its own project.
 */
import type { Endpoint } from './webhook-queue-store.ts';
import { MIB } from '../../lib/units.ts';

/** How many deliveries of an endpoint to claim. */
export type EndpointClaim = Endpoint & {
  max: number;
};

export type Pace = 'quick' | 'slow' | 'failed';

type CountedDelivery = { endpointId: string; data?: string | null };

/** Counts of a project: running attempts, how many of them wait, and bytes of data. */
type ProjectState = { endpoints: number; runningCount: number; waiting: number; bytes: number };

type EndpointState = Endpoint & {
  hasMore: boolean;
  concurrencyMax: number;
  runningCount: number;
  project: ProjectState;
};

const CONCURRENCY_FIRST = 2;
const CONCURRENCY_MAX = 32;
const ACTIVE_MAX = 256;
/** Limits on waiting attempts, in total and for each project. Each occupies a socket. */
const WAITING_MAX = 1_000;
const WAITING_OF_PROJECT_MAX = WAITING_MAX / 4;
/** Waiting attempts that every project may have, whatever the total is. */
const WAITING_GUARANTEED = 4;
const BYTES_MAX = 16 * MIB;
const BYTES_OF_PROJECT_MAX = BYTES_MAX / 4;
/** Limit on the quick endpoints that are remembered while nothing is due for them. */
const QUICK_REMEMBERED_MAX = 10_000;

export class EndpointQueue {
  readonly #endpoints = new Map<string, EndpointState>();
  readonly #projects = new Map<string, ProjectState>();
  /** Endpoints whose last response came within a second. */
  readonly #quick = new Set<string>();
  #runningCount = 0;
  #waiting = 0;
  #bytes = 0;

  add(endpoint: Endpoint): void {
    const state = this.#endpoints.get(endpoint.endpointId);
    if (!state) {
      const { projectId, endpointId, lowWaterMs } = endpoint;
      const project = this.#project(projectId);
      project.endpoints += 1;
      const initial = {
        hasMore: true,
        concurrencyMax: CONCURRENCY_FIRST,
        runningCount: 0,
        project,
      };
      this.#endpoints.set(endpointId, { projectId, endpointId, lowWaterMs, ...initial });
      return;
    }
    state.lowWaterMs = state.hasMore
      ? Math.min(state.lowWaterMs, endpoint.lowWaterMs)
      : endpoint.lowWaterMs;
    state.hasMore = true;
  }

  /** Divides at most `limit` claims among the endpoints. The endpoints chosen move to the end of the rotation. */
  planClaims(limit: number): EndpointClaim[] {
    const total = Math.min(limit, this.#freeSlots);
    const ready = sortByProjectTurn(
      [...this.#endpoints.values()].filter((endpoint) => this.#isReady(endpoint)),
    );
    const share = Math.max(1, Math.floor(total / Math.max(1, ready.length)));
    return ready.slice(0, total).map((endpoint) => {
      this.#endpoints.delete(endpoint.endpointId);
      this.#endpoints.set(endpoint.endpointId, endpoint);
      const { projectId, endpointId, lowWaterMs } = endpoint;
      return {
        projectId,
        endpointId,
        lowWaterMs,
        max: Math.min(endpoint.concurrencyMax - endpoint.runningCount, share),
      };
    });
  }

  /** Records a claim. An endpoint that yielded less than asked has no more due deliveries. */
  recordClaim(
    claims: readonly EndpointClaim[],
    claimed: readonly (CountedDelivery & { dueAtMs: number })[],
  ): void {
    for (const delivery of claimed) this.#addToCounts(delivery, 1);
    for (const { endpointId, max } of claims) {
      const due = claimed.filter((delivery) => delivery.endpointId === endpointId);
      const endpoint = this.#state(endpointId);
      endpoint.hasMore = due.length === max;
      for (const { dueAtMs } of due) endpoint.lowWaterMs = Math.max(endpoint.lowWaterMs, dueAtMs);
      this.#removeIfIdle(endpoint);
    }
  }

  markWaiting({ endpointId }: CountedDelivery): void {
    this.#quick.delete(endpointId);
    this.#state(endpointId).project.waiting += 1;
    this.#waiting += 1;
  }

  recordEnd(delivery: CountedDelivery, pace: Pace, { hasWaited }: { hasWaited: boolean }): void {
    const endpoint = this.#state(delivery.endpointId);
    this.#addToCounts(delivery, -1);
    if (hasWaited) {
      endpoint.project.waiting -= 1;
      this.#waiting -= 1;
    }
    this.#adjustConcurrency(endpoint, pace);
    this.#removeIfIdle(endpoint);
  }

  get canClaim(): boolean {
    return (
      this.#freeSlots > 0 &&
      [...this.#endpoints.values()].some((endpoint) => this.#isReady(endpoint))
    );
  }

  get #freeSlots(): number {
    return Math.max(0, ACTIVE_MAX - (this.#runningCount - this.#waiting));
  }

  #isReady({ hasMore, runningCount, concurrencyMax, project, endpointId }: EndpointState): boolean {
    if (!hasMore || runningCount >= concurrencyMax) return false;
    if (project.runningCount === 0) return true;
    if (project.bytes >= BYTES_OF_PROJECT_MAX || this.#bytes >= BYTES_MAX) return false;
    if (this.#quick.has(endpointId)) return true;
    if (project.waiting >= WAITING_OF_PROJECT_MAX) return false;
    return this.#waiting < WAITING_MAX || project.waiting < WAITING_GUARANTEED;
  }

  #addToCounts({ endpointId, data }: CountedDelivery, deliveries: 1 | -1): void {
    const endpoint = this.#state(endpointId);
    const bytes = deliveries * (data?.length ?? 0);
    this.#runningCount += deliveries;
    endpoint.runningCount += deliveries;
    endpoint.project.runningCount += deliveries;
    endpoint.project.bytes += bytes;
    this.#bytes += bytes;
  }

  #adjustConcurrency(endpoint: EndpointState, pace: Pace): void {
    const { endpointId, concurrencyMax } = endpoint;
    this.#quick.delete(endpointId);
    if (pace === 'failed') endpoint.concurrencyMax = Math.max(1, Math.floor(concurrencyMax / 2));
    if (pace !== 'quick') return;
    endpoint.concurrencyMax = Math.min(concurrencyMax + 1, CONCURRENCY_MAX);
    this.#quick.add(endpointId);
    if (this.#quick.size > QUICK_REMEMBERED_MAX)
      this.#quick.delete(this.#quick.values().next().value!);
  }

  #state(endpointId: string): EndpointState {
    const endpoint = this.#endpoints.get(endpointId);
    if (!endpoint) throw new Error(`endpoint ${endpointId} is unknown`);
    return endpoint;
  }

  #project(id: string): ProjectState {
    const project = this.#projects.get(id) ?? {
      endpoints: 0,
      runningCount: 0,
      waiting: 0,
      bytes: 0,
    };
    this.#projects.set(id, project);
    return project;
  }

  #removeIfIdle({ runningCount, hasMore, endpointId, projectId, project }: EndpointState): void {
    if (runningCount > 0 || hasMore) return;
    this.#endpoints.delete(endpointId);
    project.endpoints -= 1;
    if (project.endpoints === 0) this.#projects.delete(projectId);
  }
}

/**
 * Sorts the first endpoint of each project before the second of each. Projects with the fewest attempts that are not
 * waiting come first.
 */
function sortByProjectTurn(endpoints: readonly EndpointState[]): EndpointState[] {
  const nextPlaces = new Map<ProjectState, number>();
  return endpoints
    .map((endpoint) => {
      const { runningCount, waiting } = endpoint.project;
      const place = nextPlaces.get(endpoint.project) ?? runningCount - waiting;
      nextPlaces.set(endpoint.project, place + 1);
      return { endpoint, place };
    })
    .toSorted((a, b) => a.place - b.place)
    .map(({ endpoint }) => endpoint);
}
