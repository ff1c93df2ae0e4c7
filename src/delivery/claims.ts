/**
 * Takes due work out of the queue table for this worker: who gets how much, and where the search
 * goes on.
 *
 * While little is due, that is taken, oldest first. When more is due than one look shows, there is
 * a backlog, and projects take turns, within a project its lanes, within a lane by age. Lanes that
 * rest or have enough in memory are passed over: a probe each, however much waits in them. Every
 * worker walks from a place of its own.
 * Next: store/queue-claims.ts, the statements.
 */
import type { World } from '../core/world.ts';
import type { Queryable } from '../store/postgres/database.ts';
import {
  claimLines,
  claimOldest,
  type ClaimedRecipient,
  findLines,
  type FoundLine,
  lineKey,
} from '../store/queue-claims.ts';
import type { Lanes } from './lanes.ts';
import type { Shaping } from './shaping.ts';

/** One statement takes at most so many. When so many are due there is a backlog. */
const CLAIM_MAX = 128;
/** One step of the walk: so many projects, and about so many lanes together. */
const WALK_PROJECTS_MAX = 32;
const WALK_LANES_MAX = 192;
/** Claims start at the last due time seen, less what a slow transaction may commit late. */
const LOW_WATER_MARGIN_MS = 60_000;
const FULL_SCAN_EVERY_MS = 60_000;
/**
 * A destination whose provider is not known may be one of thousands of one that is dead: of each
 * so many, and of so many at a time.
 */
const UNKNOWN_LANE_MAX = 2;
const UNKNOWN_LANES_MAX = 32;
const HUNGRY_MAX = 1_000;
const SPREAD_MS = 2 * 365 * 24 * 3600_000;
const FIRST_PROJECT = '00000000-0000-0000-0000-000000000000';

export type Claimed = {
  claimed: ClaimedRecipient[];
  /** `more`: look again at once. `walking`: the search is not round yet. `done`: nothing to do. */
  outlook: 'more' | 'walking' | 'done';
};

type Line = { projectId: string; lane: string; max: number };

export class Claims {
  readonly #db: Queryable;
  readonly #world: Pick<World, 'now' | 'monotonicMs' | 'random'>;
  readonly #lanes: Lanes;
  readonly #shaping: Pick<Shaping, 'laneOf' | 'restsForMs'>;
  readonly #knows: (lane: string) => boolean;
  #lowWater = new Date(0);
  #fullScanAtMs = 0;
  #isBacklog = false;
  /** The walk: projects behind this one, in each its lanes behind that one. */
  #project: string;
  readonly #cursors = new Map<string, string>();
  #steps = { withoutWork: 0, isRound: false };
  /** Lines that had more than was taken of them: looked at again without waiting for the walk. */
  readonly #hungry = new Map<string, Omit<Line, 'max'>>();
  /** More is due than was taken: worth looking at again as soon as a line has room. */
  hasMore = false;

  constructor(options: {
    db: Queryable;
    world: Pick<World, 'now' | 'monotonicMs' | 'random'>;
    lanes: Lanes;
    shaping: Pick<Shaping, 'laneOf' | 'restsForMs'>;
    /** Whether the lane is a provider's, or of a destination whose provider is known. */
    knows: (lane: string) => boolean;
  }) {
    this.#db = options.db;
    this.#world = options.world;
    this.#lanes = options.lanes;
    this.#shaping = options.shaping;
    this.#knows = options.knows;
    this.#project = somewhere(options.world);
  }

  /** Takes what is due, as far as there is room. @throws DatabaseUnavailable */
  async take(holder: string): Promise<Claimed> {
    if (this.#lanes.claimableInAll === 0) return { claimed: [], outlook: 'done' };
    if (!this.#isBacklog) {
      const claimed = await this.#takeOldest(holder);
      if (claimed !== null) return { claimed, outlook: 'done' };
      this.#isBacklog = true;
      this.hasMore = true;
    }
    return this.#takeFairly(holder);
  }

  /** Null: more is due than can be looked at. */
  async #takeOldest(holder: string): Promise<ClaimedRecipient[] | null> {
    const lines = this.#lanes.satedLines();
    const max = Math.min(CLAIM_MAX, this.#lanes.claimableInAll);
    const { claimed, seen } = await claimOldest(this.#db, {
      holder,
      max,
      window: CLAIM_MAX,
      from: this.#from(),
      fullProjects: this.#lanes.satedProjects(),
      fullLines: lines.map(({ projectId, lane }) => lineKey(projectId, lane)),
    });
    if (seen >= CLAIM_MAX) return null;
    this.hasMore = claimed.length < seen;
    const newest = claimed.at(-1);
    // What was left behind may be older than the newest: then the mark stays where it is.
    if (newest && !this.hasMore) {
      this.#lowWater = new Date(newest.dueAt.getTime() - LOW_WATER_MARGIN_MS);
    }
    return claimed;
  }

  #from(): Date {
    const nowMs = this.#world.monotonicMs();
    if (nowMs < this.#fullScanAtMs) return this.#lowWater;
    this.#fullScanAtMs = nowMs + FULL_SCAN_EVERY_MS;
    return new Date(0);
  }

  async #takeFairly(holder: string): Promise<Claimed> {
    const found = await findLines(this.#db, {
      project: this.#project,
      projects: WALK_PROJECTS_MAX,
      probes: WALK_LANES_MAX,
      cursors: this.#cursors,
      from: this.#lowWater,
      oldest: CLAIM_MAX,
    });
    const { lines, leftOut } = this.#shares(found);
    this.#moveOn(found, leftOut);
    const from = this.#lowWater;
    const claimed = lines.length === 0 ? [] : await claimLines(this.#db, { holder, lines, from });
    this.#noteHungry(lines, claimed);
    return { claimed, outlook: this.#outlook(claimed.length > 0) };
  }

  /** Who gets how much: projects in turn, of every line that can be served its part. */
  #shares(found: readonly FoundLine[]): { lines: Line[]; leftOut: Set<string> } {
    const known = new Map<string, Line>();
    const unknown = new Map<string, Line>();
    const due = found.filter((line): line is FoundLine & { lane: string } => {
      return line.lane !== null && line.isDue;
    });
    for (const { projectId, lane } of inTurn([[...this.#hungry.values()], due])) {
      const max = this.#claimable(projectId, lane);
      if (max === 0) continue;
      const lines = this.#knows(lane) ? known : unknown;
      lines.set(lineKey(projectId, lane), { projectId, lane, max });
    }
    const inAll = Math.min(CLAIM_MAX, this.#lanes.claimableInAll);
    const few = byProjectInTurn(unknown.values()).slice(0, UNKNOWN_LANES_MAX);
    const lines = byProjectInTurn([...known.values(), ...few]).slice(0, inAll);
    for (const { projectId, lane } of lines) known.delete(lineKey(projectId, lane));
    const part = Math.ceil(inAll / Math.max(1, lines.length));
    let left = inAll;
    for (const line of lines) {
      line.max = Math.min(line.max, part, left);
      left -= line.max;
    }
    return { lines: lines.filter(({ max }) => max > 0), leftOut: new Set(known.keys()) };
  }

  #claimable(projectId: string, lane: string): number {
    const now = this.#shaping.laneOf(lane);
    if (this.#shaping.restsForMs(now) > 0) return 0;
    const max = this.#lanes.claimable(projectId, now);
    return this.#knows(lane) ? max : Math.min(max, UNKNOWN_LANE_MAX);
  }

  #noteHungry(lines: readonly Line[], claimed: readonly ClaimedRecipient[]): void {
    const counts = new Map<string, number>();
    for (const { projectId, lane } of claimed) {
      const key = lineKey(projectId, lane);
      counts.set(key, (counts.get(key) ?? 0) + 1);
    }
    for (const { projectId, lane, max } of lines) {
      const key = lineKey(projectId, lane);
      this.#hungry.delete(key);
      if (counts.get(key) === max && this.#knows(lane)) this.#hungry.set(key, { projectId, lane });
    }
    for (const key of this.#hungry.keys()) {
      if (this.#hungry.size <= HUNGRY_MAX) break;
      this.#hungry.delete(key);
    }
  }

  /**
   * Sets the cursors behind what was seen, but not behind what there was no room for; at the end of
   * a list they go back to its beginning.
   */
  #moveOn(found: readonly FoundLine[], leftOut: ReadonlySet<string>): void {
    const walked = found.filter(({ isOldest }) => !isOldest);
    const projects = Map.groupBy(walked, ({ projectId }) => projectId);
    for (const [projectId, lines] of projects) {
      const lanes = lines.map(({ lane }) => lane ?? '').toSorted(byCodeUnits);
      const next = lanes.findIndex((lane) => leftOut.has(lineKey(projectId, lane)));
      const isCutShort = lines.some(({ isLast }) => isLast);
      if (next > 0) this.#cursors.set(projectId, lanes[next - 1]!);
      else if (next === -1 && isCutShort) this.#cursors.set(projectId, lanes.at(-1)!);
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
    // Round twice: the first one may have begun in the middle.
    if (!isRound || this.#steps.withoutWork < 2) return 'walking';
    this.#steps.withoutWork = 0;
    this.#isBacklog = false;
    this.#hungry.clear();
    return 'done';
  }
}

function byProjectInTurn(lines: Iterable<Line>): Line[] {
  return inTurn([...Map.groupBy(lines, ({ projectId }) => projectId).values()]);
}

/** As the index sorts them: lane names are ASCII. */
function byCodeUnits(one: string, other: string): number {
  if (one === other) return 0;
  return one < other ? -1 : 1;
}

/** The first of each list, then the second of each, and so on. */
function inTurn<Item>(lists: readonly (readonly Item[])[]): Item[] {
  const length = Math.max(0, ...lists.map((list) => list.length));
  return Array.from({ length }, (_, index) =>
    lists.flatMap((list) => list.slice(index, index + 1)),
  ).flat();
}

/**
 * A project id to begin behind: workers that begin at different ones meet less often. Ids begin
 * with the time of their making.
 */
function somewhere(world: Pick<World, 'now' | 'random'>): string {
  const madeMs = Math.floor(world.now() - world.random() * SPREAD_MS);
  const digits = madeMs.toString(16).padStart(12, '0');
  return `${digits.slice(0, 8)}-${digits.slice(8)}${FIRST_PROJECT.slice(13)}`;
}
