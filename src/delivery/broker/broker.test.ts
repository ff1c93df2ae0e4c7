/**
 * The broker with workers that obey its messages and a fake clock: how connections to a provider are granted, shared,
 * slowed down and suspended. test/journey/shaping.test.ts shows it at a whole service.
 */
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import fc from 'fast-check';
import type { ProviderState } from '../shaping/provider-state.ts';
import { Broker, BROKER_TICK_MS, BrokerTimer } from './broker.ts';
import type { BrokerMessage, WorkerMessage } from './broker-messages.ts';
import { type ShapingSettings, DEFAULT_SHAPING } from '../shaping/settings.ts';

const PROVIDER = 'receiver.test';
const KEY = { provider: PROVIDER, source: '' };

/** A broker with workers that record the messages they receive and obey them. */
class Scene {
  nowMs = 0;
  readonly inUse = new Map<number, number>();
  readonly received = new Map<number, BrokerMessage[]>();
  readonly broker: Broker;

  constructor(connections: number, more: Partial<ShapingSettings> = {}) {
    const world = { monotonicMs: () => this.nowMs, random: () => 0.5 };
    const settings = { ...DEFAULT_SHAPING, default: { connections }, ...more };
    this.broker = new Broker({
      settings,
      world,
      send: (worker, messages) => this.#received(worker, messages),
    });
  }

  join(...workers: number[]): this {
    for (const worker of workers) this.broker.addWorker(worker);
    return this;
  }

  send(worker: number, ...messages: WorkerMessage[]): void {
    this.broker.receive(worker, messages);
  }

  want(worker: number, count: number, urgent = 0): void {
    this.send(worker, { ...KEY, kind: 'want', count, urgent });
  }

  free(worker: number, count = 1): void {
    this.inUse.set(worker, this.inUseBy(worker) - count);
    this.send(worker, { ...KEY, kind: 'free', count, unused: 0 });
  }

  grow(count = 100): void {
    this.send(1, { ...KEY, kind: 'accepted', count });
  }

  unreached(times = 1): void {
    for (let time = 0; time < times; time += 1) {
      this.send(1, {
        kind: 'unreached',
        provider: PROVIDER,
        addresses: ['192.0.2.1'],
        reason: 'refused',
      });
    }
  }

  reached(): void {
    this.send(1, { kind: 'reached', provider: PROVIDER, address: '192.0.2.1' });
  }

  pass(ms: number): void {
    const untilMs = this.nowMs + ms;
    while (this.nowMs < untilMs) {
      this.nowMs = Math.min(untilMs, this.nowMs + BROKER_TICK_MS);
      this.broker.tick();
    }
  }

  inUseBy(worker: number): number {
    return this.inUse.get(worker) ?? 0;
  }

  last<Kind extends BrokerMessage['kind']>(worker: number, kind: Kind) {
    type Found = Extract<BrokerMessage, { kind: Kind }>;
    return this.received
      .get(worker)
      ?.findLast((message): message is Found => message.kind === kind);
  }

  asked(worker: number): number {
    return this.received.get(worker)?.filter(({ kind }) => kind === 'yield').length ?? 0;
  }

  #received(worker: number, messages: readonly BrokerMessage[]): void {
    this.received.set(worker, [...(this.received.get(worker) ?? []), ...messages]);
    const grants = messages.filter(({ kind }) => kind === 'grant').length;
    this.inUse.set(worker, this.inUseBy(worker) + grants);
  }
}

test('a provider gets two connections, more as it accepts messages, and never more than the limit', () => {
  const scene = new Scene(5).join(1);
  scene.want(1, 10);
  assert.equal(scene.inUseBy(1), 2);
  scene.grow(1);
  assert.equal(scene.inUseBy(1), 3);
  scene.grow(100);
  assert.equal(scene.inUseBy(1), 5);
});

test('every worker is notified of a provider that answers at once, even one that starts later', () => {
  const scene = new Scene(2).join(1, 2);
  const report = (isPrompt: boolean, ...providers: string[]) =>
    scene.send(1, { kind: 'prompt', providers, isPrompt });
  report(true, 'one.test');
  report(true, 'two.test');
  report(false, 'one.test');
  scene.join(3);
  const promptOf = (worker: number) =>
    scene.received
      .get(worker)
      ?.flatMap((message) => (message.kind === 'prompt' ? message.providers : []));
  assert.deepEqual([1, 2, 3].map(promptOf), [undefined, ['one.test', 'two.test'], ['two.test']]);
  report(true, ...Array.from({ length: 3_000 }, (_, index) => `${index}.test`));
  scene.join(4);
  assert.equal(promptOf(4)?.length, 1_000, 'the newest');
});

test('each source has its own limit', () => {
  const scene = new Scene(2).join(1);
  for (const source of ['198.51.100.1', '198.51.100.2']) {
    scene.send(1, { provider: PROVIDER, source, kind: 'want', count: 9, urgent: 0 });
  }
  assert.equal(scene.inUseBy(1), 4);
});

test('a worker that starts later gets its share of the connections of the first one', () => {
  const scene = new Scene(6).join(1, 2);
  scene.want(1, 20);
  scene.grow();
  assert.deepEqual([scene.inUseBy(1), scene.inUseBy(2)], [6, 0]);
  scene.want(2, 20);
  assert.equal(scene.last(1, 'pool')?.othersWait, true);
  while (scene.asked(1) + scene.inUseBy(1) > 6) scene.free(1);
  assert.deepEqual([scene.inUseBy(1), scene.inUseBy(2)], [3, 3]);
  assert.deepEqual([scene.last(1, 'pool')?.share, scene.last(2, 'pool')?.share], [3, 3]);
});

test('with a limit of one connection the workers use it alternately', () => {
  const scene = new Scene(1).join(1, 2);
  scene.want(1, 1);
  scene.want(2, 1);
  assert.deepEqual([scene.inUseBy(1), scene.inUseBy(2), scene.asked(1)], [1, 0, 0]);
  scene.pass(1_500);
  assert.equal(scene.asked(1), 1);
  scene.want(1, 1);
  scene.free(1);
  assert.deepEqual([scene.inUseBy(1), scene.inUseBy(2)], [0, 1]);
  scene.pass(1_500);
  assert.equal(scene.asked(2), 1);
});

test('the permits of a dead worker go to the others', () => {
  const scene = new Scene(4).join(1, 2);
  scene.want(1, 9);
  scene.grow();
  scene.want(2, 9);
  scene.broker.removeWorker(1);
  assert.equal(scene.inUseBy(2), 4);
});

test('when a provider asks for fewer connections, those beyond the window are revoked', () => {
  const scene = new Scene(8).join(1);
  scene.want(1, 20);
  scene.grow();
  scene.send(1, { ...KEY, kind: 'slow', reason: '421 too many', pace: null, openedForMs: null });
  assert.equal(scene.asked(1), 4);
  assert.equal(scene.last(1, 'provider')?.reason, '421 too many');
  for (let time = 0; time < 4; time += 1) scene.free(1);
  assert.equal(scene.inUseBy(1), 4);
});

test('a reply about the reputation of our address limits the provider to one message a minute', () => {
  const scene = new Scene(8).join(1, 2);
  scene.want(1, 3);
  const pace = { messagesPerMinute: 1, forMs: 3600_000 };
  scene.send(1, { ...KEY, kind: 'slow', reason: '421 reputation', pace, openedForMs: null });
  assert.equal(scene.asked(1), 2, 'open connections are revoked');
  assert.equal(scene.last(2, 'provider')?.state, 'slowed');
  assert.ok(scene.last(2, 'provider')!.waitMs > 0);
  scene.free(1, 2);
  scene.pass(59_000);
  assert.equal(scene.inUseBy(1), 0);
  scene.pass(2_000);
  assert.deepEqual([scene.inUseBy(1), scene.last(1, 'grant')?.messagesMax], [1, 1]);
  scene.free(1);
  scene.pass(30_000);
  assert.equal(scene.inUseBy(1), 0);
  scene.pass(3600_000);
  assert.equal(scene.last(2, 'provider')?.waitMs, 0);
});

test('all connections together keep a limit of messages per minute', () => {
  const limits = { connections: 10, messagesPerMinute: 120 };
  const scene = new Scene(10, { default: limits }).join(1);
  let messages = 0;
  for (let second = 0; second < 60; second += 1) {
    scene.want(1, 1);
    scene.pass(1_000);
    const grants = scene.received.get(1)?.filter((message) => message.kind === 'grant') ?? [];
    messages += grants.reduce((sum, { messagesMax }) => sum + messagesMax!, 0);
    scene.received.clear();
    if (scene.inUseBy(1) > 0) scene.free(1, scene.inUseBy(1));
  }
  assert.ok(messages >= 110 && messages <= 122, `${messages} messages`);
});

test('new connections per minute are limited', () => {
  const scene = new Scene(10, { default: { connections: 10, newConnectionsPerMinute: 60 } }).join(
    1,
  );
  scene.want(1, 10);
  scene.grow();
  assert.equal(scene.inUseBy(1), 1);
  scene.pass(3_000);
  assert.ok(scene.inUseBy(1) <= 4);
  scene.pass(10_000);
  assert.equal(scene.inUseBy(1), 10);
});

test('a silent provider is suspended, longer each time, and one connection probes it', () => {
  const scene = new Scene(10).join(1, 2);
  scene.unreached();
  assert.equal(scene.last(2, 'provider'), undefined);
  scene.unreached();
  const { state, waitMs } = scene.last(2, 'provider')!;
  assert.deepEqual([state, waitMs], ['suspended', 60_000]);
  assert.equal(scene.last(2, 'host')?.skippedForMs, 60_000);
  scene.want(1, 5);
  scene.want(2, 5);
  assert.deepEqual([scene.inUseBy(1), scene.inUseBy(2)], [0, 0]);
  scene.pass(60_250);
  assert.equal(scene.last(2, 'provider')?.waitMs, 0);
  assert.equal(scene.inUseBy(1) + scene.inUseBy(2), 1);
  scene.unreached();
  assert.equal(scene.last(1, 'provider')?.waitMs, 120_000);
  scene.free(1);
  for (let probe = 0; probe < 6; probe += 1) {
    scene.pass(scene.last(1, 'provider')!.waitMs + 250);
    scene.unreached();
    scene.free(scene.inUseBy(1) > 0 ? 1 : 2);
  }
  assert.equal(scene.last(1, 'provider')?.waitMs, 15 * 60_000);
  scene.reached();
  assert.equal(scene.last(2, 'provider')?.waitMs, 0);
  assert.equal(scene.last(2, 'host')?.skippedForMs, 0);
  assert.equal(scene.inUseBy(1) + scene.inUseBy(2), 2);
});

test('urgent messages may connect to a suspended provider, one at a time', () => {
  const scene = new Scene(10).join(1);
  scene.unreached(2);
  scene.want(1, 3, 2);
  assert.equal(scene.inUseBy(1), 1);
  scene.free(1);
  assert.equal(scene.inUseBy(1), 1);
  scene.free(1);
  assert.equal(scene.inUseBy(1), 0);
});

test('one unreachable server does not suspend a provider with others that answer', () => {
  const scene = new Scene(10).join(1);
  scene.send(1, { kind: 'reached', provider: PROVIDER, address: '192.0.2.2' });
  scene.unreached(10);
  assert.equal(scene.last(1, 'provider'), undefined);
});

test("a provider's events lead to the states of the transition table", () => {
  const slow = { kind: 'slow', reason: '421 too many', pace: null, openedForMs: 0 } as const;
  const limited = (scene: Scene): void => scene.send(1, { ...KEY, ...slow });
  const recovered = (scene: Scene): void => {
    scene.pass(2 * 3600_000);
    for (let step = 0; step < 20; step += 1) {
      scene.grow();
      scene.pass(60_000);
    }
  };
  const silent = (scene: Scene): void => scene.unreached(2);
  const answered = (scene: Scene): void => scene.reached();
  const cases: [string, ((scene: Scene) => void)[], ProviderState][] = [
    ['limited', [limited], 'slowed'],
    ['limited, limited', [limited, limited], 'slowed'],
    ['limited, recovered', [limited, recovered], 'open'],
    ['silent', [silent], 'suspended'],
    ['silent, answered', [silent, answered], 'open'],
    ['silent, limited', [silent, limited], 'suspended'],
    ['slowed, silent', [limited, silent], 'suspended'],
    ['slowed, silent, answered', [limited, silent, answered], 'slowed'],
    ['silent, limited, answered', [silent, limited, answered], 'slowed'],
    ['silent, silent', [silent, (scene) => scene.pass(61_000), silent], 'suspended'],
  ];
  for (const [name, events, expected] of cases) {
    const scene = new Scene(8).join(1);
    for (const happens of events) happens(scene);
    assert.equal(scene.last(1, 'provider')?.state, expected, name);
  }
});

type Step =
  | { kind: 'want' | 'give' | 'die' | 'complain'; worker: number }
  | { kind: 'accepted' | 'pass'; count: number };

const worker = fc.integer({ min: 1, max: 4 });
const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({ kind: fc.constantFrom('want', 'give', 'die', 'complain'), worker }),
  fc.record({ kind: fc.constantFrom('accepted', 'pass'), count: fc.integer({ min: 1, max: 10 }) }),
);

test('for any sequence of events the limit holds, and every worker gets a connection', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 6 }),
      fc.array(step, { maxLength: 60 }),
      (limit, steps) => {
        const scene = new Scene(limit).join(1, 2, 3, 4);
        const total = (): number => [1, 2, 3, 4].reduce((sum, one) => sum + scene.inUseBy(one), 0);
        for (const one of steps) {
          apply(scene, one);
          assert.ok(total() <= limit, `${total()} of ${limit} after ${one.kind}`);
        }
        // All workers want connections and return those that are revoked, one message at a time.
        const fed = new Set<number>();
        for (let second = 0; second < 20; second += 1) {
          for (const each of [1, 2, 3, 4]) {
            scene.want(each, 1);
            if (scene.inUseBy(each) > 0) fed.add(each);
            if (scene.inUseBy(each) > 0 && scene.last(each, 'yield')) scene.free(each);
          }
          scene.pass(1_000);
          assert.ok(total() <= limit);
        }
        assert.deepEqual(fed, new Set([1, 2, 3, 4]));
      },
    ),
  );
});

function apply(scene: Scene, one: Step): void {
  switch (one.kind) {
    case 'want':
      scene.want(one.worker, 2);
      break;
    case 'give':
      if (scene.inUseBy(one.worker) > 0) scene.free(one.worker);
      break;
    case 'die':
      scene.inUse.delete(one.worker);
      scene.broker.removeWorker(one.worker);
      scene.join(one.worker);
      break;
    case 'complain':
      scene.send(one.worker, {
        ...KEY,
        kind: 'slow',
        reason: 'too many',
        pace: null,
        openedForMs: 0,
      });
      break;
    case 'accepted':
      scene.grow(one.count);
      break;
    case 'pass':
      scene.pass(one.count * 500);
      break;
  }
}

/** A broker that only counts its ticks. */
function clockOf(tickWithinMs: number) {
  const broker = { tickWithinMs, ticks: 0, tick: () => void (broker.ticks += 1) };
  return { broker, ticks: new BrokerTimer(broker) };
}

/** Passes quarters of a second one by one, because a timer may set the next. */
function pass(quarters: number): void {
  for (let quarter = 0; quarter < quarters; quarter += 1) mock.timers.tick(250);
}

test('the broker has a timer only while something is due', () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  try {
    const { broker, ticks } = clockOf(250);
    ticks.schedule();
    pass(4);
    assert.equal(broker.ticks, 4);
    broker.tickWithinMs = Infinity;
    pass(40);
    assert.equal(broker.ticks, 5);
  } finally {
    mock.timers.reset();
  }
});

test('an earlier event moves the timer forward', () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  try {
    const { broker, ticks } = clockOf(10_000);
    ticks.schedule();
    broker.tickWithinMs = 250;
    ticks.schedule();
    pass(1);
    assert.equal(broker.ticks, 1);
  } finally {
    mock.timers.reset();
  }
});

test('the broker has no timer without mail or after its stop', () => {
  mock.timers.enable({ apis: ['setTimeout'] });
  try {
    const { broker, ticks } = clockOf(Infinity);
    ticks.schedule();
    pass(240);
    assert.equal(broker.ticks, 0);
    broker.tickWithinMs = 250;
    ticks.schedule();
    ticks.stop();
    ticks.schedule();
    pass(240);
    assert.equal(broker.ticks, 0);
  } finally {
    mock.timers.reset();
  }
});
