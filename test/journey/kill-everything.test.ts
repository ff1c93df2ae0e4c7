/** Promise 1 and 2: a 2xx is on disk, and accepted mail ends, whatever is killed in between. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startFakeDns } from '../support/fake-dns.ts';
import { type FakeMx, startFakeMx } from '../support/fake-mx.ts';
import { arrivals, assertSettled, duplicates, runLoad } from '../support/load.ts';
import { type Service, type ServiceOptions, startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

const EMAILS = 400;
/** So many that hundreds are on their way when everything dies. */
const MANY_EMAILS = 1_500;
const FROM = 'Acme <hello@acme.example.org>';

type Scene = AsyncDisposable & { service: Service; mx: FakeMx; key: string };

/** A live domain, and one receiving server for everything at `receiver.example.org`. */
async function newScene(options: ServiceOptions = {}): Promise<Scene> {
  const mx = await startFakeMx();
  const dns = await startFakeDns();
  dns.set('receiver.example.org', 'MX', ['10 mx.example.org']);
  dns.set('mx.example.org', 'A', [mx.address]);
  const service = await startService({
    ...options,
    dns,
    env: {
      POSTHORN_MX_PORT: String(mx.port),
      POSTHORN_ALLOW_PRIVATE_NETWORKS: '1',
      POSTHORN_LIMIT_SENDING: '1000000/60',
      POSTHORN_LOG: 'warn',
      ...options.env,
    },
  });
  await service.addLiveDomain('acme.example.org');
  return {
    service,
    mx,
    key: await service.liveKey(),
    async [Symbol.asyncDispose]() {
      await service[Symbol.asyncDispose]();
      await dns[Symbol.asyncDispose]();
      await mx[Symbol.asyncDispose]();
    },
  };
}

const to = (index: number): string => `jo${index}@receiver.example.org`;

async function everythingArrives(mx: FakeMx, accepted: readonly string[]): Promise<void> {
  const missing = (): string[] => {
    const counts = arrivals(mx);
    return accepted.filter((id) => !counts.has(id));
  };
  await waitFor(() => missing().length === 0, {
    what: `all of ${accepted.length} accepted emails to arrive`,
    timeoutMs: 180_000,
  });
}

test('when all processes are killed under load, everything accepted is delivered after the restart', async () => {
  await using scene = await newScene({ database: 'own', args: ['--workers', '2'] });
  const { service, mx, key } = scene;
  let kill: Promise<void> | undefined;
  const load = await runLoad(service, {
    key,
    count: MANY_EMAILS,
    from: FROM,
    to,
    onAccepted: (count) => {
      if (count >= MANY_EMAILS / 2) kill ??= service.killGroup9();
    },
  });
  await kill;
  assert.ok(load.accepted.length >= MANY_EMAILS / 2 && load.broken > 0, 'it was killed under load');
  await service.restart();
  await everythingArrives(mx, load.accepted);
  await waitFor(async () => (await service.sql('select from queue limit 1')).length === 0, {
    what: 'the queue to be empty',
    timeoutMs: 90_000,
  });
  await assertSettled(service, load.accepted);
  // Only what was between its dot and its settled answer may come twice.
  assert.ok(duplicates(arrivals(mx)) <= 20 + MANY_EMAILS / 10, 'few duplicates');
});

test('a killed worker is replaced, and its mail is sent at once', async () => {
  await using scene = await newScene({ args: ['--workers', '2'] });
  const { service, mx, key } = scene;
  const [victim] = await service.sql('select pid from nodes order by id limit 1');
  let killed = false;
  const load = await runLoad(service, {
    key,
    count: EMAILS,
    from: FROM,
    to,
    onAccepted: (count) => {
      if (killed || count < EMAILS / 2) return;
      killed = true;
      process.kill(victim.pid as number, 'SIGKILL');
    },
  });
  assert.ok(killed);
  await everythingArrives(mx, load.accepted);
  await waitFor(async () => (await service.sql('select from queue limit 1')).length === 0, {
    what: 'the queue to be empty',
    timeoutMs: 90_000,
  });
  await assertSettled(service, load.accepted);
  const isReplaced = async (): Promise<boolean> => {
    const nodes = await service.sql('select pid from nodes');
    return nodes.length === 2 && !nodes.some(({ pid }) => pid === victim.pid);
  };
  await waitFor(isReplaced, { what: 'another worker in its place' });
});

test('a stop under load loses and repeats no email', async () => {
  await using scene = await newScene({ database: 'own', args: ['--workers', '2'] });
  const { service, mx, key } = scene;
  let stopping: Promise<number | NodeJS.Signals> | undefined;
  const load = await runLoad(service, {
    key,
    count: EMAILS,
    from: FROM,
    to,
    onAccepted: (count) => {
      if (count >= EMAILS / 2) stopping ??= service.stop('SIGINT');
    },
  });
  assert.equal(await stopping, 0);
  await service.restart();
  await everythingArrives(mx, load.accepted);
  assert.equal(duplicates(arrivals(mx)), 0);
});
