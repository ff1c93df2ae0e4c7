/**
 * The processes of a chaos run: node `a` with its embedded database and two workers; `b` and `c`, as on
 * two other machines, that reach this database databaseBehind proxies; receivers of mail and of webhooks;
 * what is in the database before anything is sent (fixtures.ts).
 */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import pg from 'pg';
import { type Service, type ServiceOptions, startService } from '../support/service.ts';
import { startTcpProxy, type TcpProxy } from '../support/tcp-proxy.ts';
import { CA_FILE } from '../support/journey.ts';
import { waitFor } from '../support/wait.ts';
import { type Clocks, DatabaseClock, makeClocks } from './clocks.ts';
import { createFixtures, type Fixtures } from './fixtures.ts';
import { type Hooks, startHooks } from './webhook-endpoints.ts';
import { ChaosNode, type NodeReport, type PointsFor } from './node.ts';
import { helloName, type Receivers, startReceivers } from './receivers.ts';

export type Stage = AsyncDisposable &
  Fixtures & {
    nodes: readonly [ChaosNode, ChaosNode, ChaosNode];
    /** Between `b`, `c` and the database of `a`. */
    proxies: readonly [TcpProxy, TcpProxy];
    receivers: Receivers;
    hooks: Hooks;
    clocks: Clocks;
    databaseClock: DatabaseClock;
    /** Events of before the endpoints were there. */
    earlierEvents: ReadonlySet<string>;
    /** The folder of the database's cluster. */
    pgDir: string;
    /** Returns the pid of the postmaster; null while there is none. */
    databasePid(): number | null;
    /** Looks into the database, as its owner; waits until it answers. */
    // oxlint-disable-next-line typescript/no-explicit-any
    sql(text: string, values?: unknown[]): Promise<any[]>;
    /** A connection of its own to the database, at once or not at all; the caller ends it. */
    connect(): Promise<pg.Client>;
  };

export const NODES = ['a', 'b', 'c'] as const;

const DATABASE_BACK_WITHIN_MS = 60_000;
/** So that a silent mail server costs seconds. */
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
          // The first one sets the stage before anything is to go wrong.
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

/** Beside the socket: below a closed folder, root's database does not live in the data directory. */
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
