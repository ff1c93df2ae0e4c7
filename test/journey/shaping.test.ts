/** Limits per provider over all workers of a machine, and suspensions. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import type { FakeMx } from '../support/fake-mx.ts';
import { startJourney } from '../support/journey.ts';
import { runLoad } from '../support/load.ts';
import { waitFor } from '../support/wait.ts';

const folder = mkdtempSync(join(tmpdir(), 'letterhaus-shaping-'));
after(() => rmSync(folder, { recursive: true }));

function shapingFile(name: string, content: object): string {
  const path = join(folder, name);
  writeFileSync(path, JSON.stringify(content));
  return path;
}

const LIMITS = shapingFile('limits.json', {
  default: { connections: 12 },
  providers: {
    capped: { suffixes: ['capped.test'], connections: 3, messages_per_connection: 5 },
    'single.test': { connections: 1 },
  },
  suspension: { after_failures: 1, first_s: 5, longest_s: 5 },
  recovery: { hold_down_s: 0.5, step_s: 0.1, try_again_after_s: 0.3 },
});

const journey = await startJourney({ LETTERHAUS_SHAPING: LIMITS }, { args: ['--workers', '2'] });
after(() => journey[Symbol.asyncDispose]());
const { service } = journey;
const key = await journey.key();

/** A slow server, so that a backlog builds up. */
const SLOW = { phases: { data: { reply: '250 2.0.0 Taken', dripMs: 2 } } };

/** Over many connections, so that both workers have mail. */
async function sendMany(count: number, to: (index: number) => string): Promise<string[]> {
  const from = 'Acme <hello@acme.example>';
  const load = await runLoad(service, { key, count, from, to });
  assert.equal(load.accepted.length, count);
  return load.accepted;
}

async function allDelivered(ids: readonly string[]): Promise<void> {
  const open = () =>
    service.sql(
      `select email_id, status, attempts, smtp from recipients
        where email_id = any($1) and status <> 'delivered'`,
      [ids],
    );
  await waitFor(async () => (await open()).length === 0, {
    what: 'everything to be delivered',
    timeoutMs: 60_000,
  }).catch(async (error: Error) => {
    throw new Error(`${error.message}: ${JSON.stringify((await open()).slice(0, 3))}`);
  });
}

async function attemptsOf(ids: readonly string[]): Promise<number> {
  const [row] = await service.sql(
    'select max(attempts) as most from recipients where email_id = any($1)',
    [ids],
  );
  return row.most;
}

/** The most sessions that were open at the same time, over all servers of a provider. */
function mostAtOnce(...servers: Pick<FakeMx, 'sessions'>[]): number {
  const sessions = servers.flatMap((mx) => mx.sessions).filter(({ isRefused }) => !isRefused);
  const openAt = (ms: number): number =>
    sessions.filter(({ fromMs, untilMs }) => fromMs <= ms && untilMs > ms).length;
  return Math.max(...sessions.map(({ fromMs }) => openAt(fromMs)));
}

test('the limits of a provider on connections and messages per connection hold over all workers and domains', async () => {
  const provider = { provider: 'capped.test' };
  const one = await journey.mailServer('one.example', SLOW, provider);
  const two = await journey.mailServer('two.example', SLOW, provider);
  const domains = ['one.example', 'two.example'];
  const ids = await sendMany(80, (index) => `jo${index}@${domains[index % 2]}`);
  await allDelivered(ids);
  assert.equal(await attemptsOf(ids), 1);
  assert.equal(mostAtOnce(one, two), 3);
  assert.equal(one.messages.length + two.messages.length, 80);
  for (const { messages } of [...one.sessions, ...two.sessions]) assert.ok(messages <= 5);
  await service.counted(/^letterhaus_provider_window\{provider="capped"\} 3$/m);
});

test('at a receiver with few connections few are refused, and few emails are deferred', async () => {
  const mx = await journey.mailServer(
    'few.example',
    { ...SLOW, connectionsMax: 3 },
    { provider: 'few.test' },
  );
  const ids = await sendMany(90, (index) => `jo${index}@few.example`);
  await allAttempted(ids);
  const deferred = await deferredOf(ids);
  assert.ok(deferred <= 5, `${deferred} of 90 emails were deferred`);
  const refused = mx.sessions.filter(({ isRefused }) => isRefused);
  assert.ok(refused.length > 0, 'it was too many for a moment');
  assert.ok(refused.length <= 25, `${refused.length} sessions were refused`);

  const before = mx.sessions.length;
  mx.set(SLOW);
  const openNow = () => mx.sessions.slice(before).filter(({ ended }) => !ended).length;
  const sent: string[] = [];
  await waitFor(
    async () => {
      sent.push(...(await sendMany(60, (index) => `ann${index}@few.example`)));
      return openNow() > 6;
    },
    { what: 'the connections to come back', timeoutMs: 120_000 },
  );
  await journey.pass({ hours: 5 });
  await allDelivered([...ids, ...sent]);
});

async function deferredOf(ids: readonly string[]): Promise<number> {
  const [row] = await service.sql(
    `select count(*)::int as count from recipients where email_id = any($1) and status = 'deferred'`,
    [ids],
  );
  return row.count;
}

test('the connections of a worker that dies are granted to others', async () => {
  const release = Promise.withResolvers<void>();
  const dot = { after: release.promise, reply: '250 2.0.0 Taken' };
  const mx = await journey.mailServer(
    'single.example',
    { phases: { data: dot } },
    { provider: 'single.test' },
  );
  const ids = [await journey.send({ to: 'jo@single.example' })];
  await waitFor(() => mx.sessions.some(({ lines }) => lines.some((line) => /bytes/.test(line))), {
    what: 'the message up to its dot',
  });
  const [{ pid }] = await service.sql(
    `select nodes.pid from queue join nodes on nodes.id = queue.holder where queue.email_id = any($1)`,
    [ids],
  );
  const orphaned = mx.sessions.length;
  process.kill(pid, 'SIGKILL');
  mx.set({});
  release.resolve();
  ids.push(...(await sendManyOnceBack(10)));
  await allDelivered(ids);
  assert.equal(mostAtOnce({ sessions: mx.sessions.slice(orphaned) }), 1);

  async function sendManyOnceBack(count: number): Promise<string[]> {
    const from = 'Acme <hello@acme.example>';
    const to = (index: number) => `jo${index}@single.example`;
    return (await runLoad(service, { key, count, from, to, connections: 4 })).accepted;
  }
});

test('a provider that does not answer is suspended, which counts as no attempt, and other mail continues', async () => {
  const hangUp = { phases: { greeting: { drop: 'fin' as const } } };
  const down = { provider: 'down.test' };
  const mx = await journey.mailServer('down.example', hangUp, down);
  const other = await journey.mailServer('up.example', {}, { provider: 'up.test' });
  const first = await journey.send({ to: 'first@down.example' });
  await journey.attempted(first);
  await waitFor(async () => (await shown(mx.name))?.state === 'suspended', {
    what: 'the provider to be shown as suspended',
  });
  assert.match((await shown(mx.name)).reason, /host\d+\.down\.test \[127\.0\.1\.\d+\]: /);
  const asked = mx.connections;

  const waiting = await sendMany(20, (index) => `jo${index}@down.example`);
  const reached = await journey.send({ to: 'jo@up.example' });
  await journey.ended(reached);
  assert.equal(other.messages.length, 1);
  await waitFor(async () => mx.connections > asked, { what: 'a probe' });
  // Every five seconds there is one, however long the machine takes to come here.
  const triedMax = mx.connections - asked + 2;
  mx.set({});
  await allAttempted(waiting);
  const failed = await deferredOf(waiting);
  assert.ok(failed <= triedMax, `${failed} of 20 emails were tried in vain`);
  await journey.pass({ hours: 5 });
  await allDelivered([first, ...waiting]);
  await waitFor(async () => (await shown(mx.name))?.state !== 'suspended', {
    what: 'the provider not to be shown as suspended any more',
  });
});

async function shown(name: string) {
  const [row] = await service.sql(
    `select state, reason from providers where provider = $1 order by state = 'suspended' desc limit 1`,
    [name],
  );
  return row;
}

async function allAttempted(ids: readonly string[]): Promise<void> {
  const untried = () =>
    service.sql(`select from recipients where email_id = any($1) and attempts = 0`, [ids]);
  await waitFor(async () => (await untried()).length === 0, {
    what: 'an attempt of each',
    timeoutMs: 60_000,
  }).catch(async (error: Error) => {
    const state = [
      await service.sql('select * from providers'),
      await service.sql('select *, due_at - app_now() as "in" from queue limit 3'),
    ];
    throw new Error(`${error.message}: ${JSON.stringify(state)}`);
  });
}

test('an invalid limits file ends the start with all of its errors', async () => {
  const path = shapingFile('wrong.json', {
    default: { connections: 0 },
    providers: { google: { conections: 3 } },
  });
  service.env['LETTERHAUS_SHAPING'] = path;
  const { code, stderr } = await service.cli('start');
  service.env['LETTERHAUS_SHAPING'] = LIMITS;
  assert.equal(code, 2);
  assert.match(stderr, /LETTERHAUS_SHAPING: \S+wrong\.json: default\.connections: /);
  assert.match(stderr, /providers\.google: .*conections/);
});
