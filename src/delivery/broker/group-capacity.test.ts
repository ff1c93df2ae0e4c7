/** Hosts below one domain share its connections. The broker is real, and one worker asks for many connections. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Broker } from './broker.ts';
import { GroupCapacities } from './group-capacity.ts';
import { DEFAULT_SHAPING } from '../shaping/settings.ts';

const LIMIT = 4;

/** A broker with one worker that wants many connections to each host, and the number granted to each. */
function demand(hosts: readonly string[]): { broker: Broker; granted: Map<string, number> } {
  const granted = new Map<string, number>();
  const broker = new Broker({
    settings: { ...DEFAULT_SHAPING, default: { connections: LIMIT } },
    world: { monotonicMs: () => 0, random: () => 0.5 },
    send: (_worker, messages) => {
      for (const message of messages) {
        if (message.kind !== 'grant') continue;
        granted.set(message.provider, (granted.get(message.provider) ?? 0) + 1);
      }
    },
  });
  broker.addWorker(1);
  for (const provider of hosts) {
    broker.receive(1, [{ kind: 'accepted', provider, source: '', count: 100 }]);
    broker.receive(1, [{ kind: 'want', provider, source: '', count: 10, urgent: 0 }]);
  }
  return { broker, granted };
}

test('hosts below one domain share its connections, and each always gets one', () => {
  const { granted } = demand(['mx1.hoster.test', 'mx2.hoster.test', 'mx3.hoster.test']);
  assert.deepEqual([...granted.values()], [LIMIT, 1, 1]);
});

test('hosts of different domains do not share connections', () => {
  const { granted } = demand(['mx1.one.test', 'mx1.two.test', 'tenant.herokuapp.com']);
  assert.deepEqual([...granted.values()], [LIMIT, LIMIT, LIMIT]);
});

test('connections that a host returns go to another host of the domain', () => {
  const { broker, granted } = demand(['mx1.hoster.test', 'mx2.hoster.test']);
  const key = { provider: 'mx1.hoster.test', source: '' };
  broker.receive(1, [{ ...key, kind: 'want', count: -10, urgent: 0 }]);
  broker.receive(1, [{ ...key, kind: 'free', count: 2, unused: 0 }]);
  broker.tick();
  assert.equal(granted.get('mx2.hoster.test'), 3);
});

test('the capacities of a domain are dropped with its last host', () => {
  const capacities = new GroupCapacities();
  const first = capacities.addProvider('mx1.hoster.test', LIMIT)('');
  assert.equal(capacities.addProvider('mx2.hoster.test', LIMIT)(''), first);
  capacities.removeProvider('mx1.hoster.test');
  assert.equal(capacities.addProvider('mx3.hoster.test', LIMIT)(''), first);
  capacities.removeProvider('mx2.hoster.test');
  capacities.removeProvider('mx3.hoster.test');
  assert.notEqual(capacities.addProvider('mx1.hoster.test', LIMIT)(''), first);
});
