/**
 * Writes what this worker knows of the receivers it sends to where `posthorn queue` can read it
 * (store/lane-states.ts): every few seconds, and only what changed.
 */
import type { Logger } from 'pino';
import type { Connections } from '../delivery/connections.ts';
import type { LaneFacts } from '../delivery/lane-view.ts';
import type { Queryable } from '../store/postgres/database.ts';
import { type LaneState, writeLaneStates } from '../store/lane-states.ts';
import { systemWorld } from './system-world.ts';

export type LaneReportOptions = {
  db: Queryable;
  log: Logger;
  holder: () => string | null;
  connections: Pick<Connections, 'lanes'>;
};

const EVERY_MS = 2_000;
/** More than people look at: those in trouble first, then the busiest. */
const LANES_MAX = 200;

export class LaneReport {
  readonly #options: LaneReportOptions;
  #timer: NodeJS.Timeout | undefined;
  #node: string | null = null;
  #written = new Map<string, string>();

  constructor(options: LaneReportOptions) {
    this.#options = options;
  }

  start(): void {
    this.#timer = setTimeout(() => {
      this.#write()
        .catch((error: unknown) => {
          // What was written is not known: everything is written again.
          this.#node = null;
          this.#options.log.debug({ err: error }, 'the states of receivers could not be written');
        })
        .finally(() => {
          if (this.#timer !== undefined) this.start();
        });
    }, EVERY_MS).unref();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  async #write(): Promise<void> {
    const { db, holder, connections } = this.#options;
    const node = holder();
    if (node === null) return;
    if (node !== this.#node) this.#written.clear();
    this.#node = node;
    const facts = [...connections.lanes].map((lane) => lane.describe()).filter(isWorthTelling);
    const first = mostTellingFirst(facts);
    const now = new Map(first.slice(0, LANES_MAX).map((one) => [one.lane, one]));
    const changed = [...now.values()].filter((one) => this.#written.get(one.lane) !== printed(one));
    const gone = [...this.#written.keys()].filter((lane) => !now.has(lane));
    if (changed.length === 0 && gone.length === 0) return;
    await writeLaneStates(db, node, { changed: changed.map(stateOf), gone });
    this.#written = new Map([...now].map(([lane, one]) => [lane, printed(one)]));
  }
}

function isWorthTelling({ state, open }: LaneFacts): boolean {
  return state !== 'open' || open > 0;
}

/** Those in trouble, then the busiest. */
export function mostTellingFirst(lanes: readonly LaneFacts[]): LaneFacts[] {
  return lanes.toSorted((one, other) => weightOf(other) - weightOf(one));
}

function weightOf({ state, open }: LaneFacts): number {
  return open + (state === 'open' || state === 'full' ? 0 : 1_000_000);
}

function printed({ state, reason, untilMs, window, open }: LaneFacts): string {
  return JSON.stringify([state, reason, untilMs && Math.round(untilMs / 1000), window, open]);
}

function stateOf({ lane, state, reason, untilMs, window, open }: LaneFacts): LaneState {
  return {
    lane,
    state,
    reason,
    forMs: untilMs === null ? null : untilMs - systemWorld.monotonicMs(),
    connectionsMax: window,
    connectionsOpen: open,
  };
}
