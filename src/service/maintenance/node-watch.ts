/**
 * Watches the other nodes of the installation, and their changes: expires a node that is silent, releases work of
 * workers that no longer exist, reports a fail-over of the database, and ends this node when the schema needs newer
 * code.
 *
 * Silence is evidence only while heartbeats can be stored. Reads also work while every commit waits for a standby that
 * is gone, or fails on a full disk. So a poll counts only if it sees a heartbeat that a worker of this node stored
 * since the last poll: this node compares others with itself, and expires nobody while it would seem dead itself.
 */
import type { Logger } from 'pino';
import { readTimeline } from '../../database/server/failover.ts';
import {
  expireWorker,
  readWorkersAndSchema,
  releaseOrphans,
  type WatchedWorker,
} from '../../delivery/queue/worker-store.ts';
import { failpoint } from '../../lib/failpoint.ts';
import { findOutdatedProblem } from '../../migration/schema-version.ts';
import { systemWorld } from '../machine/system-world.ts';
import type { ServiceDatabase } from '../service-database.ts';
import type { WorkerPool } from '../pool/worker-pool.ts';

/** Number of polls that count, with the same heartbeat, after which a node is dead. */
const SILENT_POLLS_MAX = 6;
/** Time after a death in which every poll looks for rows of the dead worker's last statement. */
const ORPHANS_FOR_MS = 30_000;
const SCHEMA_OUTDATED = {
  code: 'schema',
  reason: 'the database was migrated for a newer version',
} as const;

/** @property polls those that counted since the heartbeat was stored */
type ObservedNode = { heartbeat: number; polls: number };

type NodeWatchOptions = {
  database: Pick<ServiceDatabase, 'db' | 'instance'>;
  pool: Pick<WorkerPool, 'pollNow' | 'refuseMail' | 'reportFailover'>;
  log: Logger;
  /** Called with a sentence when the database requires newer code. */
  onOutdated: (problem: string) => void;
};

export class NodeWatch {
  readonly #options: NodeWatchOptions;
  #nodes = new Map<string, ObservedNode>();
  #timeline: string | null = null;
  /** Begins at the start, because a predecessor may have died a moment ago. */
  #orphansUntilMs = systemWorld.monotonicMs() + ORPHANS_FOR_MS;

  constructor(options: NodeWatchOptions) {
    this.#options = options;
  }

  async check(): Promise<void> {
    const { nodes, schemaRequired } = await readWorkersAndSchema(this.#options.database.db);
    this.#checkSchema(schemaRequired);
    await this.#checkNodes(nodes);
  }

  /** Stops this code when a migration is about to drop something that it uses. */
  #checkSchema(required: number): void {
    const problem = findOutdatedProblem(required);
    if (problem === null) return;
    this.#options.pool.refuseMail('schema', SCHEMA_OUTDATED);
    this.#options.onOutdated(problem);
  }

  async #checkNodes(nodes: readonly WatchedWorker[]): Promise<void> {
    const { database, pool, log } = this.#options;
    const counts = this.#hasStoredHeartbeat(nodes);
    const observed = new Map<string, ObservedNode>();
    for (const { id, beat } of nodes) {
      const previous = this.#nodes.get(id);
      const polls = previous?.heartbeat === beat ? previous.polls + (counts ? 1 : 0) : 0;
      observed.set(id, { heartbeat: beat, polls });
      if (!counts || polls < SILENT_POLLS_MAX) continue;
      failpoint('reclaim_before_commit');
      const freed = await expireWorker(database.db, { id, beat });
      log.warn({ node: id, freed }, 'a worker stopped its heartbeat; this node released its work');
      pool.pollNow();
    }
    const hasLostNode = [...this.#nodes.keys()].some((id) => !observed.has(id));
    this.#nodes = observed;
    if (hasLostNode) this.#orphansUntilMs = systemWorld.monotonicMs() + ORPHANS_FOR_MS;
    if (systemWorld.monotonicMs() < this.#orphansUntilMs) await this.releaseOrphans();
  }

  /** Not after a fail-over that lost heartbeats: then counters are lower. A new worker's row is its first heartbeat. */
  #hasStoredHeartbeat(nodes: readonly WatchedWorker[]): boolean {
    const { instance } = this.#options.database;
    return nodes.some(({ id, instance: node, beat }) => {
      const previous = this.#nodes.get(id);
      return node === instance && (previous === undefined || beat > previous.heartbeat);
    });
  }

  async releaseOrphans(): Promise<void> {
    const { database, log } = this.#options;
    failpoint('orphans_before_release');
    const freed = await releaseOrphans(database.db);
    if (freed > 0) log.warn({ freed }, 'this node released work of workers that no longer exist');
  }

  /** A promoted standby begins a new timeline. Commits that it did not receive are lost and logged. */
  async checkTimeline(): Promise<void> {
    const { database, pool, log } = this.#options;
    const timeline = await readTimeline(database.db);
    if (timeline === null) return;
    const before = this.#timeline;
    this.#timeline = timeline;
    if (before === null || before === timeline) return;
    this.#orphansUntilMs = systemWorld.monotonicMs() + ORPHANS_FOR_MS;
    log.error(
      { before, timeline },
      'the database failed over to another server; commits that an asynchronous standby lacked are lost (docs/scale.md)',
    );
    pool.reportFailover();
  }
}
