/**
 * A real Letterhaus, spawned as `letterhaus start --json`, with a data directory of its own:
 *
 *   await using service = await startService();
 *   const id = await service.send({ to: 'delivered@simulator.test' });
 *   await service.waitForStatus(id, 'delivered');
 *
 * Tests talk to it as clients do: HTTP, the command line, kill. What no client could do (moving the
 * clock, looking into tables) goes through `clock` and `sql`. When the test ends, its processes and
 * files are gone.
 */
import assert from 'node:assert/strict';
import { readFileSync, rmSync } from 'node:fs';
import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import type { DatabaseAddress } from '../../src/database/database.ts';
import { listAllProjects } from '../../src/accounts/projects/project-store.ts';
import { ApiClient, type Answer, createFullKey, declareVerified } from './api-client.ts';
import { killLeftover } from './embedded.ts';
import type { FakeDns, FakeRecordType } from './fake-dns.ts';
import { asOwner, migratedDatabase, type TestDatabase } from './postgres.ts';
import { workersOf } from './processes.ts';
import { cleanEnv, letterhaus, letterhausHere, type CommandEnd, type Env } from './letterhaus.ts';
import { ServiceProcess, type ReadyLine } from './service-process.ts';
import { eventually, waitFor } from './wait.ts';

export type { Answer, RequestOptions } from './api-client.ts';

export type ServiceOptions = {
  /** Besides what the harness sets; `undefined` unsets. */
  env?: Env;
  /** After `start --json`; one worker unless `--workers` is among them. */
  args?: readonly string[];
  /** To start on what an earlier service has left; it is then not removed. */
  dataDir?: string;
  /** A file for what it writes to stderr, besides `logs`. */
  logFile?: string;
  /** bin/letterhaus of another version, for the benchmark. */
  launcher?: string;
  /** Answers every look-up of the service; without it there is no DNS at all. */
  dns?: FakeDns;
  /**
   * `shared` (default): a fresh database on the engine of the test run, ready sooner. `own`: the
   * embedded engine in the service's data directory, as an operator has it (DATABASE_URL is then
   * not heeded). A given one is used and left alone: `url` by the service, `address` by `sql`.
   */
  database?: 'shared' | 'own' | GivenDatabase;
};

export type GivenDatabase = Pick<TestDatabase, 'address' | 'url' | 'setReachable'> &
  Partial<Pick<TestDatabase, 'sql'>>;

type Duration = { hours?: number; minutes?: number; seconds?: number };

/** Some figures are read every few seconds, on a machine that may be busy. */
const WRITTEN_WITHIN_MS = 60_000;
const METRICS_TOKEN = 'token-of-the-metrics';

/**
 * As on the machine: OpenSSL changes nothing, and a start does not measure its alternatives, which
 * takes a fifth of its CPU time (src/service/machine/openssl-tuning.ts has tests of its own).
 */
const AS_IT_IS = ':~0x0';

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
  /** Of the project that the first start makes. */
  testKey = '';
  readonly dataDir: string;
  /** For the command line on the same data; set PORT in it to restart elsewhere. */
  readonly env: Env;
  readonly #options: ServiceOptions;
  readonly #database: OwnedDatabase | null;
  /** What it printed when it was started last. */
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
      OPENSSL_ia32cap: AS_IT_IS,
      DATABASE_URL: database?.url,
      ...options.env,
    });
  }

  get pid(): number {
    return this.#process?.pid ?? 0;
  }

  /** What it has written to stderr since it was started last. */
  get logs(): string {
    return this.#process?.logs ?? '';
  }

  /** Neither the supervisor nor a worker of the last start is left. */
  get isSilent(): boolean {
    return this.#process?.isSilent ?? true;
  }

  /** Starts it (again), on the same data; the port may be another. */
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

  /** As a service manager stops it. @returns exit code or signal */
  stop(signal?: NodeJS.Signals): Promise<number | NodeJS.Signals> {
    assert.ok(this.#process);
    return this.#process.stop(signal);
  }

  /** As a Ctrl-C in its terminal does. @returns exit code or signal */
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

  /** A command of bin/letterhaus on the same data; in this process where that makes no difference. */
  override cli(...args: string[]): Promise<CommandEnd> {
    return letterhausHere(args, this.env);
  }

  protected override logsAbout(): string {
    return this.logs.slice(-4_000);
  }

  protected override async createLiveKey(): Promise<string> {
    const { launcher } = this.#options;
    if (launcher !== undefined) {
      // Only that version knows its tables.
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

  /** Resolves once it has written that to its log, which reaches the test after the answer of a request. */
  logged(pattern: RegExp): Promise<void> {
    return eventually(() => assert.match(this.logs, pattern), { timeoutMs: WRITTEN_WITHIN_MS });
  }

  /** What it has counted, as Prometheus gets it. */
  metrics(): Promise<Answer> {
    return this.request('GET', '/metrics', { key: METRICS_TOKEN });
  }

  /** Resolves once it has counted that: some counters are read from the database every few seconds. */
  counted(line: RegExp): Promise<void> {
    const look = async (): Promise<void> => assert.match((await this.metrics()).text, line);
    return eventually(look, { timeoutMs: WRITTEN_WITHIN_MS });
  }

  /**
   * A verified domain of the live environment. With a `dns` the records it wants are put there and
   * it is verified as by its owner; without, it is declared verified.
   * @param onlyRequired without the records that may be left out (DKIM's Ed25519 key)
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
    /** Moves the time of all SQL; timers of running processes do not move with it. */
    advance: async ({ hours = 0, minutes = 0, seconds = 0 }: Duration): Promise<void> => {
      const skewS = hours * 3600 + minutes * 60 + seconds;
      await this.sql(`update clock set skew = skew + $1 * interval '1 second'`, [skewS]);
    },
  };

  /**
   * Takes the database away, until it is given back; a worker has found it again when this returns.
   */
  async setDatabaseReachable(isReachable: boolean): Promise<void> {
    assert.ok(this.#database, 'only a database of the shared engine can be taken away');
    await this.#database.setReachable(isReachable);
    if (!isReachable) return;
    const isBack = async () => (await this.request('GET', '/v1/emails?limit=1')).status === 200;
    await waitFor(isBack, { what: 'the service to find its database', timeoutMs: 30_000 });
  }

  /** Looks into the database, as its owner. */
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

  /** Of the database, as its owner. */
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

/** Does at the DNS what the owner of the domain would. */
function publish(dns: FakeDns, records: DomainRecord[]): void {
  for (const { type, name, value, priority } of records) {
    dns.set(name, type, [priority === undefined ? value : `${priority} ${value}`]);
  }
}
