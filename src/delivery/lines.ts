/** What lanes.ts is made of: lanes, projects, and a line for each pair of them that has mail here. */
import type { Job } from './job.ts';

export type Lane = {
  name: string;
  /** By project. */
  lines: Map<string, Line>;
  /** Lines with jobs that cannot start now, in turn. */
  parked: Set<Line>;
  underWay: number;
  /** Its route is being looked up. */
  isClosed: boolean;
};

export type Line = {
  project: Project;
  lane: Lane;
  /** Oldest first. */
  jobs: Job[];
  weightBytes: number;
};

export type Project = {
  id: string;
  lines: Set<Line>;
  /** Lines with jobs that may start, in turn. */
  ready: Set<Line>;
  underWay: number;
  weightBytes: number;
};

/** From the end: what comes last is nearly always the newest. */
export function insertByAge(jobs: Job[], job: Job): void {
  let index = jobs.length;
  while (index > 0 && jobs[index - 1]!.dueAtMs > job.dueAtMs) index -= 1;
  jobs.splice(index, 0, job);
}

/** Memory of the lines that have anything to give back. */
export function waitingIn(lines: Iterable<Line>): number {
  let waiting = 0;
  for (const line of lines) waiting += line.weightBytes * Math.sign(line.jobs.length);
  return waiting;
}

/** The one that measures most; null when nobody measures anything. */
export function greediest<Item>(
  items: Iterable<Item>,
  measure: (item: Item) => number,
): Item | null {
  let best: Item | null = null;
  let most = 0;
  for (const item of items) {
    const amount = measure(item);
    if (amount > most) [best, most] = [item, amount];
  }
  return best;
}
