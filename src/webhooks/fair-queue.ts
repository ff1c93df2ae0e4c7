/**
 * Fair queueing of endpoints: endpoints with due deliveries are served in rotation, each with a limit of
 * concurrent attempts. The limit starts at 2, grows with every quick success and halves with every
 * failure, so that an unreachable or slow endpoint (15 s per attempt) does not occupy the slots of
 * others. Pure: the loop claims.
 */
import type { Endpoint } from '../store/webhook-queue.ts';

export type EndpointAsk = Endpoint & {
  /** Deliveries to claim at most. */
  room: number;
};

export type Pace = 'quick' | 'slow' | 'failed';

type EndpointState = Endpoint & {
  /** More may be due than was claimed. */
  hasMore: boolean;
  width: number;
  underWay: number;
};

const WIDTH_FIRST = 2;
const WIDTH_MAX = 32;

export class EndpointQueue {
  /** In the order of rotation. */
  readonly #endpoints = new Map<string, EndpointState>();

  /** A delivery is due for this endpoint. */
  add(endpoint: Endpoint): void {
    const known = this.#endpoints.get(endpoint.endpointId);
    if (!known) {
      const { projectId, endpointId, lowWaterMs } = endpoint;
      const state = { hasMore: true, width: WIDTH_FIRST, underWay: 0 };
      this.#endpoints.set(endpointId, { projectId, endpointId, lowWaterMs, ...state });
      return;
    }
    known.lowWaterMs = known.hasMore
      ? Math.min(known.lowWaterMs, endpoint.lowWaterMs)
      : endpoint.lowWaterMs;
    known.hasMore = true;
  }

  /** What to claim now, at most `max` in total, divided among the endpoints; those chosen move to the end. */
  ask(max: number): EndpointAsk[] {
    const ready = [...this.#endpoints.values()].filter(
      (endpoint) => endpoint.hasMore && endpoint.underWay < endpoint.width,
    );
    const share = Math.max(1, Math.floor(max / Math.max(1, ready.length)));
    return ready.slice(0, max).map((endpoint) => {
      this.#endpoints.delete(endpoint.endpointId);
      this.#endpoints.set(endpoint.endpointId, endpoint);
      const { projectId, endpointId, lowWaterMs } = endpoint;
      return {
        projectId,
        endpointId,
        lowWaterMs,
        room: Math.min(endpoint.width - endpoint.underWay, share),
      };
    });
  }

  /** The result of a claim: an endpoint that yielded less than requested has no more. */
  took(
    asks: readonly EndpointAsk[],
    claimed: readonly { endpointId: string; dueAtMs: number }[],
  ): void {
    for (const { endpointId } of claimed) this.#state(endpointId).underWay += 1;
    for (const { endpointId, room } of asks) {
      const due = claimed.filter((one) => one.endpointId === endpointId);
      const endpoint = this.#state(endpointId);
      endpoint.hasMore = due.length === room;
      for (const { dueAtMs } of due) endpoint.lowWaterMs = Math.max(endpoint.lowWaterMs, dueAtMs);
      this.#forgetIfIdle(endpoint);
    }
  }

  finished(endpointId: string, pace: Pace): void {
    const endpoint = this.#state(endpointId);
    endpoint.underWay -= 1;
    if (pace === 'quick') endpoint.width = Math.min(endpoint.width + 1, WIDTH_MAX);
    if (pace === 'failed') endpoint.width = Math.max(1, Math.floor(endpoint.width / 2));
    this.#forgetIfIdle(endpoint);
  }

  get hasRoom(): boolean {
    return [...this.#endpoints.values()].some(
      (endpoint) => endpoint.hasMore && endpoint.underWay < endpoint.width,
    );
  }

  #state(endpointId: string): EndpointState {
    const endpoint = this.#endpoints.get(endpointId);
    if (!endpoint) throw new Error(`endpoint ${endpointId} is unknown`);
    return endpoint;
  }

  #forgetIfIdle(endpoint: EndpointState): void {
    if (endpoint.underWay === 0 && !endpoint.hasMore) this.#endpoints.delete(endpoint.endpointId);
  }
}
