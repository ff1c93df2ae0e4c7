/**
 * The order in which recipients that are in memory get their turn, and whose memory it is.
 *
 * A line is a project's mail in a lane, by age. Projects take turns, and within a project its lines:
 * neither another tenant's backlog nor one's own newsletter to a slow provider may delay a password
 * reset. A line whose lane is shut (at its window, resting, its route not known yet) is parked with
 * the lane and costs nothing until the lane opens.
 *
 * Shares are by what is left over: a project may take as much as it leaves free, of the memory and
 * of what is under way, and so may a line within its project. One alone gets half, and however
 * many there are, the next one finds room. Under way counts as memory, too.
 * Next: deliver.ts, whose turn it is.
 */
import type { Job } from './job.ts';
import { greediest, insertByAge, type Lane, type Line, type Project, waitingIn } from './lines.ts';

export type LaneRules = {
  /** How many of the lane's jobs may be under way at once. */
  windowOf(lane: string): number;
  /** More than 0: none of its jobs is to be started for so long. */
  restsForMs(lane: string): number;
};

const UNDER_WAY_MAX = 512;
const MEMORY_BYTES_MAX = 48 * 1024 * 1024;
/** A small message counts as so much: not more than 2,048 are in memory. */
export const WEIGHT_BYTES_MIN = 24 * 1024;
/** The queue table fills the memory up to here; above it is room for fresh mail. */
const CLAIMED_BYTES_MAX = 0.7 * MEMORY_BYTES_MAX;
/** Above this the greediest give back, down to that: the next one's first email finds room. */
const CROWDED_BYTES = 0.9 * MEMORY_BYTES_MAX;
const UNCROWDED_BYTES = 0.8 * MEMORY_BYTES_MAX;
/** So few are never too many for a line. */
const LINE_FEW = 4;
/** A line takes as many from the queue table as keep its lane busy until the next claim. */
const LINE_CLAIMED_PER_WINDOW = 16;
const LINE_CLAIMED_MAX = 256;

export class Lanes {
  readonly #lanes = new Map<string, Lane>();
  readonly #projects = new Map<string, Project>();
  /** Projects with lines that may be ready, in turn. */
  readonly #ready = new Set<Project>();
  readonly #resting = new Set<string>();
  readonly #rules: LaneRules;
  waiting = 0;
  underWay = 0;
  weightBytes = 0;

  constructor(rules: LaneRules) {
    this.#rules = rules;
  }

  add(job: Job): void {
    const line = this.#line(job);
    insertByAge(line.jobs, job);
    this.waiting += 1;
    this.#weigh(line, job.weightBytes);
    if (!line.lane.parked.has(line)) this.#makeReady(line);
  }

  /** The next job whose turn it is; null when nothing may start now. */
  next(): Job | null {
    const free = UNDER_WAY_MAX - this.underWay;
    for (const project of this.#ready) {
      if (project.underWay >= free) continue;
      const line = this.#openLine(project);
      this.#ready.delete(project);
      if (line === null) continue;
      const job = line.jobs.shift()!;
      // To the end: the others' turn.
      project.ready.delete(line);
      if (line.jobs.length > 0) project.ready.add(line);
      if (project.ready.size > 0) this.#ready.add(project);
      this.waiting -= 1;
      this.#start(line);
      return job;
    }
    return null;
  }

  done(job: Job): void {
    const line = this.#line(job);
    line.lane.underWay -= 1;
    line.project.underWay -= 1;
    this.underWay -= 1;
    this.#weigh(line, -job.weightBytes);
    this.#forgetIfEmpty(line);
    this.open(job.lane);
  }

  /** The lane may have room for more: lines that waited for that get ready, in turn. */
  open(name: string): void {
    const lane = this.#lanes.get(name);
    if (!lane || lane.isClosed) return;
    let room = this.#rules.windowOf(name) - lane.underWay;
    for (const line of lane.parked) {
      if (room <= 0) return;
      lane.parked.delete(line);
      this.#makeReady(line);
      room -= line.jobs.length;
    }
  }

  /** Nothing of the lane starts until it is opened again. */
  close(name: string): void {
    const lane = this.#lanes.get(name);
    if (lane) lane.isClosed = true;
  }

  /** The end of `close`: its jobs are of the lane `now` from here on. @returns those that moved */
  reopen(name: string, now: string): Job[] {
    const lane = this.#lanes.get(name);
    if (!lane) return [];
    lane.isClosed = false;
    this.open(name);
    if (now === name) return [];
    const moved = this.takeOut(name);
    for (const job of moved) {
      job.lane = now;
      this.add(job);
    }
    return moved;
  }

  isClosed(name: string): boolean {
    return this.#lanes.get(name)?.isClosed ?? false;
  }

  /** Lanes that were found resting with jobs in memory since the last call. */
  takeResting(): string[] {
    const resting = [...this.#resting];
    this.#resting.clear();
    return resting;
  }

  /** Takes everything out of a lane that has not started. */
  takeOut(name: string): Job[] {
    const lines = [...(this.#lanes.get(name)?.lines.values() ?? [])];
    return lines.flatMap((line) => this.#cut(line, 0));
  }

  /** Takes everything out that has not started. */
  drain(): Job[] {
    return [...this.#lanes.keys()].flatMap((name) => this.takeOut(name));
  }

  /** Counts a job that was taken out and is started out of turn. */
  startOutOfTurn(job: Job): void {
    const line = this.#line(job);
    this.#weigh(line, job.weightBytes);
    this.#start(line);
  }

  isFull(lane: string): boolean {
    return (this.#lanes.get(lane)?.underWay ?? 0) >= this.#rules.windowOf(lane);
  }

  /** Whether a fresh email may come in: its line has few, or leaves free what it takes. */
  hasRoomFor(projectId: string, lanes: readonly string[], weightBytes: number): boolean {
    if (this.weightBytes + weightBytes > MEMORY_BYTES_MAX) return false;
    const share = this.#shareOf(projectId, MEMORY_BYTES_MAX);
    return lanes.every((name) => {
      const line = this.#lanes.get(name)?.lines.get(projectId);
      if (!line || line.jobs.length < LINE_FEW) return true;
      return line.weightBytes + weightBytes / lanes.length <= share;
    });
  }

  /** How many more a line takes from the queue table. */
  claimable(projectId: string, name: string): number {
    const share = this.#shareOf(projectId, CLAIMED_BYTES_MAX);
    const line = this.#lanes.get(name)?.lines.get(projectId);
    if (line && line.weightBytes >= share) return 0;
    const wanted = this.#rules.windowOf(name) * LINE_CLAIMED_PER_WINDOW;
    const max = Math.min(LINE_CLAIMED_MAX, wanted, Math.floor(share / WEIGHT_BYTES_MIN));
    return Math.max(0, max - (line?.jobs.length ?? 0));
  }

  /** Whether the line of a job that has ended could do with more from the queue table. */
  isHungry({ lane, message: { projectId } }: Job): boolean {
    const waiting = this.#lanes.get(lane)?.lines.get(projectId)?.jobs.length ?? 0;
    return this.claimable(projectId, lane) > waiting;
  }

  /** How many more the queue table may bring, from all lines together. */
  get claimableInAll(): number {
    return Math.max(0, Math.floor((CLAIMED_BYTES_MAX - this.weightBytes) / WEIGHT_BYTES_MIN));
  }

  /** How many of these may be loaded, by their size; one that is larger than all waits for room. */
  fitting(sizesBytes: readonly number[]): number {
    let left = this.weightBytes === 0 ? Infinity : CLAIMED_BYTES_MAX - this.weightBytes;
    let count = 0;
    for (const bytes of sizesBytes) {
      if (bytes > left) break;
      left = Math.min(left, CLAIMED_BYTES_MAX) - Math.max(bytes, WEIGHT_BYTES_MIN);
      count += 1;
    }
    return count;
  }

  /** Lines that take no more from the queue table at present. */
  satedLines(): { projectId: string; lane: string }[] {
    return [...this.#projects.values()]
      .flatMap((project) => [...project.lines])
      .map((line) => ({ projectId: line.project.id, lane: line.lane.name }))
      .filter(({ projectId, lane }) => this.claimable(projectId, lane) === 0);
  }

  /** Projects of which nothing more is to come from the queue table at present. */
  satedProjects(): string[] {
    return [...this.#projects.keys()].filter(
      (id) => this.#shareOf(id, CLAIMED_BYTES_MAX) < WEIGHT_BYTES_MIN,
    );
  }

  /** The newest jobs of a line beyond what it may take from the queue table. */
  takeExcess(projectId: string, name: string): Job[] {
    const line = this.#lanes.get(name)?.lines.get(projectId);
    if (!line) return [];
    const keep = Math.min(LINE_CLAIMED_MAX, this.#rules.windowOf(name) * LINE_CLAIMED_PER_WINDOW);
    return this.#cut(line, keep);
  }

  /** When it is crowded: the newest jobs of whoever has most, to be given back. */
  takeFromGreediest(): Job[] {
    const taken: Job[] = [];
    if (this.weightBytes <= CROWDED_BYTES) return taken;
    while (this.weightBytes > UNCROWDED_BYTES) {
      const project = greediest(this.#projects.values(), ({ lines }) => waitingIn(lines));
      const line = project && greediest(project.lines, ({ jobs }) => jobs.length);
      if (!line || line.jobs.length === 0) break;
      taken.push(...this.#cut(line, Math.floor(line.jobs.length * 0.75)));
    }
    return taken;
  }

  /** What a line or a project may hold: as much as the project leaves free of `maxBytes`. */
  #shareOf(projectId: string, maxBytes: number): number {
    const own = this.#projects.get(projectId)?.weightBytes ?? 0;
    return Math.max(0, maxBytes - this.weightBytes - own);
  }

  #openLine(project: Project): Line | null {
    for (const line of project.ready) {
      if (this.#isOpen(line.lane)) return line;
      project.ready.delete(line);
      line.lane.parked.add(line);
    }
    return null;
  }

  #isOpen({ name, isClosed, underWay }: Lane): boolean {
    if (isClosed || underWay >= this.#rules.windowOf(name)) return false;
    if (this.#rules.restsForMs(name) <= 0) return true;
    this.#resting.add(name);
    return false;
  }

  #makeReady(line: Line): void {
    line.project.ready.add(line);
    this.#ready.add(line.project);
  }

  #start(line: Line): void {
    line.lane.underWay += 1;
    line.project.underWay += 1;
    this.underWay += 1;
  }

  /** Takes the newest out of a line, all but `keep`. */
  #cut(line: Line, keep: number): Job[] {
    const jobs = line.jobs.splice(keep);
    this.waiting -= jobs.length;
    for (const job of jobs) this.#weigh(line, -job.weightBytes);
    if (line.jobs.length === 0) {
      line.project.ready.delete(line);
      line.lane.parked.delete(line);
    }
    this.#forgetIfEmpty(line);
    return jobs;
  }

  #weigh(line: Line, bytes: number): void {
    line.weightBytes += bytes;
    line.project.weightBytes += bytes;
    this.weightBytes += bytes;
  }

  #line({ lane: name, message: { projectId } }: Job): Line {
    let lane = this.#lanes.get(name);
    if (!lane) {
      lane = { name, lines: new Map(), parked: new Set(), underWay: 0, isClosed: false };
      this.#lanes.set(name, lane);
    }
    let line = lane.lines.get(projectId);
    if (!line) {
      line = { project: this.#project(projectId), lane, jobs: [], weightBytes: 0 };
      lane.lines.set(projectId, line);
      line.project.lines.add(line);
    }
    return line;
  }

  #project(id: string): Project {
    let project = this.#projects.get(id);
    if (!project) {
      project = { id, lines: new Set(), ready: new Set(), underWay: 0, weightBytes: 0 };
      this.#projects.set(id, project);
    }
    return project;
  }

  #forgetIfEmpty(line: Line): void {
    const { project, lane } = line;
    // Every job weighs something: nothing waits and nothing is under way.
    if (line.weightBytes > 0) return;
    lane.lines.delete(project.id);
    project.lines.delete(line);
    if (lane.lines.size === 0) this.#lanes.delete(lane.name);
    if (project.lines.size > 0) return;
    this.#projects.delete(project.id);
    this.#ready.delete(project);
  }
}
