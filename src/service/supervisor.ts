/**
 * The service on one machine: a supervisor and its workers.
 *
 * The supervisor opens and migrates the database, and starts N workers that each do everything. It restarts a dead
 * worker and releases its work at once, reclaims the work of expired nodes, creates partitions, and stops everything in
 * order. It has no mail in memory, so nothing is lost when it dies: its workers end with it.
 */
import { flushCompileCache } from 'node:module';
import { availableParallelism } from 'node:os';
import type { Logger } from 'pino';
import type { Config } from '../config/config.ts';
import { failpoint } from '../lib/failpoint.ts';
import { choosePort, portTurns } from '../net/choose-port.ts';
import { sharedAddresses } from '../net/ip-addresses.ts';
import {
  API_VARIABLES,
  type CertificateFiles,
  keepOwnCertificate,
  problemOf,
} from './machine/certificates.ts';
import { certificateUses } from './machine/certificate-watch.ts';
import { AdminSocket } from './admin-socket.ts';
import { scheduleBackups } from '../backup/running/backup-schedule.ts';
import { armSupervisor } from './machine/failpoints.ts';
import { type FirstStart, seedFirstStart } from './first-start.ts';
import { type ClockState, ClockWatch } from './readiness/clock-watch.ts';
import { createLog, errorText, logUncaught } from './machine/log.ts';
import { Maintenance } from './maintenance/maintenance.ts';
import type {
  InstallationMetrics,
  InstallationMetricsOptions,
} from './metrics/installation-metrics.ts';
import type { MetricsListener } from './metrics/listener.ts';
import { tuneOpenssl } from './machine/openssl-tuning.ts';
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
import { WorkerPool, WorkersCannotRun } from './worker/worker-pool.ts';
import { isServerUnsuitable } from '../database/server/connect.ts';
import { DatabaseUnavailable, poolSizes, type WorkerTasks } from '../database/database.ts';
import { alreadyRunning, readRunning } from '../database/embedded/lock.ts';
import { EngineProblem } from '../database/embedded/problem.ts';
import { RefusedDatabase } from '../database/server/refused-database.ts';
import { setOperatorAddress } from '../operator/operator-mail-store.ts';
import { type Hold, readHold } from '../backup/store/hold.ts';
import { untilAborted } from '../database/server/watched-session.ts';
import { SecretBox } from '../secrets/secret-box.ts';
import { SecretKeyProblem } from '../secrets/secret-key-file.ts';

export type ReadyInfo = {
  /** URL of the API, without a final slash. */
  url: string;
  /** URL for people: LETTERHAUS_PUBLIC_URL, else that of the API. */
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

type RunOptions = {
  /** Number of workers; null: one per core. */
  workers: number | null;
  only: readonly WorkerPart[] | null;
  onReady(info: ReadyInfo): void;
  onFailed(failure: ServiceFailure): void;
};

/** Why the service cannot start, or had to end. Exit code 2: the configuration has to be changed. */
type ServiceFailure = { failed: string; code: string; exitCode: 1 | 2 };

/** A mistake in the configuration that ends the start with exit code 2. */
class ConfigurationProblem extends Error {}

/** A stop was requested before the service was ready. */
class StartStopped extends Error {}

/** Runs until a stop is requested. @returns the exit code */
export async function runService(config: Config, options: RunOptions): Promise<number> {
  logUncaught();
  armSupervisor(config.failpoints);
  let end: number | Config = config;
  while (typeof end !== 'number') end = await runOnDatabase(end, options);
  return end;
}

/** @returns the exit code; after a move, the configuration with which the service continues */
async function runOnDatabase(config: Config, options: RunOptions): Promise<number | Config> {
  const log = createLog({ level: config.logLevel, forPeople: process.stderr.isTTY });
  const signals = listenForStopSignals();
  const { signal } = signals;
  let pool: WorkerPool | undefined;
  signals.onSecond(() => pool?.killWorkers());
  // A step that is abandoned here fails when the database is closed.
  const unlessStopped = <Result>(step: Promise<Result>) => untilAborted(step, signal);
  try {
    checkBeforeStart(config, options, log);
    const ports = await choosePorts(config, options);
    await using metrics = await startMetricsListener(config, () => pool?.metricsText());
    const tasks = workerTasksOf(ports, options);
    const opening = openServiceDatabase(config, { log, world: systemWorld, tasks, signal });
    opening.catch(() => {}); // awaited below
    // Workers load their code while the database opens.
    pool = new WorkerPool({ count: tasks.workers, log, env: await tuneOpenssl() });
    await using database = await opening;
    failpoint('supervisor_start');
    const context = { db: database.db, world: systemWorld, log };
    await using operatorEvents = new OperatorEventLog(context);
    await unlessStopped(operatorEvents.logOpenConditions());
    const onLook = (state: ClockState) => pool?.setClockState(state);
    const clock = new ClockWatch({ ...context, operatorEvents, onCheck: onLook });
    await unlessStopped(clock.check());
    const secrets = new SecretBox(database.secretKey);
    await unlessStopped(registerHost(database, { config, log }));
    await unlessStopped(keepOperatorNotified(database.db, { config, secrets, log }));
    const firstStart = await unlessStopped(
      seedFirstStart(database.db, { secrets, world: systemWorld, config }),
    );
    using files = createSharedFiles(database, log);
    const share = (pair: CertificateFiles | null) => pair && (files?.share(pair) ?? pair);
    const readable = { ...ports, apiTlsFiles: share(ports.apiTlsFiles) };
    const mailFiles = chooseCertificate(ports, { dataDir: database.dataDir, log });
    const certificate = share(mailFiles);
    const hold = await unlessStopped(readHold(database.db));
    using admin = new AdminSocket(database.dataDir);
    const setupParts = { options, database, certificate, tasks, hold, adminSocket: admin.path };
    const setup = createWorkerSetup({ config: readable, ...setupParts });
    await using workers = pool.run(setup, database.expire);
    await unlessStopped(workers.ready);
    const running = { database, pool, config, secrets, log, operatorEvents };
    const certificates = certificateUses(ports, mailFiles);
    using _figures = await startMeasuring(pool, { ...running, certificates });
    await using maintenance = new Maintenance({ ...running, clock, certificates });
    maintenance.start();
    using _keys = watchSecretKeys(running);
    using _hold = watchHold(hold, { db: database.db, pool, log });
    await using _backups = scheduleBackups({ ...context, ...running, backup: config.backup });
    await using _archive = await keepPointInTime(running);
    const url = ownUrl(ports);
    database.publishAddresses({ url, adminSocket: admin.path });
    options.onReady(createReadyInfo({ url, metrics, config: ports, database, firstStart }));
    flushCompileCache(); // a killed service would otherwise compile all code again
    using move = watchMove({ ...context, pool });
    const ends = [signals.stop, move.moved, database.failed, workers.failed, maintenance.outdated];
    const outcome = await Promise.race(ends);
    if (outcome === 'moved') return ports; // the same ports, so that clients find it again
    if (outcome !== 'stop') log.fatal(outcome);
    return outcome === 'stop' ? 0 : 1;
  } catch (error) {
    if (error instanceof StartStopped) return 0;
    const { trace, ...failure } = explainFailure(error);
    options.onFailed(failure);
    process.stderr.write(trace);
    return failure.exitCode;
  } finally {
    pool?.killWorkers();
    signals.close();
  }
}

async function keepOperatorNotified(
  db: ServiceDatabase['db'],
  options: Parameters<typeof configureOperatorWebhook>[1] & {
    config: Pick<Config, 'operatorAddress'>;
  },
): Promise<void> {
  await setOperatorAddress(db, options.config.operatorAddress);
  await configureOperatorWebhook(db, options);
}

function workerTasksOf({ inboundPort, submissionPorts }: Config, options: RunOptions): WorkerTasks {
  const parts = options.only ?? WORKER_PARTS;
  return {
    workers: options.workers ?? availableParallelism(),
    accepts: parts.includes('api') || submissionPorts.length > 0,
    delivers: parts.includes('delivery'),
    notifies: parts.includes('webhooks'),
    receives: inboundPort !== null,
  };
}

function checkBeforeStart(config: Config, { only }: RunOptions, log: Logger): void {
  requireUsableName(config);
  requireUsableCertificate(config);
  if ((only ?? WORKER_PARTS).includes('api')) warnAboutClearText(config, log);
}

/** Receivers refuse mail from a host name that is not fully qualified. */
function requireUsableName(config: Config): void {
  if (config.allowPrivateNetworks || config.relay !== null || !config.isHostnameConfigured) return;
  if (config.hostname.includes('.')) return;
  throw new ConfigurationProblem(
    `LETTERHAUS_HOSTNAME: ${config.hostname} is not fully qualified. ` +
      'Write the name that the PTR record of this machine has, for example mail.example.org.',
  );
}

function requireUsableCertificate({ apiTlsFiles }: Config): void {
  if (apiTlsFiles === null) return;
  const problem = problemOf(apiTlsFiles, systemWorld.now(), API_VARIABLES);
  if (problem !== null) throw new ConfigurationProblem(problem);
}

/** Warns that API keys would pass networks in clear text. */
function warnAboutClearText({ host, apiTlsFiles, trustedProxies }: Config, log: Logger): void {
  const isLocal = host === 'localhost' || sharedAddresses([])(host);
  if (isLocal || apiTlsFiles !== null || trustedProxies.length > 0) return;
  log.warn(
    { host },
    'the API is served in clear text to other machines, API keys included; ' +
      'set HOST=127.0.0.1 behind a TLS proxy, or LETTERHAUS_API_TLS_CERT and LETTERHAUS_API_TLS_KEY ' +
      '(docs/tls.md); a proxy on another machine belongs in LETTERHAUS_TRUSTED_PROXIES',
  );
}

/** Chooses the port before the database is opened. The service of this data directory may already run and have it. */
async function choosePortOfApi(config: Config): Promise<number> {
  const chosen = await choosePort(config, portOrder);
  if ('port' in chosen) return chosen.port;
  const holder = readRunning(config.dataDir);
  if (holder?.kind === 'service') throw alreadyRunning(config.dataDir, holder);
  throw new ConfigurationProblem(chosen.problem);
}

const portOrder = portTurns(process.pid);

async function choosePorts(config: Config, options: RunOptions): Promise<Config> {
  const port = await choosePortOfApi(config);
  const takesMail = (options.only ?? WORKER_PARTS).includes('inbound');
  if (!takesMail) return { ...config, port, inboundPort: null, submissionPorts: [] };
  const inboundPort =
    config.inboundPort === null
      ? null
      : await chooseMailPort(config, config.inboundPort, 'LETTERHAUS_INBOUND_PORT');
  const submissionPorts = [];
  for (const configured of config.submissionPorts) {
    const chosen = await chooseMailPort(config, configured.port, 'LETTERHAUS_SUBMISSION_PORTS');
    submissionPorts.push({ ...configured, port: chosen });
  }
  return { ...config, port, inboundPort, submissionPorts };
}

async function chooseMailPort({ smtpHost }: Config, port: number, name: string): Promise<number> {
  const names = { host: 'LETTERHAUS_SMTP_HOST', port: name };
  const chosen = await choosePort(
    { host: smtpHost, port, isPortConfigured: true, names },
    portOrder,
  );
  if ('port' in chosen) return chosen.port;
  throw new ConfigurationProblem(chosen.problem);
}

/** Returns null when no port is configured. Listens from the start, so that a taken port ends the start. */
async function startMetricsListener(
  { metrics, hostname, publicUrl }: Config,
  text: () => Promise<string> | undefined,
): Promise<MetricsListener | null> {
  if (metrics === null) return null;
  const names = { host: 'LETTERHAUS_METRICS_PORT', port: 'LETTERHAUS_METRICS_PORT' };
  const chosen = await choosePort({ ...metrics, isPortConfigured: true, names }, portOrder);
  if ('problem' in chosen) throw new ConfigurationProblem(chosen.problem);
  // Few services use it, and node:http takes 40 ms of CPU time to load.
  const { listenForMetrics } = await import('./metrics/listener.ts');
  const own = [hostname, ...(publicUrl === null ? [] : [new URL(publicUrl).hostname])];
  return listenForMetrics({ ...metrics, ...chosen, names: own }, text);
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

function chooseCertificate(
  { inboundPort, submissionPorts, tlsFiles, hostname }: Config,
  { dataDir, log }: { dataDir: string; log: Logger },
): CertificateFiles | null {
  if (inboundPort === null && submissionPorts.length === 0) return null;
  if (tlsFiles === null)
    return keepOwnCertificate({ dataDir, hostname }, { world: systemWorld, log });
  const problem = problemOf(tlsFiles, systemWorld.now());
  if (problem === null) return tlsFiles;
  throw new ConfigurationProblem(problem);
}

function createSharedFiles(
  { workerUser, dataDir }: ServiceDatabase,
  log: Logger,
): SharedFiles | null {
  return workerUser && new SharedFiles(workerUser, { dataDir, log });
}

function createWorkerSetup(parts: {
  config: Config;
  options: RunOptions;
  database: ServiceDatabase;
  certificate: CertificateFiles | null;
  tasks: WorkerTasks;
  hold: Hold | null;
  adminSocket: string;
}): WorkerSetup {
  const { config, options, database, certificate, tasks, hold, adminSocket } = parts;
  return {
    // Workers have a log-in of their own, and make no backups.
    config: {
      ...config,
      databaseUrl: null,
      backup: { ...config.backup, passphrase: null, s3: null },
    },
    certificate,
    adminSocket,
    database: database.login,
    secretKey: database.secretKey,
    user: database.workerUser,
    instance: database.instance,
    parts: options.only ?? WORKER_PARTS,
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

const CHECK_DATABASE =
  '. Check that it is running and that DATABASE_URL is right, then start again.';

function explainFailure(error: unknown): ServiceFailure & { trace: string } {
  const message = error instanceof Error ? error.message : String(error);
  const isForOperator =
    error instanceof ConfigurationProblem ||
    error instanceof EngineProblem ||
    error instanceof SecretKeyProblem;
  const isOfDatabase = error instanceof RefusedDatabase || isServerUnsuitable(error);
  if (isForOperator || isOfDatabase) {
    return { failed: message, code: 'usage_error', exitCode: 2, trace: '' };
  }
  // The trace is for bugs, not for an unavailable database.
  if (error instanceof DatabaseUnavailable) {
    const failed = message + CHECK_DATABASE;
    return { failed, code: 'service_unavailable', exitCode: 1, trace: '' };
  }
  const isReported = error instanceof WorkersCannotRun || !(error instanceof Error);
  const trace = isReported ? '' : `${errorText(error)}\n`;
  return { failed: message, code: 'internal_error', exitCode: 1, trace };
}

const SAME_SIGNAL_MS = 1_000;

type StopSignals = {
  stop: Promise<'stop'>;
  signal: AbortSignal;
  /** Calls `listener` for a signal that comes a second or more after the first. */
  onSecond(listener: () => void): void;
  close(): void;
};

/**
 * A Ctrl-C reaches the service twice, from the terminal and from npm. The first signal drains. Only a signal at least
 * one second later stops immediately.
 */
function listenForStopSignals(): StopSignals {
  const { promise, resolve } = Promise.withResolvers<'stop'>();
  const aborting = new AbortController();
  let firstMs: number | null = null;
  let onLater: () => void = () => {};
  const receive = (): void => {
    const nowMs = performance.now();
    firstMs ??= nowMs;
    resolve('stop');
    aborting.abort(new StartStopped());
    if (nowMs - firstMs >= SAME_SIGNAL_MS) onLater();
  };
  const names = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  for (const name of names) process.on(name, receive);
  return {
    stop: promise,
    signal: aborting.signal,
    onSecond: (listener) => (onLater = listener),
    close: () => names.forEach((name) => process.off(name, receive)),
  };
}
