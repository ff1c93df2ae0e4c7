/** Shows how the broker distinguishes a dead uplink from dead providers, by replies that the test reports. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Broker, BROKER_TICK_MS } from '../broker/broker.ts';
import type { BrokerMessage } from '../broker/broker-messages.ts';
import { DEFAULT_SHAPING } from '../shaping/settings.ts';
import type { UplinkChange } from './uplink.ts';

const { noAnswerMs, retryMs } = DEFAULT_SHAPING.uplink;
const WORKER = 1;
const PROVIDERS = ['mx.one.test', 'mx.two.test', 'mx.three.test'];

/** A broker with two workers, and the messages that it sent to the first. */
class Scene {
  nowMs = 0;
  readonly received: BrokerMessage[] = [];
  readonly changes: UplinkChange[] = [];
  readonly broker: Broker;

  constructor() {
    this.broker = new Broker({
      settings: DEFAULT_SHAPING,
      world: { monotonicMs: () => this.nowMs, random: () => 0.5 },
      send: (worker, messages) => {
        if (worker === WORKER) this.received.push(...messages);
      },
      onUplink: (change) => this.changes.push(change),
    });
    this.broker.addWorker(WORKER);
    this.broker.addWorker(2);
  }

  answer(...providers: string[]): void {
    for (const provider of providers) {
      this.broker.receive(2, [{ kind: 'reached', provider, address: addressOf(provider) }]);
    }
  }

  fail(...providers: string[]): void {
    for (const provider of providers) {
      const [addresses, reason] = [[addressOf(provider)], 'refused'];
      this.broker.receive(2, [{ kind: 'unreached', provider, addresses, reason }]);
    }
  }

  pass(ms: number): void {
    const untilMs = this.nowMs + ms;
    while (this.nowMs < untilMs) {
      this.nowMs = Math.min(untilMs, this.nowMs + BROKER_TICK_MS);
      this.broker.tick();
    }
  }

  get isDown(): boolean {
    return this.changes.at(-1)?.isDown ?? false;
  }

  suspendedForMs(provider: string): number | null {
    const state = this.received.findLast(
      (one) => one.kind === 'provider' && one.provider === provider,
    );
    return state?.kind === 'provider' ? state.waitMs : null;
  }

  skippedForMs(provider: string): number | null {
    const address = addressOf(provider);
    const state = this.received.findLast((one) => one.kind === 'host' && one.address === address);
    return state?.kind === 'host' ? state.skippedForMs : null;
  }

  /** Connections to the provider that the first worker was granted. */
  granted(provider: string): number {
    return this.received.filter((one) => one.kind === 'grant' && one.provider === provider).length;
  }

  want(provider: string): void {
    this.broker.receive(WORKER, [{ kind: 'want', provider, source: '', count: 1, urgent: 0 }]);
  }
}

function addressOf(provider: string): string {
  return `address of ${provider}`;
}

/** An uplink that is down: all providers answered before, and none does now. */
function downScene(): Scene {
  const scene = new Scene();
  scene.answer(...PROVIDERS);
  scene.pass(1_000);
  scene.fail(...PROVIDERS, ...PROVIDERS);
  scene.pass(noAnswerMs);
  assert.equal(scene.isDown, true);
  return scene;
}

test('a reply that crosses the first failures does not hide that the uplink is down', () => {
  const scene = new Scene();
  scene.answer(...PROVIDERS);
  scene.pass(1_000);
  scene.fail(...PROVIDERS);
  scene.pass(500);
  scene.answer('mx.one.test');
  scene.pass(noAnswerMs + 1_000);
  assert.ok(scene.isDown);
});

test('when no provider answers any more for a while, the uplink is down', () => {
  const scene = new Scene();
  scene.answer(...PROVIDERS);
  scene.fail(...PROVIDERS);
  assert.equal(scene.broker.tickWithinMs, BROKER_TICK_MS);
  scene.pass(noAnswerMs - BROKER_TICK_MS);
  assert.equal(scene.isDown, false);
  scene.pass(BROKER_TICK_MS);
  assert.deepEqual(scene.changes, [{ isDown: true, failedForMs: noAnswerMs }]);
  assert.ok(scene.received.some((one) => one.kind === 'uplink' && one.isDown));
});

test('while any provider answers, even on an open session, the uplink is not down', () => {
  const scene = new Scene();
  scene.answer(...PROVIDERS, 'mx.good.test');
  for (let round = 0; round < 20; round += 1) {
    scene.fail(...PROVIDERS, `mx.dead${round}.test`);
    scene.pass(noAnswerMs / 2);
    scene.broker.receive(2, [{ kind: 'replied', provider: 'mx.good.test' }]);
  }
  assert.deepEqual(scene.changes, []);
});

test('one failing provider, or many names below one domain, do not mean that the uplink is down', () => {
  const scene = new Scene();
  scene.answer('mx.one.test', 'mx.good.test');
  scene.pass(noAnswerMs);
  scene.fail('mx.one.test', 'mx.one.test');
  for (let name = 0; name < 50; name += 1) scene.fail(`dead${name}.zone.test`);
  scene.pass(noAnswerMs);
  assert.deepEqual(scene.changes, []);
});

test('providers that never answered do not mean that the uplink is down', () => {
  const scene = new Scene();
  scene.answer('mx.good.test');
  scene.pass(noAnswerMs);
  for (let name = 0; name < 50; name += 1) scene.fail(`mx.dead${name}.test`);
  scene.pass(noAnswerMs);
  assert.deepEqual(scene.changes, []);
  scene.fail('mx.good.test');
  assert.equal(scene.isDown, true, 'one more that has answered before is enough');
});

test('after a start, three failing providers mean that the uplink is down', () => {
  const scene = new Scene();
  scene.pass(noAnswerMs);
  scene.fail('mx.one.test', 'mx.two.test');
  assert.equal(scene.isDown, false);
  scene.broker.receive(2, [{ kind: 'unresolved', provider: 'three.test' }]);
  assert.equal(scene.isDown, true, 'a domain that DNS cannot resolve counts as well');
});

test('while the uplink is down, running and new suspensions are short', () => {
  const scene = downScene();
  for (const provider of PROVIDERS) {
    assert.equal(scene.suspendedForMs(provider), retryMs);
    assert.equal(
      scene.skippedForMs(provider),
      retryMs,
      'its address is skipped no longer than the provider',
    );
  }
  for (let probe = 0; probe < 8; probe += 1) {
    scene.pass(retryMs + BROKER_TICK_MS);
    assert.equal(scene.suspendedForMs('mx.one.test'), 0);
    scene.fail('mx.one.test');
    assert.equal(scene.suspendedForMs('mx.one.test'), retryMs, 'the wait does not grow');
  }
});

test('while the uplink is down, an address that does not answer is skipped only briefly', () => {
  const scene = downScene();
  const address = addressOf('mx.one.test');
  scene.broker.receive(2, [{ kind: 'host', address, skippedForMs: 120_000 }]);
  assert.equal(scene.skippedForMs('mx.one.test'), retryMs);
});

test('the first reply ends all suspensions of the phase and resets its counts', () => {
  const scene = downScene();
  scene.pass(retryMs + 1_000);
  scene.fail(...PROVIDERS);
  scene.answer('mx.other.test');
  assert.equal(scene.isDown, false);
  assert.equal(scene.changes.at(-1)!.failedForMs, noAnswerMs + retryMs + 1_000);
  for (const provider of PROVIDERS) {
    assert.equal(scene.suspendedForMs(provider), 0);
    assert.equal(scene.skippedForMs(provider), 0);
  }
  scene.fail('mx.one.test');
  assert.equal(scene.suspendedForMs('mx.one.test'), 0, 'one failure does not suspend');
  scene.fail('mx.one.test');
  assert.equal(scene.suspendedForMs('mx.one.test'), DEFAULT_SHAPING.suspension.firstMs);
});

test("a provider's outage from before the uplink went down continues afterwards", () => {
  const scene = new Scene();
  scene.answer(...PROVIDERS);
  for (let failure = 0; failure < 2; failure += 1) scene.fail('mx.dead.test');
  scene.pass(DEFAULT_SHAPING.suspension.firstMs + 1_000);
  scene.fail('mx.dead.test');
  scene.answer('mx.good.test');
  const restMs = scene.suspendedForMs('mx.dead.test')!;
  assert.equal(restMs, 2 * DEFAULT_SHAPING.suspension.firstMs);
  scene.pass(noAnswerMs);
  scene.fail('mx.dead.test', ...PROVIDERS);
  assert.equal(scene.isDown, true);
  assert.equal(
    scene.suspendedForMs('mx.dead.test'),
    restMs - noAnswerMs,
    'the suspension is not shortened',
  );
  scene.answer('mx.one.test');
  assert.equal(scene.suspendedForMs('mx.dead.test'), restMs - noAnswerMs);
});

test('a provider that has not failed is tried at once while the uplink counts as down', () => {
  const scene = downScene();
  scene.want('mx.good.test');
  assert.equal(scene.granted('mx.good.test'), 1);
  scene.answer('mx.good.test');
  assert.equal(scene.isDown, false);
});

test('thousands of dead providers are probed a few at a time, without delaying the probes of others', () => {
  const scene = downScene();
  for (let name = 0; name < 2_000; name += 1) scene.fail(`mx.dead${name}.test`);
  scene.pass(retryMs + BROKER_TICK_MS);
  scene.fail('mx.one.test', 'mx.dead1.test', 'mx.dead1.test');
  assert.equal(scene.suspendedForMs('mx.one.test'), retryMs);
  assert.ok(scene.suspendedForMs('mx.dead1.test')! > retryMs);
});

test('an address of a suspended provider is skipped no longer than the suspension lasts', () => {
  const scene = new Scene();
  scene.answer(...PROVIDERS);
  scene.fail('mx.one.test', 'mx.one.test');
  const address = addressOf('mx.one.test');
  scene.broker.receive(2, [{ kind: 'host', address, skippedForMs: 120_000 }]);
  assert.equal(scene.skippedForMs('mx.one.test'), 120_000);
  scene.fail('mx.one.test');
  assert.equal(scene.skippedForMs('mx.one.test'), DEFAULT_SHAPING.suspension.firstMs);
});
