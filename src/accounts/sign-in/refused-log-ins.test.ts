/**
 * Shows how many lines a flood of refused log-ins may write. test/journey/refused-log-ins.test.ts has the lines that
 * fail2ban reads.
 */
import assert from 'node:assert/strict';
import { mock, type TestContext, test } from 'node:test';
import { RefusedLogIns } from './refused-log-ins.ts';

function refusedLogIns(t: TestContext) {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.after(() => mock.timers.reset());
  const lines: Record<string, unknown>[] = [];
  const log = { warn: (facts: object) => void lines.push({ ...facts }) };
  const refused = new RefusedLogIns(log);
  return {
    lines,
    refuse: (client: string, times = 1) => {
      const ids = { request_id: 'r' };
      const note = () => refused.note({ way: 'api_key', result: 'refused', client, ids });
      return Array.from({ length: times }, note).filter(Boolean).length;
    },
    minutePasses: () => mock.timers.tick(60_000),
    summaries: () => lines.filter(({ event }) => event === 'log_in.refused.more'),
  };
}

test('a refused log-in logs one line with its kind and the whole address of its client', (t) => {
  const { lines, refuse } = refusedLogIns(t);
  refuse('2001:db8::17');
  assert.deepEqual(lines, [
    {
      event: 'log_in.refused',
      way: 'api_key',
      client: '2001:db8::17',
      result: 'refused',
      request_id: 'r',
    },
  ]);
});

test('a client that guesses without end has 20 lines a minute, and one line with the number of the others', (t) => {
  const { refuse, minutePasses, summaries } = refusedLogIns(t);
  assert.equal(refuse('192.0.2.7', 5_000), 20);
  assert.equal(refuse('198.51.100.1', 3), 3, 'others are logged meanwhile');
  assert.deepEqual(summaries(), []);
  minutePasses();
  assert.deepEqual(summaries(), [
    { event: 'log_in.refused.more', client: '192.0.2.7', count: 4_980 },
  ]);
  assert.equal(refuse('192.0.2.7', 25), 20, 'the next minute has lines again');
  minutePasses();
  minutePasses();
  assert.equal(summaries().length, 2, 'a minute without refusals has no line');
});

test('the addresses of one IPv6 network are one client', (t) => {
  const { refuse } = refusedLogIns(t);
  for (let host = 0; host < 20; host += 1) assert.equal(refuse(`2001:db8:1:2::${host}`), 1);
  assert.equal(refuse('2001:db8:1:2::99'), 0);
  assert.equal(refuse('2001:db8:1:3::1'), 1);
});

test('a flood from many addresses has 600 lines a minute, and at most 51 for the rest', (t) => {
  const { lines, refuse, minutePasses, summaries } = refusedLogIns(t);
  let logged = 0;
  for (let a = 0; a < 100; a += 1) {
    for (let b = 0; b < 200; b += 1) logged += refuse(`10.0.${a}.${b}`);
  }
  assert.equal(logged, 600);
  minutePasses();
  assert.equal(summaries().length, 51);
  assert.equal(lines.length, 651);
  const counted = summaries().reduce((sum, { count }) => sum + Number(count), 0);
  assert.equal(counted, 100 * 200 - 600, 'each refusal is counted');
});
