/** The log lines about reasons not to be ready, which come and go many times a minute. */
import assert from 'node:assert/strict';
import { mock, type TestContext, test } from 'node:test';
import type { Unready } from '../../core/unready.ts';
import { ReadinessLog } from './readiness-log.ts';

const NO_DATABASE: Unready = {
  code: 'database_unavailable',
  reason: 'the database does not answer',
};
const BUSY: Unready = { code: 'overloaded', reason: 'too many messages are waiting to be stored' };

function readinessLog(t: TestContext) {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.after(() => mock.timers.reset());
  const lines: Record<string, unknown>[] = [];
  const write = (level: string) => (facts: object, msg: string) =>
    void lines.push({ level, ...facts, msg });
  let nowMs = 0;
  const log = { warn: write('warn'), info: write('info') };
  const readiness = new ReadinessLog({ log: log as never, world: { monotonicMs: () => nowMs } });
  return {
    lines,
    note: (worker: number, ...reasons: Unready[]) => readiness.note(worker, reasons),
    tick: (ms: number) => {
      nowMs += ms;
      mock.timers.tick(ms);
    },
  };
}

test('a reason that all workers have logs one warning with its remedy, and one line when no worker has it any more', (t) => {
  const { lines, note, tick } = readinessLog(t);
  for (const worker of [1, 2, 3]) note(worker, NO_DATABASE);
  tick(20_000);
  assert.deepEqual(lines, [
    {
      level: 'warn',
      event: 'node.unready',
      state: 'raised',
      reason: 'database_unavailable',
      remedy: 'Check that it runs and that this machine reaches it.',
      msg: 'this node accepts no mail: the database does not answer',
    },
  ]);
  note(1);
  note(2);
  tick(20_000);
  assert.equal(lines.length, 1, 'one worker still has it');
  note(3);
  tick(5_000);
  assert.deepEqual(lines.slice(1), [
    {
      level: 'info',
      event: 'node.unready',
      state: 'cleared',
      reason: 'database_unavailable',
      for_s: 45,
      msg: 'no longer: the database does not answer',
    },
  ]);
});

test('a node that is overloaded every other second has two lines, and not two a second', (t) => {
  const { lines, note, tick } = readinessLog(t);
  for (let second = 0; second < 60; second += 1) {
    note(1, ...(second % 2 === 0 ? [BUSY] : []));
    tick(1_000);
  }
  tick(5_000);
  assert.deepEqual(
    lines.map(({ level }) => level),
    ['warn', 'info'],
  );
});

test('a second reason has a line of its own, and a stop has none', (t) => {
  const { lines, note, tick } = readinessLog(t);
  note(1, NO_DATABASE);
  note(1, NO_DATABASE, BUSY);
  note(1, NO_DATABASE, BUSY, { code: 'shutting_down', reason: 'the service is stopping' });
  tick(10_000);
  assert.deepEqual(
    lines.map(({ reason }) => reason),
    ['database_unavailable', 'overloaded'],
  );
});
