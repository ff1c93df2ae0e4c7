/**
 * Whose turn it is: one lane per endpoint with work, in turn, each with a number of attempts that
 * may be under way at once. A lane starts narrow, widens with every quick success and halves with
 * every failure, so that a dead or slow endpoint (15 s per attempt) never holds the slots that the
 * others need. Pure: the loop does the claiming.
 */
import type { Lane } from '../store/webhook-queue.ts';

export type LaneAsk = Lane & {
  /** Deliveries to claim at most. */
  room: number;
};

export type Pace = 'quick' | 'slow' | 'failed';

type LaneState = Lane & {
  /** More may be due than was claimed. */
  isHungry: boolean;
  width: number;
  underWay: number;
};

const WIDTH_FIRST = 2;
const WIDTH_MAX = 32;

export class Lanes {
  /** In turn: the map's order. */
  readonly #lanes = new Map<string, LaneState>();

  /** Something is due for this endpoint. */
  add(lane: Lane): void {
    const known = this.#lanes.get(lane.endpointId);
    if (!known) {
      const { projectId, endpointId, lowWaterMs } = lane;
      const state = { isHungry: true, width: WIDTH_FIRST, underWay: 0 };
      this.#lanes.set(endpointId, { projectId, endpointId, lowWaterMs, ...state });
      return;
    }
    known.lowWaterMs = known.isHungry
      ? Math.min(known.lowWaterMs, lane.lowWaterMs)
      : lane.lowWaterMs;
    known.isHungry = true;
  }

  /** What to claim now, at most `max` in all; shared out among the lanes, those asked go last. */
  ask(max: number): LaneAsk[] {
    const ready = [...this.#lanes.values()].filter(
      (lane) => lane.isHungry && lane.underWay < lane.width,
    );
    const share = Math.max(1, Math.floor(max / Math.max(1, ready.length)));
    return ready.slice(0, max).map((lane) => {
      this.#lanes.delete(lane.endpointId);
      this.#lanes.set(lane.endpointId, lane);
      const { projectId, endpointId, lowWaterMs } = lane;
      return {
        projectId,
        endpointId,
        lowWaterMs,
        room: Math.min(lane.width - lane.underWay, share),
      };
    });
  }

  /** What came of an ask: a lane that gave less than it was asked for has no more. */
  took(
    asks: readonly LaneAsk[],
    claimed: readonly { endpointId: string; dueAtMs: number }[],
  ): void {
    for (const { endpointId } of claimed) this.#state(endpointId).underWay += 1;
    for (const { endpointId, room } of asks) {
      const due = claimed.filter((one) => one.endpointId === endpointId);
      const lane = this.#state(endpointId);
      lane.isHungry = due.length === room;
      for (const { dueAtMs } of due) lane.lowWaterMs = Math.max(lane.lowWaterMs, dueAtMs);
      this.#forgetIfIdle(lane);
    }
  }

  finished(endpointId: string, pace: Pace): void {
    const lane = this.#state(endpointId);
    lane.underWay -= 1;
    if (pace === 'quick') lane.width = Math.min(lane.width + 1, WIDTH_MAX);
    if (pace === 'failed') lane.width = Math.max(1, Math.floor(lane.width / 2));
    this.#forgetIfIdle(lane);
  }

  get hasRoom(): boolean {
    return [...this.#lanes.values()].some((lane) => lane.isHungry && lane.underWay < lane.width);
  }

  #state(endpointId: string): LaneState {
    const lane = this.#lanes.get(endpointId);
    if (!lane) throw new Error(`endpoint ${endpointId} has no lane`);
    return lane;
  }

  #forgetIfIdle(lane: LaneState): void {
    if (lane.underWay === 0 && !lane.isHungry) this.#lanes.delete(lane.endpointId);
  }
}
