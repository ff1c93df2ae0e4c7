/**
 * Gauges of this machine and its installation: queue, database, disk, domains, webhooks, certificates, workers,
 * version. The supervisor reads them once for all workers.
 *
 * A scrape reads nothing, so it never waits for a frozen database. Figures from the database are read every 5 s. Where
 * reading takes long, it takes at most a twentieth of the time, up to once a minute. `letterhaus_figures_age_seconds`
 * is the age of the figures.
 */
import { readFile, statfs } from 'node:fs/promises';
import type { Logger } from 'pino';
import type { Config } from '../../config/config.ts';
import { databaseFigures, domainFigures, webhookFigures } from './installation-store.ts';
import { countReported } from '../../doctor/report-store.ts';
import { countConditions } from '../../operator/condition-store.ts';
import { readQueueDepth } from '../../delivery/queue-control/depth-store.ts';
import { listAlerts } from '../../reputation/reputation-store.ts';
import { readReconciliation } from '../../reconciliation/day-store.ts';
import { countUnusable } from '../../secrets/unusable-store.ts';
import type { CertificateUse } from '../machine/certificate-watch.ts';
import { readChain } from '../../net/tls/chain.ts';
import { endOfChain, lifeMsOf } from '../machine/certificates.ts';
import {
  type Disk,
  diskSamples,
  doctorDailySample,
  type Expiry,
  expirySamples,
  type Figures,
  figureSamples,
  processSamples,
  readingSamples,
  type Sample,
} from './installation-samples.ts';
import { ProviderLabels } from './provider-label.ts';
import type { ServiceDatabase } from '../service-database.ts';
import { systemWorld } from '../machine/system-world.ts';

const READ_EVERY_MS = 5_000;
const READ_EVERY_MAX_MS = 60_000;
const READ_SHARE = 0.05;
/**
 * Time after which a reading without an answer means that the database is down. A busy one counts again when it
 * answers.
 */
const SILENT_MAX_MS = 10_000;
const ALERTS_SHOWN = 100;

export type InstallationMetricsOptions = {
  database: Pick<ServiceDatabase, 'db' | 'dataDir' | 'readFreeDiskBytes'>;
  config: Pick<
    Config,
    'shaping' | 'databaseBytesMax' | 'isDoctorDaily' | 'metrics' | 'metricsToken'
  >;
  certificates: readonly CertificateUse[];
  log: Pick<Logger, 'debug'>;
};

export class InstallationMetrics implements Disposable {
  readonly #options: InstallationMetricsOptions;
  readonly #labels: ProviderLabels;
  readonly #startedMs = systemWorld.now();
  #figures: Figures | null = null;
  #disks: Disk[] = [];
  #expiries: Expiry[] = [];
  /** End of the last complete reading, on the monotonic clock. */
  #readAtMs: number | null = null;
  #beganMs = 0;
  #hasFailed = false;
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;

  constructor(options: InstallationMetricsOptions) {
    this.#options = options;
    this.#labels = new ProviderLabels(options.config.shaping);
    this.#readRegularly();
  }

  [Symbol.dispose](): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }

  #readRegularly(): void {
    this.#beganMs = systemWorld.monotonicMs();
    void this.#read().finally(() => {
      if (this.#isStopped) return;
      const tookMs = systemWorld.monotonicMs() - this.#beganMs;
      // A failure took as long as its timeout, and says nothing about the next reading.
      const shareMs = this.#hasFailed ? 0 : Math.min(READ_EVERY_MAX_MS, tookMs / READ_SHARE);
      const waitMs = Math.max(READ_EVERY_MS, shareMs);
      this.#timer = setTimeout(() => this.#readRegularly(), waitMs).unref();
    });
  }

  async #read(): Promise<void> {
    const { log } = this.#options;
    await this.#readCertificates();
    // The database is asked for its folder only once.
    await this.#readDisks();
    try {
      this.#figures = await this.#readDatabase();
      this.#readAtMs = systemWorld.monotonicMs();
      this.#hasFailed = false;
    } catch (error) {
      this.#hasFailed = true;
      log.debug({ err: error }, 'this node could not read its figures for metrics; it tries again');
    }
  }

  async #readDisks(): Promise<void> {
    const { dataDir, readFreeDiskBytes } = this.#options.database;
    const disks: Disk[] = [];
    const data = await statfs(dataDir).catch(() => null);
    if (data !== null) {
      const { bavail, blocks, bsize } = data;
      disks.push({ of: 'data', freeBytes: bavail * bsize, sizeBytes: blocks * bsize });
    }
    const free = await readFreeDiskBytes().catch(() => null);
    if (free !== null) disks.push({ of: 'database', freeBytes: free, sizeBytes: null });
    this.#disks = disks;
  }

  async #readCertificates(): Promise<void> {
    const expiries: Expiry[] = [];
    for (const { of, files } of this.#options.certificates) {
      const pem = await readFile(files.cert, 'utf8').catch(() => null);
      const validity = pem === null ? null : validityOf(pem);
      if (validity !== null) expiries.push({ of, ...validity });
    }
    this.#expiries = expiries;
  }

  /** Reads one figure after the other, so that one connection is in use at a time. */
  async #readDatabase(): Promise<Figures> {
    const { db } = this.#options.database;
    const queue = await readQueueDepth(db, this.#labels.names);
    const database = await databaseFigures(db);
    const domains = await domainFigures(db);
    const webhooks = await webhookFigures(db);
    const alerts = await listAlerts(db, { projectId: null, limit: ALERTS_SHOWN });
    const conditions = await countConditions(db);
    const secrets = await countUnusable(db);
    const reconciliation = await readReconciliation(db);
    const doctor = await countReported(db);
    const mail = { queue, domains, webhooks, alerts, reconciliation };
    return { ...mail, database, conditions, secrets, doctor };
  }

  samples(): Sample[] {
    const nowMs = systemWorld.monotonicMs();
    const { databaseBytesMax, isDoctorDaily } = this.#options.config;
    return [
      ...processSamples({ startedMs: this.#startedMs, figures: this.#figures }),
      ...readingSamples({
        isUp: this.#isDatabaseUp(nowMs),
        ageS: this.#readAtMs === null ? null : (nowMs - this.#readAtMs) / 1_000,
      }),
      doctorDailySample(isDoctorDaily),
      ...diskSamples(this.#disks),
      ...expirySamples(this.#expiries),
      ...(this.#figures === null ? [] : figureSamples(this.#figures, { databaseBytesMax })),
    ].filter((one) => one !== null);
  }

  #isDatabaseUp(nowMs: number): boolean {
    if (this.#readAtMs === null || this.#hasFailed) return false;
    const isReading = this.#readAtMs < this.#beganMs;
    return !isReading || nowMs - this.#beganMs < SILENT_MAX_MS;
  }
}

function validityOf(pem: string): Omit<Expiry, 'of'> | null {
  try {
    const chain = readChain(pem);
    return { atMs: endOfChain(chain).getTime(), lifeMs: lifeMsOf(chain) };
  } catch {
    return null;
  }
}
