/**
 * Periodic tasks of one process per machine. It monitors other nodes, the schema, the disk, project storage and
 * certificates. It creates partitions in advance, removes data past its retention (retention/mail-removal.ts) and
 * expired rows, and builds indexes after an upgrade. It reports senders with many bounces
 * (reputation/reputation-watch.ts), re-checks domains, carries out drops of waiting mail, and checks daily that no mail
 * is missing.
 *
 * Each task has its own interval. A failure is logged, and the next interval retries it. Several machines may run the
 * same task at once: every task is idempotent.
 */
import { hostname } from 'node:os';
import type { Logger } from 'pino';
import { waitAtMost } from '../../lib/at-most.ts';
import { failpoint } from '../../lib/failpoint.ts';
import type { Config } from '../../config/config.ts';
import { continueDrops } from '../../delivery/queue-control/drop.ts';
import { recheckDomains } from '../../domains/domain-recheck.ts';
import { BlockWatch } from '../../delivery/blocks/block-watch.ts';
import { ReputationWatch } from '../../reputation/reputation-watch.ts';
import { MailRemoval } from '../../retention/mail-removal.ts';
import { type CertificateUse, CertificateWatch } from '../machine/certificate-watch.ts';
import type { ClockWatch } from '../readiness/clock-watch.ts';
import type { OperatorEventLog } from '../../operator/operator-event-log.ts';
import { renewHost } from '../machine/own-host.ts';
import type { ServiceDatabase } from '../service-database.ts';
import {
  buildStreamIndexes,
  isStreamIndexed,
  findBlockingTransaction,
} from '../../events/order-store.ts';
import { removeDeadLog } from '../../move/change-log-store.ts';
import { beginRun } from '../../retention/clock-store.ts';
import { keyEarlierMail } from '../../migration/migrate-addresses.ts';
import { forgetExpired } from '../../retention/retention-store.ts';
import { shortenHistories } from '../../suppressions/history-store.ts';
import { foldStats } from '../../stats/stats-store.ts';
import { DatabaseUnavailable } from '../../database/database.ts';
import { readTimeline } from '../../database/server/failover.ts';
import { createPartitions } from '../../migration/migrate.ts';
import { readDatabaseBytes } from '../../database/server/capacity.ts';
import { findOutdatedProblem } from '../../migration/schema-version.ts';
import {
  expireWorker,
  readWorkersAndSchema,
  releaseOrphans,
} from '../../delivery/queue/worker-store.ts';
import type { SecretBox } from '../../secrets/secret-box.ts';
import { reportDisk, reportSize } from './space-conditions.ts';
import { ReconciliationWatch } from '../../reconciliation/reconciliation-watch.ts';
import { SecretWatch } from '../../secrets/secret-watch.ts';
import { StorageWatch } from '../../accounts/storage/storage-watch.ts';
import { renewStsPolicies } from '../../delivery/route/policy-watch.ts';
import { createNetwork } from '../machine/network.ts';
import { systemWorld } from '../machine/system-world.ts';
import { reportDisabledEndpoints } from '../../webhooks/disabled-watch.ts';
import type { WorkerPool } from '../worker/worker-pool.ts';

export type MaintenanceOptions = {
  database: ServiceDatabase;
  pool: WorkerPool;
  clock: ClockWatch;
  certificates: readonly CertificateUse[];
  config: Config;
  secrets: SecretBox;
  operatorEvents: OperatorEventLog;
  log: Logger;
};

const WATCH_EVERY_MS = 2_500;
/** Number of successful polls of this process with the same heartbeat after which a node is dead. */
const SILENT_POLLS_MAX = 6;
/** Time after a death in which every poll looks for rows of the dead worker's last statement. */
const ORPHANS_FOR_MS = 30_000;
const ORPHANS_EVERY_MS = 10 * 60_000;
const SCHEMA_OUTDATED = {
  code: 'schema',
  reason: 'the database was migrated for a newer version',
} as const;
const DISK_LOW = { code: 'disk_full', reason: 'the disk is nearly full' } as const;
const DATABASE_LARGE = {
  code: 'database_full',
  reason: 'the database has reached its largest size',
} as const;
const DROPS_EVERY_MS = 2_500;
const DISK_EVERY_MS = 5_000;
const DISK_FREE_MIN_BYTES = 1024 ** 3;
const FORGET_EVERY_MS = 60_000;
const HISTORIES_EVERY_MS = 3600_000;
const HISTORIES_BATCH = 5_000;
const STORAGE_EVERY_MS = 30_000;
const SECRETS_EVERY_MS = 5_000;
const STATS_EVERY_MS = 10_000;
const STATS_BATCH = 5_000;
const EARLIER_MAIL_EVERY_MS = 10_000;
/** Batches per run, which take some seconds. Ten million emails take an hour. */
const EARLIER_MAIL_BATCHES = 40;
const EARLIER_MAIL_BATCH = 2_000;
/** Measured by the wall clock: after it jumps, ids need the partitions of other weeks. */
const PARTITIONS_EVERY_MS = 6 * 3600_000;
const CLOCK_EVERY_MS = 60_000;
const CERTIFICATES_EVERY_MS = 5_000;
const INDEXES_EVERY_MS = 10_000;
/** No transaction of Letterhaus writes for this long. */
const STREAM_EVERY_MS = 60_000;
const MOVES_EVERY_MS = 10_000;
const BLOCKS_EVERY_MS = 2_000;
const HOST_EVERY_MS = 3600_000;
const POLICIES_EVERY_MS = 10 * 60_000;
const WEBHOOKS_EVERY_MS = 10_000;
const LAPSED_CONDITIONS_EVERY_MS = 60_000;
const RECONCILE_EVERY_MS = 60_000;
const RETENTION_EVERY_MS = 10 * 60_000;
/** A task whose statement has no answer by then ends when the database is closed. */
const STOP_WITHIN_MS = 5_000;

type ObservedNode = { heartbeat: number; polls: number };

export class Maintenance implements AsyncDisposable {
  readonly #options: MaintenanceOptions;
  readonly #timers = new Set<NodeJS.Timeout>();
  readonly #runningTasks = new Set<Promise<void>>();
  readonly #failingTasks = new Set<string>();
  #nodes = new Map<string, ObservedNode>();
  #timeline: string | null = null;
  #blockingTransaction: string | null = null;
  readonly #stopping = new AbortController();
  readonly #outdated = Promise.withResolvers<string>();
  /** Resolves with a sentence when the database requires newer code or another secret key. */
  readonly outdated = this.#outdated.promise;
  /** Begins at the start, because a predecessor may have died a moment ago. */
  #orphansUntilMs = systemWorld.monotonicMs() + ORPHANS_FOR_MS;

  constructor(options: MaintenanceOptions) {
    this.#options = options;
  }

  get #isStopping(): boolean {
    return this.#stopping.signal.aborted;
  }

  start(): void {
    this.#scheduleInstallationTasks();
    this.#scheduleStorageTasks();
    this.#scheduleTableTasks();
    this.#scheduleSenderTasks();
  }

  #scheduleInstallationTasks(): void {
    const { database, config, operatorEvents } = this.#options;
    this.#schedule(WATCH_EVERY_MS, 'checking nodes and the schema', () =>
      this.#checkInstallation(),
    );
    this.#schedule(WATCH_EVERY_MS, 'comparing clocks', () => this.#options.clock.check());
    const { certificates } = this.#options;
    const certificateWatch = new CertificateWatch(certificates, {
      operatorEvents,
      world: systemWorld,
    });
    this.#runAndSchedule(CERTIFICATES_EVERY_MS, 'checking certificates', async () =>
      certificateWatch.look(),
    );
    // Runs at once, because a fail-over may come before the first interval.
    this.#runAndSchedule(WATCH_EVERY_MS, 'checking for a fail-over', () => this.#checkTimeline());
    this.#schedule(ORPHANS_EVERY_MS, 'releasing the work of dead workers', () =>
      this.#releaseOrphans(),
    );
    const thisProcess = { host: hostname(), pid: process.pid };
    this.#schedule(DROPS_EVERY_MS, 'dropping mail', () => {
      const context = { db: database.db, world: systemWorld, process: thisProcess };
      return continueDrops(context, () => !this.#isStopping);
    });
    const { signal } = this.#stopping;
    const reconciliation = new ReconciliationWatch({ db: database.db, operatorEvents, signal });
    // Runs at once, because a day may have become due since the last stop.
    this.#runAndSchedule(RECONCILE_EVERY_MS, 'reconciling mail', () => reconciliation.run());
    this.#schedule(LAPSED_CONDITIONS_EVERY_MS, 'ending lapsed conditions', () =>
      operatorEvents.clearLapsed(),
    );
    const secretWatch = new SecretWatch({ ...this.#options, world: systemWorld });
    // Runs at once, because a predecessor may have left rows that this key does not open.
    this.#runAndSchedule(SECRETS_EVERY_MS, 'checking secrets', async () => {
      const problem = await secretWatch.run(() => this.#isStopping);
      if (problem !== null) this.#outdated.resolve(problem);
    });
    this.#schedule(HOST_EVERY_MS, 'storing the host name', () => renewHost(database, config));
  }

  #scheduleStorageTasks(): void {
    // Runs at once, because a service must not begin on a full disk.
    this.#runAndSchedule(DISK_EVERY_MS, 'checking the disk', () => this.#checkSpace());
    const storage = new StorageWatch(this.#options);
    // Until the first run, projects have the maximum of the last one.
    this.#runAndSchedule(STORAGE_EVERY_MS, 'measuring stored mail', () => storage.run());
  }

  #scheduleTableTasks(): void {
    const { database, config, log } = this.#options;
    const { signal } = this.#stopping;
    this.#schedule(FORGET_EVERY_MS, 'deleting expired rows', async () => {
      if ((await beginRun(database.db)) === null) await forgetExpired(database.db);
    });
    this.#schedule(HISTORIES_EVERY_MS, 'shortening histories of suppressions', async () => {
      // An addition and a removal for each suppression that a project may have.
      const rowsMax = 2 * config.suppressionsMax;
      await shortenHistories(database.db, { rowsMax, batch: HISTORIES_BATCH });
    });
    this.#schedule(STATS_EVERY_MS, 'adding up counts', async () => {
      while (!this.#isStopping && (await foldStats(database.db, STATS_BATCH)) === STATS_BATCH);
    });
    let isKeyed = false;
    this.#schedule(EARLIER_MAIL_EVERY_MS, 'storing keys of earlier addresses', async () => {
      for (
        let batch = 0;
        batch < EARLIER_MAIL_BATCHES && !isKeyed && !this.#isStopping;
        batch += 1
      ) {
        const passed = await keyEarlierMail(database.db, EARLIER_MAIL_BATCH);
        isKeyed = passed === null;
        if (passed === 0) return;
      }
    });
    let partitionsAtMs = systemWorld.now();
    this.#schedule(CLOCK_EVERY_MS, 'creating partitions', async () => {
      const nowMs = systemWorld.now();
      if (Math.abs(nowMs - partitionsAtMs) < PARTITIONS_EVERY_MS) return;
      await createPartitions(database.address, nowMs, { signal });
      partitionsAtMs = nowMs;
    });
    this.#schedule(MOVES_EVERY_MS, 'removing the log of a move', async () => {
      const isRemoved = await removeDeadLog(database.db, database.address, { signal });
      if (isRemoved) log.warn('a move of the database was interrupted; its triggers were removed');
    });
    let isIndexed = false;
    this.#schedule(INDEXES_EVERY_MS, 'building indexes', async () => {
      if (isIndexed) return;
      if (await isStreamIndexed(database.db)) isIndexed = true;
      else await this.#buildIndexes();
    });
    this.#schedule(STREAM_EVERY_MS, 'checking the event stream', () => this.#checkStream());
    const retention = new MailRemoval(database, { ...config, log });
    this.#schedule(RETENTION_EVERY_MS, 'applying the retention', () =>
      retention.run(() => this.#isStopping, signal),
    );
  }

  #scheduleSenderTasks(): void {
    const { database, config, operatorEvents, log } = this.#options;
    this.#schedule(WEBHOOKS_EVERY_MS, 'checking webhooks', () =>
      reportDisabledEndpoints(database.db, operatorEvents),
    );
    const blocks = new BlockWatch(database.db, operatorEvents);
    this.#schedule(BLOCKS_EVERY_MS, 'checking provider blocks', () => blocks.run());
    const reputation = new ReputationWatch(database.db, log);
    this.#schedule(config.reputationEveryMs, 'checking reputations', () => reputation.run());
    this.#schedule(POLICIES_EVERY_MS, 'renewing MTA-STS policies', () =>
      renewStsPolicies(database.db, { config, log }),
    );
    this.#schedule(config.domainsEveryMs, 'checking domains', () => this.#recheckDomains());
  }

  /** Aborts statements of the owner, which may run for hours. The next run completes their task. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort();
    for (const timer of this.#timers) clearTimeout(timer);
    await waitAtMost(STOP_WITHIN_MS, Promise.allSettled(this.#runningTasks));
  }

  /** Runs a task at once and at each interval. A first run that fails is repeated at the first interval. */
  #runAndSchedule(periodMs: number, what: string, task: () => Promise<void>): void {
    this.#schedule(periodMs, what, task);
    this.#runningTasks.add(task().catch(() => {}));
  }

  #schedule(periodMs: number, what: string, task: () => Promise<void>): void {
    const scheduleNext = (): void => {
      if (this.#isStopping) return;
      const timer = setTimeout(() => {
        this.#timers.delete(timer);
        const run = task().then(
          () => this.#logRun(what, null),
          (error: unknown) => this.#logRun(what, error),
        );
        this.#runningTasks.add(run);
        void run.finally(() => {
          this.#runningTasks.delete(run);
          scheduleNext();
        });
      }, periodMs);
      this.#timers.add(timer);
    };
    scheduleNext();
  }

  /** Logs a task that keeps failing once, and once more when it succeeds. */
  #logRun(what: string, error: unknown): void {
    const { log } = this.#options;
    const wasFailing = this.#failingTasks.has(what);
    if (error === null) {
      this.#failingTasks.delete(what);
      if (wasFailing) log.info({ task: what }, 'a task of maintenance succeeds again');
      return;
    }
    // An unavailable database has a line of its own (service/readiness/readiness-log.ts).
    if (this.#isStopping || error instanceof DatabaseUnavailable) return;
    this.#failingTasks.add(what);
    const level = wasFailing ? 'debug' : 'warn';
    log[level]({ err: error, task: what }, `${what} failed; it is retried until it succeeds`);
  }

  async #checkInstallation(): Promise<void> {
    const { nodes, schemaRequired } = await readWorkersAndSchema(this.#options.database.db);
    this.#checkSchema(schemaRequired);
    await this.#checkNodes(nodes);
  }

  /** Counts successful polls only: no node expires while the database is unavailable. */
  async #checkNodes(nodes: readonly { id: string; beat: number }[]): Promise<void> {
    const { db } = this.#options.database;
    const observed = new Map<string, ObservedNode>();
    for (const { id, beat } of nodes) {
      const previous = this.#nodes.get(id);
      const polls = previous?.heartbeat === beat ? previous.polls + 1 : 0;
      observed.set(id, { heartbeat: beat, polls });
      if (polls < SILENT_POLLS_MAX) continue;
      failpoint('reclaim_before_commit');
      const freed = await expireWorker(db, { id, beat });
      this.#options.log.warn(
        { node: id, freed },
        'a node stopped its heartbeat; its work was released',
      );
      this.#options.pool.pollNow();
    }
    const hasLostNode = [...this.#nodes.keys()].some((id) => !observed.has(id));
    this.#nodes = observed;
    if (hasLostNode) this.#orphansUntilMs = systemWorld.monotonicMs() + ORPHANS_FOR_MS;
    if (systemWorld.monotonicMs() < this.#orphansUntilMs) await this.#releaseOrphans();
  }

  async #releaseOrphans(): Promise<void> {
    failpoint('orphans_before_release');
    const freed = await releaseOrphans(this.#options.database.db);
    if (freed > 0) this.#options.log.warn({ freed }, 'work without a holder was released');
  }

  /** A promoted standby begins a new timeline. Commits that it did not receive are lost and logged. */
  async #checkTimeline(): Promise<void> {
    const timeline = await readTimeline(this.#options.database.db);
    if (timeline === null) return;
    const before = this.#timeline;
    this.#timeline = timeline;
    if (before === null || before === timeline) return;
    this.#orphansUntilMs = systemWorld.monotonicMs() + ORPHANS_FOR_MS;
    this.#options.log.error(
      { before, timeline },
      'the database failed over to another server; commits that an asynchronous standby lacked are lost (docs/scale.md)',
    );
    this.#options.pool.reportFailover();
  }

  async #recheckDomains(): Promise<void> {
    const { database, config, log } = this.#options;
    const { resolver } = createNetwork(config, systemWorld);
    try {
      const isStopping = (): boolean => this.#isStopping;
      await recheckDomains(database.db, { config, resolver, log, isStopping });
    } finally {
      resolver.close();
    }
  }

  /** Stops this code when a migration is about to drop something that it uses. */
  #checkSchema(required: number): void {
    const problem = findOutdatedProblem(required);
    if (problem === null) return;
    this.#options.pool.refuseMail('schema', SCHEMA_OUTDATED);
    this.#outdated.resolve(problem);
  }

  /** Builds indexes that a migration left to a running service. */
  async #buildIndexes(): Promise<void> {
    const built = await buildStreamIndexes(this.#options.database.address, {
      signal: this.#stopping.signal,
    });
    this.#options.log.info({ built }, 'indexes of the event stream were built');
  }

  /** Logs a long transaction: the stream is read only below the oldest running one. */
  async #checkStream(): Promise<void> {
    const before = this.#blockingTransaction;
    this.#blockingTransaction = await findBlockingTransaction(this.#options.database.db);
    if (before === null || this.#blockingTransaction !== before) return;
    this.#options.log.warn(
      { transaction: before },
      'a long-running transaction delays the event stream; end it (docs/events.md)',
    );
  }

  /** Refuses emails before the disk is full, because settlements need disk space. */
  async #checkSpace(): Promise<void> {
    const { database, config, operatorEvents, pool } = this.#options;
    const freeDiskBytes = await database.readFreeDiskBytes();
    const isLow = freeDiskBytes !== null && freeDiskBytes < DISK_FREE_MIN_BYTES;
    reportDisk(operatorEvents, { freeBytes: freeDiskBytes, isLow });
    // Comes before the query, because the database may not answer.
    pool.refuseMail('disk', isLow ? DISK_LOW : null);
    const bytesMax = config.databaseBytesMax;
    const bytes = bytesMax === null ? null : await readDatabaseBytes(database.db);
    const isLarge = bytesMax !== null && bytes !== null && bytes >= bytesMax;
    reportSize(operatorEvents, { bytes, bytesMax, isLarge });
    pool.refuseMail('database_size', isLarge ? DATABASE_LARGE : null);
  }
}
