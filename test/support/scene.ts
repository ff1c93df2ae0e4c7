/**
 * A service with a live domain, and one receiving server for everything at `receiver.example.org`, for journeys
 * through kills and outages. All accepted mail must arrive there.
 */
import { type FakeDns, startFakeDns } from './fake-dns.ts';
import { type FakeMx, type MxBehaviour, startFakeMx } from './fake-mx.ts';
import { arrivals } from './load.ts';
import { type ProxiedDatabase, proxiedDatabase } from './postgres.ts';
import type { Env } from './letterhaus.ts';
import { type Service, type ServiceOptions, startService } from './service.ts';
import { waitFor } from './wait.ts';

export const FROM = 'Acme <hello@acme.example.org>';
export const to = (index: number): string => `jo${index}@receiver.example.org`;

/** The receiving server, and the DNS that has its records. */
export type Peers = AsyncDisposable & { mx: FakeMx; dns: FakeDns };
export type Scene = Peers & { service: Service; key: string };

export async function newPeers(behaviour: MxBehaviour = {}): Promise<Peers> {
  const mx = await startFakeMx(behaviour);
  const dns = await startFakeDns();
  dns.set('receiver.example.org', 'MX', ['10 mx.example.org']);
  dns.set('mx.example.org', 'A', [mx.address]);
  return {
    mx,
    dns,
    async [Symbol.asyncDispose]() {
      await dns[Symbol.asyncDispose]();
      await mx[Symbol.asyncDispose]();
    },
  };
}

export function liveEnv({ mx }: Pick<Peers, 'mx'>, env: Env = {}): Env {
  return {
    LETTERHAUS_MX_PORT: String(mx.port),
    LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1',
    LETTERHAUS_LIMIT_SENDING: '1000000/60',
    LETTERHAUS_LOG: 'warn',
    ...env,
  };
}

export async function newScene(options: ServiceOptions = {}): Promise<Scene> {
  // Peers end when the service fails to start. Otherwise the test file would never end.
  await using parts = new AsyncDisposableStack();
  const peers = parts.use(await newPeers());
  const env = liveEnv(peers, options.env);
  const service = parts.use(await startService({ ...options, dns: peers.dns, env }));
  await service.addLiveDomain('acme.example.org');
  const key = await service.liveKey();
  const all = parts.move();
  return { ...peers, service, key, [Symbol.asyncDispose]: () => all.disposeAsync() };
}

export async function waitForArrivals(
  mx: FakeMx,
  accepted: readonly string[],
  timeoutMs = 60_000,
): Promise<void> {
  const haveArrived = (): boolean => {
    if (mx.messages.length < accepted.length) return false;
    const counts = arrivals(mx);
    return accepted.every((id) => counts.has(id));
  };
  await waitFor(haveArrived, {
    what: `all of ${accepted.length} accepted emails to arrive`,
    timeoutMs,
  });
}

export async function waitForEmptyQueue(service: Service, timeoutMs = 60_000): Promise<void> {
  const isEmpty = async (): Promise<boolean> =>
    (await service.sql('select from queue limit 1')).length === 0;
  await waitFor(isEmpty, { what: 'the queue to be empty', timeoutMs });
}

export type TwoNodes = Peers & {
  database: ProxiedDatabase;
  nodes: [Service, Service];
  key: string;
};

/** Starts two services as on two machines: they share a database and a secret key, and nothing else. */
export async function newNodes(behaviour: MxBehaviour = {}): Promise<TwoNodes> {
  await using parts = new AsyncDisposableStack();
  const peers = parts.use(await newPeers(behaviour));
  const database = parts.use(await proxiedDatabase());
  // Each missed heartbeat logs a line.
  const env = liveEnv(peers, { LETTERHAUS_SECRET_KEY: 'a'.repeat(64), LETTERHAUS_LOG: 'debug' });
  const options = { dns: peers.dns, database, env, args: ['--workers', '1'] };
  const first = parts.use(await startService(options));
  await first.addLiveDomain('acme.example.org');
  const second = parts.use(await startService(options));
  const key = await first.liveKey();
  const all = parts.move();
  return {
    ...peers,
    database,
    nodes: [first, second],
    key,
    [Symbol.asyncDispose]: () => all.disposeAsync(),
  };
}
