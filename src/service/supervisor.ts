/**
 * The service on one machine: a supervisor and its workers.
 *
 * The supervisor opens and migrates the database, and starts N workers that each do everything. It restarts a dead
 * worker and releases its work at once, reclaims the work of expired nodes, creates partitions, and stops everything in
 * order. It has no mail in memory, so nothing is lost when it dies: its workers end with it.
 */
import { flushCompileCache } from 'node:module';
import type { Logger } from 'pino';
import type { Config } from '../config/config.ts';
import { failpoint } from '../lib/failpoint.ts';
import type { CertificateFiles } from './machine/certificates.ts';
import { type CertificateUse, certificateUses } from './machine/certificate-watch.ts';
import type { AcmeWatch } from '../certificates/acme-watch.ts';
import { orderedFiles, orderedNames } from '../certificates/wanted.ts';
import { AdminSocket } from './admin-socket.ts';
import { scheduleBackups } from '../backup/running/backup-schedule.ts';
import { armSupervisor } from './machine/failpoints.ts';
import { type FirstStart, seedFirstStart } from './first-start.ts';
import { type ClockState, ClockWatch } from './readiness/clock-watch.ts';
import type { Maintenance } from './maintenance/maintenance.ts';
import type {
  InstallationMetrics,
  InstallationMetricsOptions,
} from './metrics/installation-metrics.ts';
import type { MetricsListener } from './metrics/listener.ts';
import { storeOpensslTuning, tuneOpenssl } from './machine/openssl-tuning.ts';
import { configureOperatorWebhook } from '../operator/operator-webhook.ts';
import { OperatorEventLog } from '../operator/operator-event-log.ts';
import { registerHost, ownUrl } from './machine/own-host.ts';
import { SharedFiles } from './machine/privileges.ts';
import { watchHold } from '../backup/running/hold-watch.ts';
import { watchMove } from '../move/move-watch.ts';
import { watchSecretKeys } from '../secrets/secret-key-watch.ts';
import { openServiceDatabase, type ServiceDatabase } from './service-database.ts';
import { keepPointInTime } from '../backup/running/keep-point-in-time.ts';
import { systemWorld } from './machine/system-world.ts';
import { type WorkerPart, WORKER_PARTS, type WorkerSetup } from './worker/worker-messages.ts';
import { type RunningWorkers, WorkerPool } from './pool/worker-pool.ts';
import { poolSizes, type WorkerTasks } from '../database/database.ts';
import { setOperatorAddress } from '../operator/operator-mail-store.ts';
import { type Hold, readHold } from '../backup/store/hold.ts';
import { untilAborted } from '../database/server/watched-session.ts';
import { SecretBox } from '../secrets/secret-box.ts';
import { checkBeforeStart, chooseMailCertificate } from './start/checks.ts';
import { explainFailure, type ServiceFailure } from './start/failure.ts';
import { chooseConfiguredPort, choosePorts } from './start/ports.ts';
import { listenForStopSignals, StartStopped } from './start/stop-signals.ts';

export type ReadyInfo = {
  /** URL of the API, without a final slash. */
  url: string;
  /** URL for people: LETTERHAUS_PUBLIC_URL, else the URL of the API. */
  siteUrl: string;
  pid: number;
  dataDir: string;
  /** URL of metrics without a token; null when there is none. */
  metricsUrl: string | null;
  /** Ports for incoming mail; null or empty when there are none. */
  inboundPort: number | null;
  submissionPorts: readonly number[];
  database: string;
  /** Set when the database was empty. Its key and its link are shown only here. */
  firstStart: FirstStart | null;
};

export type RunOptions = {
  log: Logger;
  workers: number;
  only: readonly WorkerPart[] | null;
  onReady(info: ReadyInfo): void;
  onFailed(failure: ServiceFailure): void;
};

/**
 * Runs until a stop is requested.
 * @param forked workers that already load their code (service-entry.ts); null when they have to be forked
 * @returns the exit code
 */
export async function supervise(
  config: Config,
  options: RunOptions,
  forked: WorkerPool | null,
): Promise<number> {
  armSupervisor(config.failpoints);
  let end = await runOnDatabase(config, options, forked);
  while (end.kind === 'moved') end = await runOnDatabase(end.config, options, null);
  return end.code;
}

/** How a run on one database ends. `moved`: the database was moved, and the service continues with `config`. */
type RunEnd = { kind: 'exited'; code: number } | { kind: 'moved'; config: Config };

async function runOnDatabase(
  config: Config,
  options: RunOptions,
  forked: WorkerPool | null,
): Promise<RunEnd> {
  const { log } = options;
  const signals = listenForStopSignals();
  let pool = forked;
  signals.onSecond(() => pool?.killWorkers());
  try {
    const parts = options.only ?? WORKER_PARTS;
    checkBeforeStart(config, { servesApi: parts.includes('api'), log });
    const ports = await choosePorts(config, { takesMail: parts.includes('inbound') });
    await using started = new AsyncDisposableStack();
    const metrics = started.use(await startMetricsListener(config, () => pool?.metricsText()));
    const tasks = workerTasksOf(ports, options);
    const { signal } = signals;
    const opening = openServiceDatabase(config, { log, world: systemWorld, tasks, signal });
    opening.catch(() => {}); // awaited below
    const measured = pool === null ? await tuneOpenssl() : null;
    // Workers load their code while the database opens.
    pool ??= new WorkerPool({ count: tasks.workers, log, env: measured ?? {} });
    const database = started.use(await opening);
    if (measured !== null) {
      storeOpensslTuning(database.dataDir, { tuning: measured, checkedAtMs: null });
    }
    failpoint('supervisor_start');
    const run = { config, ports, parts, tasks, log, signal, started, pool, database };
    const installation = await prepareInstallation(run);
    const workers = await startWorkers({ ...run, ...installation });
    await startTasks({ ...run, ...installation, ...workers });
    const url = ownUrl({ ...ports, apiTlsFiles: apiFilesOf(ports) });
    database.publishAddresses({ url, adminSocket: workers.adminSocket });
    const { firstStart } = installation;
    options.onReady(createReadyInfo({ url, metrics, config: ports, database, firstStart }));
    const maintenance = await startMaintenance({ ...run, ...installation, ...workers });
    flushCompileCache(); // a killed service would otherwise compile all code again
    const move = started.use(watchMove({ db: database.db, world: systemWorld, log, pool }));
    const { failed } = workers;
    const ends = [signals.stop, move.moved, database.failed, failed, maintenance.outdated];
    const outcome = await Promise.race(ends);
    // The same ports, so that clients find it again.
    if (outcome === 'moved') return { kind: 'moved', config: ports };
    if (outcome !== 'stop') log.fatal(outcome);
    return { kind: 'exited', code: outcome === 'stop' ? 0 : 1 };
  } catch (error) {
    if (error instanceof StartStopped) return { kind: 'exited', code: 0 };
    const { trace, ...failure } = explainFailure(error);
    options.onFailed(failure);
    process.stderr.write(trace);
    return { kind: 'exited', code: failure.exitCode };
  } finally {
    pool?.killWorkers();
    signals.close();
  }
}

type Run = {
  config: Config;
  /** The configuration with the ports in use. */
  ports: Config;
  parts: readonly WorkerPart[];
  tasks: WorkerTasks;
  log: Logger;
  /**
   * Aborted when a stop is requested. A step of the start that is abandoned then fails when the database is closed.
   */
  signal: AbortSignal;
  /** Stops all parts that were started, in the reverse order. */
  started: AsyncDisposableStack;
  pool: WorkerPool;
  database: ServiceDatabase;
};

type Installation = {
  operatorEvents: OperatorEventLog;
  clock: ClockWatch;
  secrets: SecretBox;
  firstStart: FirstStart | null;
};

/** Prepares the database for this machine: its clock, its host name, the operator's addresses, the first project. */
async function prepareInstallation(run: Run): Promise<Installation> {
  const { config, log, signal, started, pool, database } = run;
  const { db } = database;
  const context = { db, world: systemWorld, log };
  const operatorEvents = started.use(new OperatorEventLog(context));
  await untilAborted(operatorEvents.logOpenConditions(), signal);
  const onCheck = (state: ClockState): void => pool.setClockState(state);
  const clock = new ClockWatch({ ...context, operatorEvents, onCheck });
  await untilAborted(clock.check(), signal);
  const secrets = new SecretBox(database.secretKey);
  await untilAborted(registerHost(database, { config, log }), signal);
  await untilAborted(setOperatorAddress(db, config.operatorAddress), signal);
  await untilAborted(configureOperatorWebhook(db, { config, secrets, log }), signal);
  const seeding = seedFirstStart(db, { secrets, world: systemWorld, config });
  return { operatorEvents, clock, secrets, firstStart: await untilAborted(seeding, signal) };
}

type StartedWorkers = {
  /** Resolves with a sentence when the workers cannot run. */
  failed: RunningWorkers['failed'];
  adminSocket: string;
  hold: Hold | null;
  certificates: readonly CertificateUse[];
  /** null: no certificate is ordered. */
  acme: AcmeWatch | null;
};

/** Sets the workers up, and waits until they serve. */
async function startWorkers(run: Run & Installation): Promise<StartedWorkers> {
  const { ports, log, signal, started, pool, database } = run;
  const { workerUser, dataDir } = database;
  const files = started.use(workerUser && new SharedFiles(workerUser, { dataDir, log }));
  const share = (pair: CertificateFiles | null) => pair && (files?.share(pair) ?? pair);
  const acme = await orderCertificates(run);
  const ordered = orderedFiles(ports);
  const config = { ...ports, apiTlsFiles: share(apiFilesOf(ports)) };
  const mailFiles = ordered.mail ?? chooseMailCertificate(ports, { dataDir, log });
  const certificate = share(mailFiles);
  const tracking = share(ordered.tracking);
  const { tracking: name } = orderedNames(ports);
  const trackingCertificate = tracking && name !== null ? { name, files: tracking } : null;
  const hold = await untilAborted(readHold(database.db), signal);
  const { path: adminSocket } = started.use(new AdminSocket(dataDir));
  const setup = createWorkerSetup({
    ...run,
    config,
    certificate,
    trackingCertificate,
    hold,
    adminSocket,
  });
  const { ready, failed } = started.use(pool.run(setup, database.expire));
  await untilAborted(ready, signal);
  const certificates = certificateUses(ports, mailFiles);
  return { failed, adminSocket, hold, certificates, acme };
}

/** @returns null when certificates are not ordered. Then no code for it is loaded. */
async function orderCertificates(run: Run & Installation): Promise<AcmeWatch | null> {
  if (run.ports.acme === null) return null;
  const { answerChallenges, orderedCertificates } = await import('./start/acme.ts');
  const acme = run.started.use(await untilAborted(orderedCertificates(run), run.signal));
  if (acme !== null) run.started.use(await answerChallenges(run));
  return acme;
}

/** The operator's certificate of the API, or the one that the service orders. */
function apiFilesOf(config: Config): CertificateFiles | null {
  return config.apiTlsFiles ?? orderedFiles(config).api;
}

/** Starts the other tasks of the supervisor: metrics, watches, backups. */
async function startTasks(run: Run & Installation & StartedWorkers): Promise<void> {
  const { config, log, started, pool, database, hold } = run;
  const { db } = database;
  started.use(await startMeasuring(pool, run));
  started.use(watchSecretKeys(run));
  started.use(watchHold(hold, { db, pool, log }));
  started.use(scheduleBackups({ ...run, db, backup: config.backup }));
  started.use(await keepPointInTime(run));
}

/** Loads the tasks of maintenance when the service is ready. They are a third of the code of this process. */
async function startMaintenance(run: Run & Installation & StartedWorkers): Promise<Maintenance> {
  const { Maintenance: Tasks } = await import('./maintenance/maintenance.ts');
  const maintenance = run.started.use(new Tasks(run));
  maintenance.start();
  return maintenance;
}

function workerTasksOf(
  { inboundPort, submissionPorts }: Config,
  { workers, only }: RunOptions,
): WorkerTasks {
  const parts = only ?? WORKER_PARTS;
  return {
    workers,
    accept: parts.includes('api') || submissionPorts.length > 0,
    settle: parts.includes('delivery'),
    webhooks: parts.includes('webhooks'),
    inbound: inboundPort !== null,
  };
}

/** Returns null when no port is configured. Listens from the start, so that a taken port ends the start. */
async function startMetricsListener(
  { metrics, hostname, publicUrl }: Config,
  text: () => Promise<string> | undefined,
): Promise<MetricsListener | null> {
  if (metrics === null) return null;
  const names = { host: 'LETTERHAUS_METRICS_PORT', port: 'LETTERHAUS_METRICS_PORT' };
  const port = await chooseConfiguredPort(metrics, names);
  // Few services use it, and node:http takes 40 ms of CPU time to load.
  const { listenForMetrics } = await import('./metrics/listener.ts');
  const own = [hostname, ...(publicUrl === null ? [] : [new URL(publicUrl).hostname])];
  return listenForMetrics({ ...metrics, port, names: own }, text);
}

/** Returns null when metrics are off. Then neither code nor figures are loaded. */
async function startMeasuring(
  pool: WorkerPool,
  options: InstallationMetricsOptions,
): Promise<InstallationMetrics | null> {
  const { metrics, metricsToken } = options.config;
  if (metrics === null && metricsToken === null) return null;
  const { InstallationMetrics: Measuring } = await import('./metrics/installation-metrics.ts');
  const measuring = new Measuring(options);
  pool.setInstallationSamples(() => measuring.samples());
  return measuring;
}

function createWorkerSetup({
  config,
  database,
  certificate,
  trackingCertificate,
  parts,
  tasks,
  hold,
  adminSocket,
}: Pick<Run, 'config' | 'database' | 'parts' | 'tasks'> &
  Pick<StartedWorkers, 'hold' | 'adminSocket'> &
  Pick<WorkerSetup, 'certificate' | 'trackingCertificate'>): WorkerSetup {
  return {
    // Workers have a log-in of their own, and make no backups.
    config: {
      ...config,
      databaseUrl: null,
      backup: { ...config.backup, passphrase: null, s3: null },
    },
    certificate,
    trackingCertificate,
    adminSocket,
    database: database.login,
    secretKey: database.secretKey,
    user: database.workerUser,
    instance: database.instance,
    parts,
    isOnHold: hold !== null,
    workerCount: tasks.workers,
    poolSizes: poolSizes(tasks),
    failpoint: null,
  };
}

function createReadyInfo(parts: {
  url: string;
  metrics: MetricsListener | null;
  config: Config;
  database: ServiceDatabase;
  firstStart: ReadyInfo['firstStart'];
}): ReadyInfo {
  const { url, metrics, config, database, firstStart } = parts;
  const { dataDir, description } = database;
  const submissionPorts = config.submissionPorts.map(({ port }) => port);
  const { inboundPort } = config;
  const siteUrl = config.publicUrl ?? url;
  const place = { url, siteUrl, pid: process.pid, dataDir, database: description };
  return { ...place, metricsUrl: metrics?.url ?? null, inboundPort, submissionPorts, firstStart };
}
