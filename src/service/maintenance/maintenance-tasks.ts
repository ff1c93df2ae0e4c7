/**
 * The table of maintenance: what one process of each machine does, and how often. Several machines may run the same
 * task at once: every task is idempotent. The rooms implement the tasks; task-schedule.ts runs them.
 */
import { hostname } from 'node:os';
import type { Logger } from 'pino';
import type { Config } from '../../config/config.ts';
import { continueDrops } from '../../delivery/queue-control/drop.ts';
import { recheckDomains } from '../../domains/domain-recheck.ts';
import { BlockWatch } from '../../delivery/blocks/block-watch.ts';
import { ReputationWatch } from '../../reputation/reputation-watch.ts';
import { MailRemoval } from '../../retention/mail-removal.ts';
import type { AcmeWatch } from '../../certificates/acme-watch.ts';
import { type CertificateUse, CertificateWatch } from '../machine/certificate-watch.ts';
import type { ClockWatch } from '../readiness/clock-watch.ts';
import type { OperatorEventLog } from '../../operator/operator-event-log.ts';
import { recheckOpensslTuning } from '../machine/openssl-tuning.ts';
import { renewHost } from '../machine/own-host.ts';
import type { ServiceDatabase } from '../service-database.ts';
import { StreamWatch } from '../../events/stream-watch.ts';
import { removeDeadLog } from '../../move/change-log-store.ts';
import { beginRun } from '../../retention/clock-store.ts';
import { keyEarlierMail } from '../../migration/migrate-addresses.ts';
import { deleteExpired } from '../../retention/retention-store.ts';
import { makeSearchBlocks, removeOldBlocks } from '../../emails/list/search-blocks-store.ts';
import { shortenHistories } from '../../suppressions/history-store.ts';
import { foldStats } from '../../stats/stats-store.ts';
import { createPartitions } from '../../migration/migrate.ts';
import type { SecretBox } from '../../secrets/secret-box.ts';
import { ReconciliationWatch } from '../../reconciliation/reconciliation-watch.ts';
import { SecretWatch } from '../../secrets/secret-watch.ts';
import { StorageWatch } from '../../accounts/storage/storage-watch.ts';
import { renewStsPolicies } from '../../delivery/route/policy-watch.ts';
import { createNetwork } from '../machine/network.ts';
import { systemWorld } from '../machine/system-world.ts';
import { reportDisabledEndpoints } from '../../webhooks/disabled-watch.ts';
import type { WorkerPool } from '../pool/worker-pool.ts';
import type { DoctorWatch } from '../../doctor/reports/doctor-watch.ts';
import { NodeWatch } from './node-watch.ts';
import { checkSpace } from './space-watch.ts';
import type { Task } from './task-schedule.ts';

export type TaskContext = {
  database: ServiceDatabase;
  pool: WorkerPool;
  clock: ClockWatch;
  certificates: readonly CertificateUse[];
  acme: AcmeWatch | null;
  config: Config;
  /** The configuration with the ports in use. */
  ports: Config;
  secrets: SecretBox;
  operatorEvents: OperatorEventLog;
  log: Logger;
  /** Aborted when the service stops. */
  signal: AbortSignal;
  /** Called with a sentence when the database requires newer code or another secret key. */
  onOutdated: (problem: string) => void;
};

const SECONDS = 1_000;
const MINUTES = 60 * SECONDS;
const HOURS = 60 * MINUTES;

export function maintenanceTasks(context: TaskContext): Task[] {
  return [
    ...nodeTasks(context),
    ...secretTasks(context),
    ...spaceTasks(context),
    ...mailTasks(context),
    ...removalTasks(context),
    ...upgradeTasks(context),
    ...senderTasks(context),
    doctorTask(context),
  ];
}

function nodeTasks(context: TaskContext): Task[] {
  const { database, config, clock, operatorEvents, signal } = context;
  const nodes = new NodeWatch(context);
  return [
    {
      name: 'checking nodes and the schema',
      everyMs: 2.5 * SECONDS,
      run: () => nodes.check(),
    },
    {
      name: 'checking for a fail-over',
      everyMs: 2.5 * SECONDS,
      atStart: true, // a fail-over may come before the first interval
      run: () => nodes.checkTimeline(),
    },
    {
      name: 'releasing the work of dead workers',
      everyMs: 10 * MINUTES,
      run: () => nodes.releaseOrphans(),
    },
    {
      name: 'comparing clocks',
      everyMs: 2.5 * SECONDS,
      run: () => clock.check(),
    },
    {
      name: 'ending lapsed conditions',
      everyMs: 1 * MINUTES,
      run: () => operatorEvents.clearLapsed(),
    },
    {
      name: 'storing the host name',
      everyMs: 1 * HOURS,
      run: () => renewHost(database, config),
    },
    {
      name: 'measuring signatures',
      everyMs: 10 * MINUTES,
      run: async () => {
        await recheckOpensslTuning(database.dataDir, { nowMs: systemWorld.now(), signal });
      },
    },
  ];
}

function secretTasks(context: TaskContext): Task[] {
  const { acme, certificates, operatorEvents, signal, onOutdated } = context;
  const world = systemWorld;
  const certificateWatch = new CertificateWatch(certificates, { operatorEvents, world });
  const secretWatch = new SecretWatch({ ...context, world });
  return [
    {
      name: 'checking certificates',
      everyMs: 5 * SECONDS,
      atStart: true,
      run: async () => certificateWatch.check(),
    },
    {
      name: 'ordering certificates',
      everyMs: 5 * SECONDS,
      atStart: true,
      run: () => acme?.run() ?? Promise.resolve(),
    },
    {
      name: 'checking secrets',
      everyMs: 5 * SECONDS,
      atStart: true, // a predecessor may have left rows that this key does not open
      run: async () => {
        const problem = await secretWatch.run(() => signal.aborted);
        if (problem !== null) onOutdated(problem);
      },
    },
  ];
}

function spaceTasks(context: TaskContext): Task[] {
  const storage = new StorageWatch(context);
  return [
    {
      name: 'checking the disk',
      everyMs: 5 * SECONDS,
      atStart: true, // a service must not begin on a full disk
      run: () => checkSpace(context),
    },
    {
      name: 'measuring stored mail',
      everyMs: 30 * SECONDS,
      atStart: true, // until the first run, projects have the maximum of the last one
      run: () => storage.run(),
    },
  ];
}

function mailTasks({ database, operatorEvents, signal }: TaskContext): Task[] {
  const { db } = database;
  const reconciliation = new ReconciliationWatch({ db, operatorEvents, signal });
  const drops = { db, world: systemWorld, process: { host: hostname(), pid: process.pid } };
  return [
    {
      name: 'dropping mail',
      everyMs: 2.5 * SECONDS,
      run: () => continueDrops(drops, () => !signal.aborted),
    },
    {
      name: 'reconciling mail',
      everyMs: 1 * MINUTES,
      atStart: true, // a day may have become due since the last stop
      run: () => reconciliation.run(),
    },
    {
      name: 'adding up counts',
      everyMs: 10 * SECONDS,
      run: () => foldAllStats(database, signal),
    },
    {
      name: 'making blocks for searches',
      everyMs: 30 * SECONDS,
      run: async () => {
        const nowMs = systemWorld.now();
        await makeSearchBlocks(db, { nowMs, isStopping: () => signal.aborted });
        await removeOldBlocks(db, BLOCKS_BATCH);
      },
    },
  ];
}

const STATS_BATCH = 5_000;
const BLOCKS_BATCH = 5_000;

async function foldAllStats({ db }: ServiceDatabase, signal: AbortSignal): Promise<void> {
  while (!signal.aborted && (await foldStats(db, STATS_BATCH)) === STATS_BATCH);
}

const HISTORIES_BATCH = 5_000;

function removalTasks({ database, config, log, signal }: TaskContext): Task[] {
  const { db } = database;
  const retention = new MailRemoval(database, { ...config, log });
  return [
    {
      name: 'deleting expired rows',
      everyMs: 1 * MINUTES,
      run: async () => {
        if ((await beginRun(db)) === null) await deleteExpired(db);
      },
    },
    {
      name: 'shortening histories of suppressions',
      everyMs: 1 * HOURS,
      run: async () => {
        // An addition and a removal for each suppression that a project may have.
        const rowsMax = 2 * config.suppressionsMax;
        await shortenHistories(db, { rowsMax, batch: HISTORIES_BATCH });
      },
    },
    {
      name: 'applying the retention',
      everyMs: 10 * MINUTES,
      run: () => retention.run(() => signal.aborted, signal),
    },
    {
      name: 'removing the log of a move',
      everyMs: 10 * SECONDS,
      run: async () => {
        const isRemoved = await removeDeadLog(db, database.address, { signal });
        if (isRemoved)
          log.warn('a move of the database was interrupted; its triggers were removed');
      },
    },
  ];
}

function upgradeTasks(context: TaskContext): Task[] {
  const { database, signal } = context;
  const stream = new StreamWatch(context);
  return [
    {
      name: 'creating partitions',
      everyMs: 1 * MINUTES,
      run: partitionsTask(database, signal),
    },
    {
      name: 'building indexes',
      everyMs: 10 * SECONDS,
      run: () => stream.buildIndexes(),
    },
    {
      name: 'checking the event stream',
      everyMs: 1 * MINUTES, // no transaction of Letterhaus writes for this long
      run: () => stream.checkTransactions(),
    },
    {
      name: 'storing keys of earlier addresses',
      everyMs: 10 * SECONDS,
      run: earlierMailTask(database, signal),
    },
  ];
}

const PARTITIONS_EVERY_MS = 6 * HOURS;

/** Measures its interval by the wall clock: after it jumps, ids need the partitions of other weeks. */
function partitionsTask({ address }: ServiceDatabase, signal: AbortSignal): Task['run'] {
  let createdAtMs = systemWorld.now();
  return async () => {
    const nowMs = systemWorld.now();
    if (Math.abs(nowMs - createdAtMs) < PARTITIONS_EVERY_MS) return;
    await createPartitions(address, nowMs, { signal });
    createdAtMs = nowMs;
  };
}

/** Batches per run, which take some seconds. Ten million emails take an hour. */
const EARLIER_MAIL_BATCHES = 40;
const EARLIER_MAIL_BATCH = 2_000;

function earlierMailTask({ db }: ServiceDatabase, signal: AbortSignal): Task['run'] {
  let isKeyed = false;
  return async () => {
    for (let batch = 0; batch < EARLIER_MAIL_BATCHES && !isKeyed && !signal.aborted; batch += 1) {
      const passed = await keyEarlierMail(db, EARLIER_MAIL_BATCH);
      isKeyed = passed === null;
      if (passed === 0) return;
    }
  };
}

function senderTasks({ database, config, operatorEvents, log, signal }: TaskContext): Task[] {
  const { db } = database;
  const blocks = new BlockWatch(db, operatorEvents);
  const reputation = new ReputationWatch(db, log);
  return [
    {
      name: 'checking webhooks',
      everyMs: 10 * SECONDS,
      run: () => reportDisabledEndpoints(db, operatorEvents),
    },
    {
      name: 'checking provider blocks',
      everyMs: 2 * SECONDS,
      run: () => blocks.run(),
    },
    {
      name: 'checking reputations',
      everyMs: config.reputationEveryMs,
      run: () => reputation.run(),
    },
    {
      name: 'renewing MTA-STS policies',
      everyMs: 10 * MINUTES,
      run: () => renewStsPolicies(db, { config, log }),
    },
    {
      name: 'checking domains',
      everyMs: config.domainsEveryMs,
      run: async () => {
        const { resolver } = createNetwork(config, systemWorld);
        try {
          await recheckDomains(db, { config, resolver, log, isStopping: () => signal.aborted });
        } finally {
          resolver.close();
        }
      },
    },
  ];
}

/**
 * Begins after the start, so that the task does not delay the start. Most starts of tests and trials never load the
 * checks.
 */
function doctorTask(context: TaskContext): Task {
  let watch: DoctorWatch | null = null;
  return {
    name: 'running the doctor',
    everyMs: 2.5 * SECONDS,
    run: async () => {
      watch ??= (await import('./doctor-task.ts')).createDoctorWatch(context);
      await watch.run();
    },
  };
}
