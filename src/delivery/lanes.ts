/**
 * The order in which recipients that are in memory get their turn.
 *
 * One lane per destination, and inside a lane one line per project: neither another tenant's
 * backlog nor a slow destination may delay a password reset. A lane offers its next job while
 * fewer of its jobs are under way than its provider allows; lanes with work take turns.
 */
import { type Job, sizeOf } from './job.ts';

type Lane = {
  destination: string;
  /** Waiting jobs by project; projects take turns in insertion order. */
  lines: Map<string, Job[]>;
  waiting: number;
  underWay: number;
};

/** A destination with this much waiting in memory gets no more from the queue table. */
const LANE_WAITING_MAX = 1_000;

export class Lanes {
  readonly #lanes = new Map<string, Lane>();
  /** Lanes with waiting jobs, in turn. */
  readonly #ready = new Set<Lane>();
  readonly #windowOf: (destination: string) => number;
  waiting = 0;
  waitingBytes = 0;
  underWay = 0;

  /** @param windowOf how many jobs to a destination may be under way at once */
  constructor(windowOf: (destination: string) => number) {
    this.#windowOf = windowOf;
  }

  add(job: Job): void {
    const lane = this.#lane(job.destination);
    const line = lane.lines.get(job.message.projectId);
    if (line) line.push(job);
    else lane.lines.set(job.message.projectId, [job]);
    lane.waiting += 1;
    this.waiting += 1;
    this.waitingBytes += sizeOf(job.message);
    this.#ready.add(lane);
  }

  /** The next job whose turn it is; null when every lane is empty or at its window. */
  next(): Job | null {
    for (const lane of this.#ready) {
      if (lane.underWay >= this.#windowOf(lane.destination)) continue;
      const job = takeFrom(lane);
      this.#ready.delete(lane);
      if (lane.waiting > 0) this.#ready.add(lane); // to the end: the others' turn
      lane.underWay += 1;
      this.underWay += 1;
      this.waiting -= 1;
      this.waitingBytes -= sizeOf(job.message);
      return job;
    }
    return null;
  }

  done(job: Job): void {
    const lane = this.#lane(job.destination);
    lane.underWay -= 1;
    this.underWay -= 1;
    if (lane.underWay === 0 && lane.waiting === 0) this.#lanes.delete(lane.destination);
  }

  /** Takes everything out that has not started. */
  drain(): Job[] {
    const jobs = [...this.#ready].flatMap((lane) => [...lane.lines.values()].flat());
    for (const lane of this.#ready) {
      lane.lines.clear();
      lane.waiting = 0;
      if (lane.underWay === 0) this.#lanes.delete(lane.destination);
    }
    this.#ready.clear();
    this.waiting = 0;
    this.waitingBytes = 0;
    return jobs;
  }

  /** Destinations that have more than enough in memory. */
  full(): string[] {
    return [...this.#ready]
      .filter((lane) => lane.waiting >= LANE_WAITING_MAX)
      .map((lane) => lane.destination);
  }

  isFull(destination: string): boolean {
    return (this.#lanes.get(destination)?.waiting ?? 0) >= LANE_WAITING_MAX;
  }

  #lane(destination: string): Lane {
    let lane = this.#lanes.get(destination);
    if (!lane) {
      lane = { destination, lines: new Map(), waiting: 0, underWay: 0 };
      this.#lanes.set(destination, lane);
    }
    return lane;
  }
}

/** The oldest job of the project whose turn it is; that project then goes to the end. */
function takeFrom(lane: Lane): Job {
  const [projectId, line] = lane.lines.entries().next().value!;
  const job = line.shift()!;
  lane.lines.delete(projectId);
  if (line.length > 0) lane.lines.set(projectId, line);
  lane.waiting -= 1;
  return job;
}
