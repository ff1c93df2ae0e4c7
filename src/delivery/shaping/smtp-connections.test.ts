/**
 * Workers of one machine with their broker and SMTP servers of the tests: which message gets which session, and when a
 * connection passes to another worker.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type FakeMx, startFakeMx } from '../../../test/support/fake-mx.ts';
import { waitFor } from '../../../test/support/wait.ts';
import { newId } from '../../database/ids.ts';
import { Broker, BrokerTimer } from '../broker/broker.ts';
import { SmtpConnections, type SendRequest } from './smtp-connections.ts';
import type { SmtpTarget } from '../route/smtp-target.ts';
import { type ShapingSettings, DEFAULT_SHAPING } from './settings.ts';
import type { Source } from './sources.ts';
import { HOUR_MS } from '../../lib/units.ts';

const PROVIDER = 'receiver.test';

const world = {
  now: () => Date.now(),
  monotonicMs: () => performance.now(),
  random: () => 0.5,
  newId,
};

function targetOf({ address }: FakeMx, host = 'mx.receiver.test'): SmtpTarget {
  return { provider: PROVIDER, host, address, tls: 'off' };
}

const TRANSACTION = {
  envelopeFrom: 'b-token@send.acme.test',
  recipient: 'jo@receiver.test',
  message: Buffer.from('Subject: hello\r\n\r\nHello\r\n'),
  smtpUtf8: false,
  mayProceed: () => true,
};

type Differing = { untilExpiryMs?: number; recipient?: string; envelopeFrom?: string };

function request({ untilExpiryMs = HOUR_MS, ...differing }: Differing = {}): SendRequest {
  return { transaction: { ...TRANSACTION, ...differing }, untilExpiryMs, needsNewSession: false };
}

/** Like `127.0.0.8=out8.letterhaus.test` in the configuration. */
function sourcesAt(...numbers: number[]): Source[] {
  return numbers.map((n) => ({ ip: `127.0.0.${n}`, heloName: `out${n}.letterhaus.test` }));
}

/** Creates workers of one machine with their broker. */
class Machine implements Disposable {
  readonly workers: SmtpConnections[];
  readonly #ticks: BrokerTimer;

  constructor(
    count: number,
    options: { port: number; limits: ShapingSettings['default']; sources?: Source[] },
  ) {
    const { port, limits, sources = [] } = options;
    const shaping = { ...DEFAULT_SHAPING, default: limits };
    const send = (worker: number, messages: Parameters<SmtpConnections['receive']>[0]) =>
      // Later, as between processes.
      setImmediate(() => this.workers[worker]?.receive(messages));
    const broker = new Broker({ settings: shaping, world, send });
    this.workers = Array.from({ length: count }, (_, worker) => {
      broker.addWorker(worker);
      return new SmtpConnections({
        world,
        port,
        heloName: 'out.letterhaus.test',
        sources,
        shaping,
        send: (messages) =>
          setImmediate(() => {
            broker.receive(worker, messages);
            this.#ticks.schedule();
          }),
      });
    });
    this.#ticks = new BrokerTimer(broker);
  }

  [Symbol.dispose](): void {
    this.#ticks.stop();
    for (const worker of this.workers) void worker.close();
  }
}

async function open(connections: SmtpConnections, target: SmtpTarget) {
  const acquired = await connections.acquire(target, request());
  assert.ok(acquired.kind === 'ready', JSON.stringify(acquired));
  return acquired;
}

function openNow(mx: FakeMx): number {
  return mx.sessions.filter(({ ended }) => !ended).length;
}

test('the next message to the same server reuses the session', async () => {
  await using mx = await startFakeMx();
  using machine = new Machine(1, { port: mx.port, limits: {} });
  const [worker] = machine.workers as [SmtpConnections];
  const first = await open(worker, targetOf(mx));
  first.session.release();
  const second = await open(worker, targetOf(mx));
  assert.deepEqual([second.session, second.isReused], [first.session, true]);
  assert.deepEqual(worker.idleHosts(PROVIDER, TRANSACTION), new Set());
  second.session.release();
  assert.deepEqual(worker.idleHosts(PROVIDER, TRANSACTION), new Set(['mx.receiver.test']));
  assert.equal(mx.connections, 1);
});

test('a sending domain keeps its source address at a provider, and the EHLO name of that address', async () => {
  await using mx = await startFakeMx();
  const sources = [...sourcesAt(7, 8, 9), { ip: '::1', heloName: 'six.letterhaus.test' }];
  using machine = new Machine(2, { port: mx.port, limits: {}, sources });
  const seen = new Set<string>();
  for (let n = 0; n < 12; n += 1) {
    const envelopeFrom = `b-token@send.domain${n}.test`;
    const used = new Set<string>();
    for (const worker of [...machine.workers, ...machine.workers]) {
      const acquired = await worker.acquire(targetOf(mx), request({ envelopeFrom }));
      assert.ok(acquired.kind === 'ready');
      used.add(acquired.source);
      acquired.session.release();
    }
    assert.equal(used.size, 1, `${envelopeFrom} left from ${[...used].join(' and ')}`);
    for (const source of used) seen.add(source);
  }
  assert.deepEqual(
    seen,
    new Set(['127.0.0.7', '127.0.0.8', '127.0.0.9']),
    'all addresses are used',
  );
  for (const { client, lines } of mx.sessions) {
    const number = client.split('.').at(-1);
    assert.ok(lines.includes(`C: EHLO out${number}.letterhaus.test`), lines.join('\n'));
  }
});

test('a source address that the system refuses is skipped, and if none works the attempt fails', async () => {
  await using mx = await startFakeMx();
  const away = { ip: '192.0.2.1', heloName: 'away.letterhaus.test' };
  using machine = new Machine(1, { port: mx.port, limits: {}, sources: [away, ...sourcesAt(8)] });
  const [worker] = machine.workers as [SmtpConnections];
  for (let n = 0; n < 8; n += 1) {
    const envelopeFrom = `b-token@send.domain${n}.test`;
    const acquired = await worker.acquire(targetOf(mx), request({ envelopeFrom }));
    assert.ok(acquired.kind === 'ready', JSON.stringify(acquired));
    assert.equal(acquired.source, '127.0.0.8');
    acquired.session.release();
  }
  using other = new Machine(1, { port: mx.port, limits: {}, sources: [away] });
  const failed = await other.workers[0]!.acquire(targetOf(mx), request());
  assert.ok(failed.kind === 'failed', JSON.stringify(failed));
  assert.match(failed.message, /^No connection from 192\.0\.2\.1 \(E[A-Z]+\)/);
});

test('an idle connection is closed when another worker waits for one', async () => {
  await using mx = await startFakeMx();
  using machine = new Machine(2, { port: mx.port, limits: { connections: 1 } });
  const [one, two] = machine.workers as [SmtpConnections, SmtpConnections];
  (await open(one, targetOf(mx))).session.release();
  await open(two, targetOf(mx));
  assert.equal(mx.connections, 2);
  await waitFor(() => openNow(mx) === 1, { what: 'the first session to end' });
});

test('a busy connection goes to a waiting worker after its message', async () => {
  await using mx = await startFakeMx();
  using machine = new Machine(2, { port: mx.port, limits: { connections: 1 } });
  const [one, two] = machine.workers as [SmtpConnections, SmtpConnections];
  const busy = await open(one, targetOf(mx));
  const waiting = open(two, targetOf(mx));
  const messageAfterMessage = async ({ session }: typeof busy): Promise<void> => {
    await new Promise((resolve) => setImmediate(resolve));
    session.release();
    const next = await one.acquire(targetOf(mx), request());
    if (next.kind === 'ready') await messageAfterMessage(next);
  };
  void messageAfterMessage(busy);
  const { session } = await waiting;
  assert.ok(session.isReusable);
});

test('a waiting message follows the current one on the only session', async () => {
  await using mx = await startFakeMx();
  using machine = new Machine(1, { port: mx.port, limits: { connections: 1 } });
  const [worker] = machine.workers as [SmtpConnections];
  const { session } = await open(worker, targetOf(mx));
  const [first, second] = [request(), request({ recipient: 'kim@receiver.test' })];
  const waiting = worker.acquire(targetOf(mx), second);
  const sent = await session.send(first.transaction);
  session.release();
  const next = await waiting;
  assert.ok(next.kind === 'ready' && next.isAnnounced === true);
  assert.deepEqual([next.session, session.state], [session, 'announced']);
  const followed = await session.send(second.transaction);
  session.release();
  assert.deepEqual([sent.phase, followed.phase], ['data', 'data']);
  const again = await open(worker, targetOf(mx));
  assert.deepEqual([again.session, mx.connections], [session, 1]);
});

test('a session with PIPELINING keeps three attempts in progress, one without it one', async () => {
  for (const [pipelining, attempts] of [
    [true, 3],
    [false, 1],
  ] as const) {
    await using mx = await startFakeMx({ pipelining });
    using machine = new Machine(1, { port: mx.port, limits: { connections: 1 } });
    const [worker] = machine.workers as [SmtpConnections];
    (await open(worker, targetOf(mx))).session.release();
    assert.equal(worker.windowOf(PROVIDER), attempts);
  }
});

test('a message to another server, or to one that failed an announcement, is not announced', async () => {
  await using mx = await startFakeMx();
  using machine = new Machine(1, { port: mx.port, limits: { connections: 1 } });
  const [worker] = machine.workers as [SmtpConnections];
  const { session } = await open(worker, targetOf(mx));
  const others = [
    worker.acquire(targetOf(mx, 'mx2.receiver.test'), request()),
    worker.acquire(targetOf(mx), { ...request(), needsNewSession: true }),
  ];
  worker.stopAnnouncing('mx.receiver.test');
  others.push(worker.acquire(targetOf(mx), request()));
  await session.send(request().transaction);
  assert.equal(session.state, 'busy');
  await assert.rejects(session.send(request().transaction), /"sent" cannot happen .* "busy"/);
  session.release();
  await Promise.any(others);
});

test('an idle session is closed for a message to another server of the provider', async () => {
  await using mx = await startFakeMx();
  await using other = await startFakeMx({}, { address: '127.0.0.2', port: mx.port });
  using machine = new Machine(1, { port: mx.port, limits: { connections: 1 } });
  const [worker] = machine.workers as [SmtpConnections];
  (await open(worker, targetOf(mx))).session.release();
  await open(worker, targetOf(other, 'mx2.receiver.test'));
  await waitFor(() => openNow(mx) === 0, { what: 'the first session to end' });
  assert.equal(openNow(other), 1);
});

test('an idle session that the server closes frees its permit', async () => {
  await using mx = await startFakeMx();
  using machine = new Machine(1, { port: mx.port, limits: { connections: 1 } });
  const [worker] = machine.workers as [SmtpConnections];
  (await open(worker, targetOf(mx))).session.release();
  mx.sessions[0]?.socket.destroy();
  await waitFor(() => worker.idleHosts(PROVIDER, TRANSACTION).size === 0, {
    what: 'the end to be noticed',
  });
  const next = await open(worker, targetOf(mx));
  assert.equal(next.isReused, undefined);
});

test('a granted message is sent while the next one is paced', async () => {
  await using mx = await startFakeMx();
  using machine = new Machine(2, { port: mx.port, limits: { messagesPerMinute: 10 } });
  const [one, two] = machine.workers as [SmtpConnections, SmtpConnections];
  const first = await open(one, targetOf(mx));
  const next = await two.acquire(targetOf(mx), request());
  assert.ok(next.kind === 'unavailable' && next.delayMs > 2_000, JSON.stringify(next));
  first.session.release();
});

test('a granted connection that is not used goes to another worker', async () => {
  await using mx = await startFakeMx();
  using machine = new Machine(2, { port: mx.port, limits: { connections: 1 } });
  const [one, two] = machine.workers as [SmtpConnections, SmtpConnections];
  const target = targetOf(mx);
  const late = one.acquire(target, request());
  // The address is skipped while the message waits for its turn.
  one.receive([{ kind: 'host', address: target.address, skippedForMs: 60_000 }]);
  assert.equal((await late).kind, 'unavailable');
  (await open(two, { ...target, host: 'other.receiver.test' })).session.release();
});

test('each source address has its own limits and sessions', async () => {
  await using mx = await startFakeMx();
  const sources = sourcesAt(8, 9);
  using machine = new Machine(1, { port: mx.port, limits: { connections: 1 }, sources });
  const [worker] = machine.workers as [SmtpConnections];
  const senderBySource = new Map<string, string>();
  for (let n = 0; senderBySource.size < 2; n += 1) {
    const envelopeFrom = `b-token@send.domain${n}.test`;
    const acquired = await worker.acquire(
      targetOf(mx),
      request({ envelopeFrom, untilExpiryMs: 50 }),
    );
    if (acquired.kind === 'ready') senderBySource.set(acquired.source, envelopeFrom);
    else assert.equal(acquired.kind, 'unavailable', 'the only connection of its address is busy');
  }
  assert.deepEqual([...senderBySource.keys()].toSorted(), ['127.0.0.8', '127.0.0.9']);
  assert.equal(mx.connections, 2);
});

test('a message does not wait longer when the broker does not answer', async () => {
  const options = { world, port: 1, heloName: 'a.test', sources: [], shaping: DEFAULT_SHAPING };
  const worker = new SmtpConnections({ ...options, send: () => {} });
  const target = { provider: PROVIDER, host: 'mx.test', address: '127.0.0.1', tls: 'off' } as const;
  const acquired = await worker.acquire(target, request({ untilExpiryMs: 50 }));
  assert.equal(acquired.kind, 'unavailable');
});

test('a server that closes without a reply counts as unreachable; one that refuses does not', async () => {
  for (const [greeting, isSuspended] of [
    [{ drop: 'rst' }, true],
    ['554 No service here', false],
    ['421 4.3.2 Too busy', false],
    ['220 mx.test ESMTP\n421 4.3.2 Too busy after all', false],
  ] as const) {
    await using mx = await startFakeMx({ phases: { greeting } });
    using machine = new Machine(2, { port: mx.port, limits: {} });
    const [one, two] = machine.workers as [SmtpConnections, SmtpConnections];
    one.reportUnreached(PROVIDER, [mx.address], 'hung up');
    assert.notEqual(
      (await one.acquire(targetOf(mx), request({ untilExpiryMs: HOUR_MS }))).kind,
      'ready',
    );
    one.reportUnreached(PROVIDER, [mx.address], 'hung up');
    one.skipAddress('192.0.2.9', { timedOut: false });
    await waitFor(() => two.skippedForMs('192.0.2.9') > 0, { what: 'all of this to be received' });
    assert.equal(two.suspendedForMs(PROVIDER) > 0, isSuspended);
  }
});

test('the other workers are notified of a provider that gives sessions at once', async () => {
  using machine = new Machine(3, { port: 25, limits: {} });
  const [one, ...others] = machine.workers as [SmtpConnections, SmtpConnections, SmtpConnections];
  const notified: string[] = [];
  one.onPrompt(() => assert.fail('a worker is not notified of its own report'));
  for (const [index, other] of others.entries()) {
    other.onPrompt((provider) => notified.push(`${index} ${provider}`));
  }
  one.notifyPromptChange('silent.test', false);
  one.notifyPromptChange('good.test', true);
  await waitFor(() => notified.length >= 2, { what: 'the others to receive it' });
  assert.deepEqual(notified.toSorted(), ['0 good.test', '1 good.test']);
});

test('a server that did not answer is skipped by all workers, except for urgent mail', async () => {
  await using mx = await startFakeMx();
  using machine = new Machine(2, { port: mx.port, limits: {} });
  const [one, two] = machine.workers as [SmtpConnections, SmtpConnections];
  one.skipAddress(mx.address, { timedOut: false });
  await waitFor(() => two.skippedForMs(mx.address) > 0, {
    what: 'the other worker to receive that',
  });
  assert.equal((await two.acquire(targetOf(mx), request())).kind, 'unavailable');
  assert.equal((await two.acquire(targetOf(mx), request({ untilExpiryMs: 60_000 }))).kind, 'ready');
  assert.equal(two.skippedForMs(mx.address), 0, 'it answers again');
});

test('while the uplink is down, a server that did not answer is skipped only briefly', () => {
  const options = { world, port: 1, heloName: 'a.test', sources: [], shaping: DEFAULT_SHAPING };
  const worker = new SmtpConnections({ ...options, send: () => {} });
  worker.receive([{ kind: 'uplink', isDown: true, failedForMs: 0 }]);
  worker.skipAddress('192.0.2.9', { timedOut: true });
  const forMs = worker.skippedForMs('192.0.2.9');
  assert.ok(forMs > 0 && forMs <= DEFAULT_SHAPING.uplink.retryMs, `${forMs} ms`);
});
