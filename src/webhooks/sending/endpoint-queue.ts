/**
 * Fair queueing of webhooks: projects with due deliveries are served in turn, and within a project its endpoints.
 * Each endpoint has a limit of concurrent attempts, which starts at 2, grows with every quick success and halves with
 * every failure. Pure: the loop claims.
 *
 * An attempt without an answer after a second is **waiting**. It frees its slot of the sender for quick attempts and
 * counts against the limits of waiting attempts. One project may have a quarter of those. So an endpoint that answers
 * after 14 s delays neither other projects nor quick endpoints of its own project.
 */
import type { Endpoint } from './queue-store.ts';

export type EndpointAsk = Endpoint & {
  max: number;
};

export type Pace = 'quick' | 'slow' | 'failed';

type Counted = { endpointId: string; data?: string | null };

type ProjectState = { endpoints: number; underWay: number; waiting: number; bytes: number };

type EndpointState = Endpoint & {
  hasMore: boolean;
  width: number;
  underWay: number;
  project: ProjectState;
};

const WIDTH_FIRST = 2;
const WIDTH_MAX = 32;
const MOVING_MAX = 256;
/** Limits on waiting attempts, in total and for each project. Each occupies a socket. */
const WAITING_MAX = 1_000;
const WAITING_OF_PROJECT_MAX = WAITING_MAX / 4;
/** Waiting attempts that every project may have, whatever the total is. */
const WAITING_ALWAYS = 4;
const BYTES_MAX = 16 * 1024 * 1024;
const BYTES_OF_PROJECT_MAX = BYTES_MAX / 4;
/** Limit on the quick endpoints that are remembered while nothing is due for them. */
const QUICK_MAX = 10_000;

export class EndpointQueue {
  readonly #endpoints = new Map<string, EndpointState>();
  readonly #projects = new Map<string, ProjectState>();
  /** Endpoints whose last answer came within a second. */
  readonly #quick = new Set<string>();
  #underWay = 0;
  #waiting = 0;
  #bytes = 0;

  add(endpoint: Endpoint): void {
    const known = this.#endpoints.get(endpoint.endpointId);
    if (!known) {
      const { projectId, endpointId, lowWaterMs } = endpoint;
      const project = this.#project(projectId);
      project.endpoints += 1;
      const state = { hasMore: true, width: WIDTH_FIRST, underWay: 0, project };
      this.#endpoints.set(endpointId, { projectId, endpointId, lowWaterMs, ...state });
      return;
    }
    known.lowWaterMs = known.hasMore
      ? Math.min(known.lowWaterMs, endpoint.lowWaterMs)
      : endpoint.lowWaterMs;
    known.hasMore = true;
  }

  /** Divides at most `most` claims among the endpoints. The endpoints chosen move to the end of the rotation. */
  ask(most: number): EndpointAsk[] {
    const total = Math.min(most, this.#freeSlots);
    const ready = projectsInTurn([...this.#endpoints.values()].filter((one) => this.#isReady(one)));
    const share = Math.max(1, Math.floor(total / Math.max(1, ready.length)));
    return ready.slice(0, total).map((endpoint) => {
      this.#endpoints.delete(endpoint.endpointId);
      this.#endpoints.set(endpoint.endpointId, endpoint);
      const { projectId, endpointId, lowWaterMs } = endpoint;
      return {
        projectId,
        endpointId,
        lowWaterMs,
        max: Math.min(endpoint.width - endpoint.underWay, share),
      };
    });
  }

  /** Records a claim. An endpoint that yielded less than asked has no more due deliveries. */
  recordClaim(
    asks: readonly EndpointAsk[],
    claimed: readonly (Counted & { dueAtMs: number })[],
  ): void {
    for (const one of claimed) this.#count(one, 1);
    for (const { endpointId, max } of asks) {
      const due = claimed.filter((one) => one.endpointId === endpointId);
      const endpoint = this.#state(endpointId);
      endpoint.hasMore = due.length === max;
      for (const { dueAtMs } of due) endpoint.lowWaterMs = Math.max(endpoint.lowWaterMs, dueAtMs);
      this.#forgetIfIdle(endpoint);
    }
  }

  markWaiting({ endpointId }: Counted): void {
    this.#quick.delete(endpointId);
    this.#state(endpointId).project.waiting += 1;
    this.#waiting += 1;
  }

  finished(delivery: Counted, pace: Pace, { hasWaited }: { hasWaited: boolean }): void {
    const endpoint = this.#state(delivery.endpointId);
    this.#count(delivery, -1);
    if (hasWaited) {
      endpoint.project.waiting -= 1;
      this.#waiting -= 1;
    }
    this.#notePace(endpoint, pace);
    this.#forgetIfIdle(endpoint);
  }

  get canClaim(): boolean {
    return (
      this.#freeSlots > 0 &&
      [...this.#endpoints.values()].some((endpoint) => this.#isReady(endpoint))
    );
  }

  get #freeSlots(): number {
    return Math.max(0, MOVING_MAX - (this.#underWay - this.#waiting));
  }

  #isReady({ hasMore, underWay, width, project, endpointId }: EndpointState): boolean {
    if (!hasMore || underWay >= width) return false;
    if (project.underWay === 0) return true;
    if (project.bytes >= BYTES_OF_PROJECT_MAX || this.#bytes >= BYTES_MAX) return false;
    if (this.#quick.has(endpointId)) return true;
    if (project.waiting >= WAITING_OF_PROJECT_MAX) return false;
    return this.#waiting < WAITING_MAX || project.waiting < WAITING_ALWAYS;
  }

  #count({ endpointId, data }: Counted, deliveries: 1 | -1): void {
    const endpoint = this.#state(endpointId);
    const bytes = deliveries * (data?.length ?? 0);
    this.#underWay += deliveries;
    endpoint.underWay += deliveries;
    endpoint.project.underWay += deliveries;
    endpoint.project.bytes += bytes;
    this.#bytes += bytes;
  }

  #notePace(endpoint: EndpointState, pace: Pace): void {
    const { endpointId, width } = endpoint;
    this.#quick.delete(endpointId);
    if (pace === 'failed') endpoint.width = Math.max(1, Math.floor(width / 2));
    if (pace !== 'quick') return;
    endpoint.width = Math.min(width + 1, WIDTH_MAX);
    this.#quick.add(endpointId);
    if (this.#quick.size > QUICK_MAX) this.#quick.delete(this.#quick.values().next().value!);
  }

  #state(endpointId: string): EndpointState {
    const endpoint = this.#endpoints.get(endpointId);
    if (!endpoint) throw new Error(`endpoint ${endpointId} is unknown`);
    return endpoint;
  }

  #project(id: string): ProjectState {
    const project = this.#projects.get(id) ?? { endpoints: 0, underWay: 0, waiting: 0, bytes: 0 };
    this.#projects.set(id, project);
    return project;
  }

  #forgetIfIdle({ underWay, hasMore, endpointId, projectId, project }: EndpointState): void {
    if (underWay > 0 || hasMore) return;
    this.#endpoints.delete(endpointId);
    project.endpoints -= 1;
    if (project.endpoints === 0) this.#projects.delete(projectId);
  }
}

/**
 * Sorts the first endpoint of each project before the second of each. Projects with the fewest attempts that are not
 * waiting come first.
 */
function projectsInTurn(endpoints: readonly EndpointState[]): EndpointState[] {
  const before = new Map<ProjectState, number>();
  return endpoints
    .map((endpoint) => {
      const { underWay, waiting } = endpoint.project;
      const place = before.get(endpoint.project) ?? underWay - waiting;
      before.set(endpoint.project, place + 1);
      return { endpoint, place };
    })
    .toSorted((one, other) => one.place - other.place)
    .map(({ endpoint }) => endpoint);
}
