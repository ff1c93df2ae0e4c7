/**
 * Starts the processes of a chaos run. Node `a` has an embedded database and two workers. Nodes `b` and `c` reach this
 * database through proxies, as from two other machines. Receivers accept mail and webhooks. fixtures.ts fills the
 * database before the load starts.
 */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import pg from 'pg';
import { type Service, type ServiceOptions, startService } from '../support/service.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { CA_FILE } from '../support/journey.ts';
import { waitFor } from '../support/wait.ts';
import { type Clocks, DatabaseClock, makeClocks } from './faults/clocks.ts';
import { createFixtures, type Fixtures } from './fixtures.ts';
import { type Hooks, startHooks } from './receivers/webhook-endpoints.ts';
import { ChaosNode, type NodeReport, type PointsFor } from './node.ts';
import { helloName, type Receivers, startReceivers } from './receivers/receivers.ts';

export type Stage = AsyncDisposable &
  Fixtures & {
    nodes: readonly [ChaosNode, ChaosNode, ChaosNode];
    /** Proxies between `b`, `c` and the database of `a`. */
    proxies: readonly [TcpProxy, TcpProxy];
    receivers: Receivers;
    hooks: Hooks;
    clocks: Clocks;
    databaseClock: DatabaseClock;
    /** Ids of the events from before the endpoints were created. */
    earlierEvents: ReadonlySet<string>;
    /** Folder of the database's cluster. */
    pgDir: string;
    /** Returns the process id of the postmaster; null while there is none. */
    databasePid(): number | null;
    /** Runs a query as the owner of the database, and waits until the database responds. */
    // oxlint-disable-next-line typescript/no-explicit-any
    sql(text: string, values?: unknown[]): Promise<any[]>;
    /** Returns a new connection to the database, or throws at once. The caller ends it. */
    connect(): Promise<pg.Client>;
  };

export const NODES = ['a', 'b', 'c'] as const;

const DATABASE_BACK_WITHIN_MS = 60_000;
/** Timeout in seconds, so short that a silent mail server costs little time. */
const SMTP_TIMEOUT_S = '4';

export async function openStage(report: NodeReport, pointsFor: PointsFor): Promise<Stage> {
  await using stack = new AsyncDisposableStack();
  const receivers = stack.use(await startReceivers());
  const hooks = stack.use(await startHooks());
  const clocks = stack.use(makeClocks());
  const start = async (name: string, workers: number, database: Database): Promise<ChaosNode> => {
    const service = stack.use(
      await startService({
        dns: receivers.dns,
        database,
        args: ['--workers', String(workers)],
        env: {
          LETTERHAUS_MX_PORT: String(receivers.port),
          LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1',
          LETTERHAUS_HOSTNAME: helloName(name),
          LETTERHAUS_SECRET_KEY: 'c'.repeat(64),
          LETTERHAUS_SMTP_TIMEOUT_S: SMTP_TIMEOUT_S,
          LETTERHAUS_LIMIT_SENDING: '1000000/60',
          LETTERHAUS_LIMIT_AUTH: '1000000/60',
          LETTERHAUS_TRUSTED_PROXIES: '127.0.0.1',
          NODE_EXTRA_CA_CERTS: CA_FILE,
          LETTERHAUS_LOG: 'warn',
          ...clocks.envOf(name),
          // Node a starts unarmed, because it sets the stage before any fault.
          LETTERHAUS_FAILPOINTS: database === 'own' ? '' : pointsFor(name, 0),
        },
      }),
    );
    return new ChaosNode({ name, service, workers, report, pointsFor });
  };

  const a = await start('a', 2, 'own');
  const proxies = await Promise.all([0, 1].map(() => startTcpProxy({ path: socketOf(a.service) })));
  for (const proxy of proxies) stack.use(proxy);
  const [b, c] = await Promise.all(
    proxies.map((proxy, index) =>
      start(index === 0 ? 'b' : 'c', 1, databaseBehind(proxy, a.service)),
    ),
  );
  const sql: Stage['sql'] = (text, values = []) =>
    queryUntilAnswered(() => query(a.service, text, values));
  const fixtures = await createFixtures(a.service, hooks);
  const earlier: { id: string }[] = await sql('select id from events');
  const things = stack.move();
  return {
    nodes: [a, b!, c!],
    proxies: [proxies[0]!, proxies[1]!],
    receivers,
    hooks,
    ...fixtures,
    clocks,
    databaseClock: new DatabaseClock(sql),
    earlierEvents: new Set(earlier.map(({ id }) => id)),
    pgDir: pgDirOf(a.service),
    databasePid: () => databasePid(a.service),
    sql,
    connect: () => connect(a.service),
    [Symbol.asyncDispose]: () => things.disposeAsync(),
  };
}

type Database = NonNullable<ServiceOptions['database']>;

function databaseBehind(proxy: TcpProxy, { dataDir }: Service): Database {
  return {
    url: `postgres://letterhaus@127.0.0.1:${proxy.port}/letterhaus`,
    address: addressOf(dataDir),
    setReachable: () => Promise.reject(new Error('use the proxy')),
  };
}

function addressOf(dataDir: string): pg.ClientConfig {
  const { engine } = JSON.parse(readFileSync(join(dataDir, 'running.json'), 'utf8'));
  const { socketDir: host, port } = engine;
  return { host, port, user: 'letterhaus', database: 'letterhaus', ssl: false };
}

function socketOf({ dataDir }: Service): string {
  const { host, port } = addressOf(dataDir);
  return `${host}/.s.PGSQL.${port}`;
}

async function connect({ dataDir }: Service): Promise<pg.Client> {
  const client = new pg.Client({ ...addressOf(dataDir), query_timeout: 20_000 });
  client.on('error', () => {});
  await client.connect();
  return client;
}

async function query(service: Service, text: string, values: unknown[]): Promise<unknown[]> {
  const client = await connect(service);
  try {
    return (await client.query(text, values)).rows;
  } finally {
    await client.end().catch(() => {});
  }
}

async function queryUntilAnswered<Rows>(ask: () => Promise<Rows>): Promise<Rows> {
  let last: unknown;
  const { rows } = await waitFor(
    () =>
      ask().then(
        (found) => ({ rows: found }),
        (error: unknown) => {
          last = error;
          return null;
        },
      ),
    { what: 'the database', timeoutMs: DATABASE_BACK_WITHIN_MS },
  ).catch((error: Error) => {
    throw new Error(error.message, { cause: last });
  });
  return rows;
}

/**
 * Returns the folder beside the socket. Root's database cannot use the data directory when that is below a closed
 * folder.
 */
function pgDirOf({ dataDir }: Service): string {
  return join(dirname(String(addressOf(dataDir).host)), 'pg');
}

function databasePid(service: Service): number | null {
  try {
    const file = join(pgDirOf(service), 'postmaster.pid');
    const [first = ''] = readFileSync(file, 'utf8').split('\n');
    return Number(first) || null;
  } catch {
    return null;
  }
}
