import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Broker } from './broker.ts';
import { GroupRooms } from './room.ts';
import { USUAL_SHAPING } from '../shaping/settings.ts';

const LIMIT = 4;

/** A worker that wants many connections to hosts, and how many it was granted at each. */
function demand(hosts: readonly string[]): { broker: Broker; granted: Map<string, number> } {
  const granted = new Map<string, number>();
  const broker = new Broker({
    settings: { ...USUAL_SHAPING, default: { connections: LIMIT } },
    world: { monotonicMs: () => 0, random: () => 0.5 },
    send: (_worker, messages) => {
      for (const message of messages) {
        if (message.kind !== 'grant') continue;
        granted.set(message.provider, (granted.get(message.provider) ?? 0) + 1);
      }
    },
  });
  broker.join(1);
  for (const provider of hosts) {
    broker.receive(1, [{ kind: 'took', provider, source: '', count: 100 }]);
    broker.receive(1, [{ kind: 'want', provider, source: '', count: 10, urgent: 0 }]);
  }
  return { broker, granted };
}

test('hosts below one domain share its connections, and each has one however many others have', () => {
  const { granted } = demand(['mx1.hoster.test', 'mx2.hoster.test', 'mx3.hoster.test']);
  assert.deepEqual([...granted.values()], [LIMIT, 1, 1]);
});

test('hosts of different domains do not share', () => {
  const { granted } = demand(['mx1.one.test', 'mx1.two.test', 'tenant.herokuapp.com']);
  assert.deepEqual([...granted.values()], [LIMIT, LIMIT, LIMIT]);
});

test('what a host returns is granted to another host of the domain', () => {
  const { broker, granted } = demand(['mx1.hoster.test', 'mx2.hoster.test']);
  const key = { provider: 'mx1.hoster.test', source: '' };
  broker.receive(1, [{ ...key, kind: 'want', count: -10, urgent: 0 }]);
  broker.receive(1, [{ ...key, kind: 'free', count: 2, unused: 0 }]);
  broker.tick();
  assert.equal(granted.get('mx2.hoster.test'), 3);
});

test('the rooms of a domain are forgotten with its last host', () => {
  const rooms = new GroupRooms();
  const first = rooms.join('mx1.hoster.test', LIMIT)('');
  assert.equal(rooms.join('mx2.hoster.test', LIMIT)(''), first);
  rooms.leave('mx1.hoster.test');
  assert.equal(rooms.join('mx3.hoster.test', LIMIT)(''), first);
  rooms.leave('mx2.hoster.test');
  rooms.leave('mx3.hoster.test');
  assert.notEqual(rooms.join('mx1.hoster.test', LIMIT)(''), first);
});
