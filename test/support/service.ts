/**
 * A real Letterhaus, spawned as `letterhaus start --json`, with its own data directory:
 *
 *   await using service = await startService();
 *   const id = await service.send({ to: 'delivered@simulator.test' });
 *   await service.waitForStatus(id, 'delivered');
 *
 * Tests use it like clients: HTTP, the command line, kill. `clock` and `sql` do what no client can: move the clock
 * and read tables. When the test ends, its processes and files are removed.
 */
import assert from 'node:assert/strict';
import { readFileSync, rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import type { DatabaseAddress } from '../../src/database/database.ts';
import { listAllProjects } from '../../src/accounts/projects/project-store.ts';
import { ApiClient, type ApiResponse, createFullKey, declareVerified } from './api-client.ts';
import { killLeftover } from './embedded.ts';
import type { FakeDns, FakeRecordType } from './fake-dns.ts';
import { asOwner, migratedDatabase, type TestDatabase } from './postgres.ts';
import { workersOf } from './processes.ts';
import { cleanEnv, letterhaus, letterhausHere, type CommandEnd, type Env } from './letterhaus.ts';
import { ServiceProcess, type ReadyLine } from './service-process.ts';
import { eventually, waitFor } from './wait.ts';

export type { ApiResponse, RequestOptions } from './api-client.ts';

export type ServiceOptions = {
  /** Variables beside those of the harness; `undefined` unsets one. */
  env?: Env;
  /** Arguments after `start --json`; one worker unless `--workers` is among them. */
  args?: readonly string[];
  /** The data directory of an earlier service, which is not removed. */
  dataDir?: string;
  /** A file that gets its stderr, beside `logs`. */
  logFile?: string;
  /** bin/letterhaus of another version, for the benchmark. */
  launcher?: string;
  /** Answers the look-ups of the service; without it there is no DNS. */
  dns?: FakeDns;
  /**
   * `shared` (default): a fresh database on the engine of the test run, which is ready sooner. `own`: the embedded
   * engine in the service's data directory, as for an operator; DATABASE_URL is ignored. A given database is used
   * and not removed: `url` by the service, `address` by `sql`.
   */
  database?: 'shared' | 'own' | GivenDatabase;
};

export type GivenDatabase = Pick<TestDatabase, 'address' | 'url' | 'setReachable'> &
  Partial<Pick<TestDatabase, 'sql'>>;

type Duration = { hours?: number; minutes?: number; seconds?: number };

/** Some metrics are only updated every few seconds, and the machine may be busy. */
const LOGGED_WITHIN_MS = 60_000;
const METRICS_TOKEN = 'token-of-the-metrics';

/** Refuses connections at once. */
const NO_DNS = '127.0.0.1:9';

/** Starts a service and waits until it is ready. */
export async function startService(options: ServiceOptions = {}): Promise<Service> {
  const database = await databaseFor(options.database);
  const dataDir = options.dataDir ?? (await mkdtemp(join(tmpdir(), 'letterhaus-test-')));
  const service = new Service(options, dataDir, database);
  try {
    await service.restart();
    return service;
  } catch (error) {
    await service[Symbol.asyncDispose]();
    throw error;
  }
}

async function databaseFor(wanted: ServiceOptions['database']): Promise<OwnedDatabase | null> {
  if (wanted === 'own') return null;
  if (wanted === undefined || wanted === 'shared') return migratedDatabase();
  return { ...wanted, [Symbol.asyncDispose]: async () => {} };
}

type OwnedDatabase = GivenDatabase & AsyncDisposable;

export class Service extends ApiClient implements AsyncDisposable {
  url = '';
  /** The test key of the project that the first start adds. */
  testKey = '';
  readonly dataDir: string;
  /** Environment of the command line on the same data. Set PORT in it to restart on another port. */
  readonly env: Env;
  readonly #options: ServiceOptions;
  readonly #database: OwnedDatabase | null;
  /** The ready line of the last start. */
  readyLine!: ReadyLine;
  #process: ServiceProcess | null = null;

  constructor(options: ServiceOptions, dataDir: string, database: OwnedDatabase | null) {
    super();
    this.#options = options;
    this.#database = database;
    this.dataDir = dataDir;
    this.env = cleanEnv({
      HOST: '127.0.0.1',
      PORT: '0',
      LETTERHAUS_DATA_DIR: dataDir,
      LETTERHAUS_DNS_SERVERS: options.dns?.server ?? NO_DNS,
      LETTERHAUS_METRICS_TOKEN: METRICS_TOKEN,
      DATABASE_URL: database?.url,
      ...options.env,
    });
  }

  get pid(): number {
    return this.#process?.pid ?? 0;
  }

  /** Its stderr since the last start. */
  get logs(): string {
    return this.#process?.logs ?? '';
  }

  /** Whether supervisor and workers of the last start have ended. */
  get isSilent(): boolean {
    return this.#process?.isSilent ?? true;
  }

  /** Starts it (again) on the same data, perhaps on another port. */
  async restart(): Promise<void> {
    if (this.#process?.isRunning) await this.stop();
    const { args = [], launcher, logFile } = this.#options;
    const workers = args.includes('--workers') ? [] : ['--workers', '1'];
    this.#process = new ServiceProcess([...workers, ...args], this.env, { launcher, logFile });
    this.readyLine = await this.#process.ready();
    this.url = this.readyLine.url;
    this.testKey = this.readyLine.test_key ?? this.testKey;
  }

  /** Resolves when it has ended. @returns exit code or signal */
  ended(): Promise<number | NodeJS.Signals> {
    assert.ok(this.#process);
    return this.#process.ended;
  }

  /** Stops it like a service manager. @returns exit code or signal */
  stop(signal?: NodeJS.Signals): Promise<number | NodeJS.Signals> {
    assert.ok(this.#process);
    return this.#process.stop(signal);
  }

  /** Sends SIGINT like Ctrl-C in its terminal. @returns exit code or signal */
  interrupt(): Promise<number | NodeJS.Signals> {
    assert.ok(this.#process);
    return this.#process.interrupt();
  }

  async kill9(): Promise<void> {
    await this.#process?.kill9();
  }

  workerPids(): Promise<number[]> {
    return workersOf(this.pid);
  }

  async killGroup9(): Promise<void> {
    await this.#process?.killGroup9();
  }

  /** Runs a command of bin/letterhaus on the same data; in this process if that makes no difference. */
  override cli(...args: string[]): Promise<CommandEnd> {
    return letterhausHere(args, this.env);
  }

  protected override logsAbout(): string {
    return this.logs.slice(-4_000);
  }

  protected override async createLiveKey(): Promise<string> {
    const { launcher } = this.#options;
    if (launcher !== undefined) {
      // Only that version knows its tables. `--mode` is the former name of `--environment`, which it may not know.
      const args = ['keys', 'create', '--mode', 'live', '--json'];
      const { code, stdout, stderr } = await letterhaus(args, this.env, launcher);
      assert.equal(code, 0, stderr);
      return JSON.parse(stdout).key;
    }
    return asOwner(this.address(), async (db) => {
      const [project] = await listAllProjects(db);
      assert.ok(project, 'the first start made a project');
      return createFullKey(db, { projectId: project.id, environment: 'live' });
    });
  }

  /** Waits for a log line, which may arrive after the response to its request. */
  logged(pattern: RegExp): Promise<void> {
    return eventually(() => assert.match(this.logs, pattern), { timeoutMs: LOGGED_WITHIN_MS });
  }

  /** Returns its metrics as Prometheus reads them. */
  metrics(): Promise<ApiResponse> {
    return this.request('GET', '/metrics', { key: METRICS_TOKEN });
  }

  /** Waits for a metric; some are read from the database every few seconds. */
  counted(line: RegExp): Promise<void> {
    const look = async (): Promise<void> => assert.match((await this.metrics()).text, line);
    return eventually(look, { timeoutMs: LOGGED_WITHIN_MS });
  }

  /**
   * Adds a verified domain to the live environment. With a `dns`, its records are published there and it is verified
   * like by its owner. Without one, it is marked as verified.
   * @param onlyRequired omits the optional record (DKIM's Ed25519 key)
   */
  async addLiveDomain(name: string, { onlyRequired = false } = {}): Promise<void> {
    const key = await this.liveKey();
    const added = await this.request('POST', '/v1/domains', { key, body: { name } });
    assert.equal(added.status, 201, added.text);
    const { dns } = this.#options;
    if (dns === undefined) {
      return asOwner(this.address(), (db) => declareVerified(db, added.body.id));
    }
    const records = added.body.records as DomainRecord[];
    publish(dns, onlyRequired ? records.filter((one) => one.required) : records);
    const path = `/v1/domains/${added.body.id}/verify`;
    const verified = await this.request('POST', path, { key });
    assert.equal(verified.body.status, 'verified', verified.text);
  }

  readonly clock = {
    /** Moves the time of all SQL. Timers of running processes do not move. */
    advance: async ({ hours = 0, minutes = 0, seconds = 0 }: Duration): Promise<void> => {
      const skewS = hours * 3600 + minutes * 60 + seconds;
      await this.sql(`update clock set skew = skew + $1 * interval '1 second'`, [skewS]);
    },
  };

  /** Makes the database unavailable, or available again. Then it returns when a worker has found it again. */
  async setDatabaseReachable(isReachable: boolean): Promise<void> {
    assert.ok(this.#database, 'only a database of the shared engine can be made unavailable');
    await this.#database.setReachable(isReachable);
    if (!isReachable) return;
    const isBack = async () => (await this.request('GET', '/v1/emails?limit=1')).status === 200;
    await waitFor(isBack, { what: 'the service to find its database' });
  }

  /** Runs a statement in the database, as its owner. */
  // oxlint-disable-next-line typescript/no-explicit-any
  async sql(text: string, values: unknown[] = []): Promise<any[]> {
    if (this.#database?.sql) return this.#database.sql(text, values);
    const client = new pg.Client(this.address());
    await client.connect();
    try {
      return (await client.query(text, values)).rows;
    } finally {
      await client.end();
    }
  }

  /** Returns the address of the database, for its owner. */
  address(): DatabaseAddress {
    if (this.#database !== null) return this.#database.address;
    const running = JSON.parse(readFileSync(join(this.dataDir, 'running.json'), 'utf8'));
    const { socketDir, port } = running.engine;
    return { host: socketDir, port, user: 'letterhaus', database: 'letterhaus', ssl: false };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#process?.killGroup9();
    await killLeftover(join(this.dataDir, 'pg'));
    await this.#database?.[Symbol.asyncDispose]();
    if (this.#options.dataDir === undefined) {
      rmSync(this.dataDir, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 });
    }
  }
}

type DomainRecord = {
  type: FakeRecordType;
  name: string;
  value: string;
  required: boolean;
  priority?: number;
};

/** Publishes records in the DNS, like the owner of the domain. */
function publish(dns: FakeDns, records: DomainRecord[]): void {
  for (const { type, name, value, priority } of records) {
    dns.set(name, type, [priority === undefined ? value : `${priority} ${value}`]);
  }
}
