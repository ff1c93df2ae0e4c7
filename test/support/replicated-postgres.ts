/**
 * Two real PostgreSQL servers with streaming replication, a primary and its hot standby, on loopback, from the
 * embedded engine's programs:
 *
 *     await using pair = await startReplicatedPair({ synchronous: true });
 *     await pair.primary.kill9();
 *     await pair.promoteStandby();
 *
 * The standby starts as a copy of the cluster from before its first start, because `pg_basebackup` is not included,
 * and streams everything since.
 */
import { randomInt } from 'node:crypto';
import { chmodSync, cpSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type pg from 'pg';
import {
  DEFAULT_SEARCH,
  type EngineSource,
  findEngine,
  installEngine,
} from '../../src/database/embedded/binaries.ts';
import { withClient } from '../../src/database/embedded/postmaster.ts';
import { ensureCluster, SUPERUSER, writeConfig } from '../../src/database/embedded/cluster.ts';
import { changeOwnerOfTree } from '../../src/database/embedded/folders.ts';
import { type Layout, prepareDataDir, prepareLayout } from '../../src/database/embedded/layout.ts';
import {
  commandLine,
  launchServer,
  type Postmaster,
  stopPostmaster,
} from '../../src/database/embedded/postmaster.ts';
import { childrenOf } from './processes.ts';
import { waitFor } from './wait.ts';

export type ReplicatedPair = AsyncDisposable & {
  primary: ReplicatedServer;
  standby: ReplicatedServer;
  /** URL of the superuser's database on both hosts, for DATABASE_URL. */
  url: string;
  /** Stops replication of later commits, like a network failure between the servers. */
  cutReplication(): Promise<void>;
  /** Ends the failure: the standby receives what it lacks, and the commits that wait for it end. */
  resumeReplication(): void;
  /** Promotes the standby. Resolves once it accepts writes. */
  promoteStandby(): Promise<void>;
};

const SIZING = { connections: 100, memoryBytes: 1024 ** 3, diskBytes: 25 * 1024 ** 3 };
const CLOCK = { monotonicMs: () => performance.now() };
const ACCESS = `\
local all all trust
host all all 127.0.0.1/32 trust
host replication all 127.0.0.1/32 trust
`;

/** @param options.synchronous a commit waits until the standby has it on its disk */
export async function startReplicatedPair(options: {
  synchronous: boolean;
}): Promise<ReplicatedPair> {
  await using stack = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), 'letterhaus-test-'));
  chmodSync(folder, 0o711); // root's database runs as another user, who needs access
  stack.defer(() => rmSync(folder, { recursive: true }));
  const source = findEngine(DEFAULT_SEARCH, null);
  const primary = await ReplicatedServer.prepare(join(folder, 'primary'), source);
  const standby = await ReplicatedServer.prepare(join(folder, 'standby'), source);
  standby.becomeCopyOf(primary);

  await primary.start([]);
  stack.defer(() => primary.kill9());
  await primary.query(`create database ${SUPERUSER}`, 'postgres');
  const conninfo = `host=127.0.0.1 port=${primary.port} user=${SUPERUSER}`;
  await standby.start([`primary_conninfo=${conninfo} application_name=standby`]);
  stack.defer(() => standby.kill9());
  const isStreaming = `select from pg_stat_replication where state = 'streaming'`;
  await waitFor(async () => (await primary.query(isStreaming)).length === 1, {
    what: 'replication',
  });
  if (options.synchronous) {
    await primary.query(`alter system set synchronous_standby_names = 'standby'`);
    await primary.query('select pg_reload_conf()');
    const state = `select from pg_stat_replication where sync_state = 'sync'`;
    await waitFor(async () => (await primary.query(state)).length === 1, {
      what: 'a sync standby',
    });
  }
  const hosts = [primary, standby].map(({ port }) => `127.0.0.1:${port}`).join(',');
  const things = stack.move();
  let senderPid = NaN;
  return {
    primary,
    standby,
    url: `postgres://${SUPERUSER}@${hosts}/${SUPERUSER}`,
    async cutReplication() {
      const [sender] = await primary.query('select pid from pg_stat_replication');
      senderPid = sender!['pid'] as number;
      process.kill(senderPid, 'SIGSTOP');
    },
    resumeReplication() {
      process.kill(senderPid, 'SIGCONT');
    },
    async promoteStandby() {
      await standby.query('select pg_promote(wait => true, wait_seconds => 60)');
    },
    [Symbol.asyncDispose]: () => things.disposeAsync(),
  };
}

export class ReplicatedServer {
  readonly port: number;
  readonly #layout: Layout;
  readonly #source: EngineSource;
  #program = '';
  #postmaster: Postmaster | null = null;

  private constructor(layout: Layout, source: EngineSource, port: number) {
    this.#layout = layout;
    this.#source = source;
    this.port = port;
  }

  /** Prepares a cluster without starting it. */
  static async prepare(folder: string, source: EngineSource): Promise<ReplicatedServer> {
    const layout = prepareLayout(prepareDataDir(folder), folder, () => {});
    const server = new ReplicatedServer(layout, source, await freePort());
    const binDir = await installEngine(source, layout.databaseDir);
    server.#program = join(binDir, 'postgres');
    await ensureCluster(layout, binDir);
    return server;
  }

  /** Copies the other's cluster, which has not been started, to become its standby. */
  becomeCopyOf(other: ReplicatedServer): void {
    const { pgDir, owner } = this.#layout;
    rmSync(pgDir, { recursive: true });
    cpSync(other.#layout.pgDir, pgDir, { recursive: true });
    writeFileSync(join(pgDir, 'standby.signal'), '');
    if (owner) changeOwnerOfTree(pgDir, owner);
  }

  async start(settings: readonly string[]): Promise<void> {
    const layout = this.#layout;
    const config = writeConfig(layout.databaseDir, SIZING);
    writeFileSync(config.hbaFile, ACCESS);
    const { args, stamp } = commandLine(layout, this.#source.version, config);
    const replicating = [
      'listen_addresses=127.0.0.1',
      `port=${this.port}`,
      'wal_level=replica',
      // Not less than initdb's setting: a standby would not start.
      'max_wal_senders=10',
      'wal_keep_size=1GB',
      'wal_retrieve_retry_interval=100ms',
      ...settings,
    ];
    const launched = await launchServer({
      layout,
      stamp,
      program: this.#program,
      args: [...args, ...replicating.flatMap((setting) => ['-c', setting])],
      log: () => {},
      clock: CLOCK,
      stalePidWaitMs: 0,
      signal: new AbortController().signal,
    });
    if ('failed' in launched) throw new Error(launched.failed);
    this.#postmaster = launched.postmaster;
  }

  address(database = SUPERUSER): pg.ClientConfig {
    return { host: '127.0.0.1', port: this.port, user: SUPERUSER, database, ssl: false };
  }

  query(text: string, database?: string): Promise<Record<string, unknown>[]> {
    return withClient(this.address(database ?? 'postgres'), async (client) => {
      return (await client.query<Record<string, unknown>>(text)).rows;
    });
  }

  /** Kills all processes at once, like a power failure. */
  async kill9(): Promise<void> {
    const postmaster = this.#postmaster;
    if (postmaster === null || postmaster.hasEnded()) return;
    process.kill(postmaster.pid, 'SIGSTOP');
    for (const child of await childrenOf(postmaster.pid)) killNow(child);
    killNow(postmaster.pid);
    await waitFor(() => postmaster.hasEnded(), { what: 'the server to be gone' });
  }

  async stop(): Promise<void> {
    if (this.#postmaster !== null) await stopPostmaster(this.#postmaster, 'fast', CLOCK);
  }
}

function killNow(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It ended between the two checks.
  }
}

/** Not a port of the range for outgoing connections: another test could get it before the server listens. */
async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(20_000, 30_000);
    const server = createServer().listen(port, '127.0.0.1');
    const isFree = await new Promise<boolean>((resolve) => {
      server.once('listening', () => resolve(true)).once('error', () => resolve(false));
    });
    if (!isFree) continue;
    await new Promise((resolve) => server.close(resolve));
    return port;
  }
}
