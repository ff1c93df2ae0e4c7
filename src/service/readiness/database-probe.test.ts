/**
 * Shows when a database counts as unavailable, by queries that the test answers. test/journey/database-outage.test.ts
 * cuts off a real one.
 */
import assert from 'node:assert/strict';
import { mock, test } from 'node:test';
import { DatabaseProbe } from './database-probe.ts';

const READ_ONLY = Object.assign(new Error('cannot execute INSERT'), { code: '25006' });

/** A probe whose queries are answered one by one, while time passes by `tick`. */
function probeBy(t: { after(work: () => void): void }) {
  mock.timers.enable({ apis: ['setTimeout', 'setInterval'] });
  t.after(() => mock.timers.reset());
  const asked: PromiseWithResolvers<{ acceptsWrites: boolean }[]>[] = [];
  const query = () => {
    const question = Promise.withResolvers<{ acceptsWrites: boolean }[]>();
    asked.push(question);
    return question.promise;
  };
  const probe = new DatabaseProbe({ db: { query } } as unknown as ConstructorParameters<
    typeof DatabaseProbe
  >[0]);
  const settled = () => new Promise(setImmediate);
  return {
    questions: () => asked.length,
    code: () => probe.problem?.code ?? null,
    probeNow: () => probe.probeNow(),
    answer: async (acceptsWrites = true) => {
      asked.at(-1)?.resolve([{ acceptsWrites }]);
      await settled();
    },
    fail: async (error: Error) => {
      asked.at(-1)?.reject(error);
      await settled();
    },
    tick: (ms: number) => mock.timers.tick(ms),
  };
}

test('one lost connection does not make the database unavailable: it is queried again at once', async (t) => {
  const probe = probeBy(t);
  probe.probeNow();
  await probe.fail(new Error('connection reset'));
  assert.deepEqual([probe.questions(), probe.code()], [2, null]);
  await probe.answer();
  assert.equal(probe.code(), null);
});

test('two failures in a row make it unavailable, and the first answer ends that', async (t) => {
  const probe = probeBy(t);
  probe.probeNow();
  await probe.fail(new Error('connection refused'));
  await probe.fail(new Error('connection refused'));
  assert.equal(probe.code(), 'database_unavailable');
  probe.tick(1_000);
  await probe.answer();
  assert.equal(probe.code(), null);
});

test('a slow answer changes nothing, and none for three seconds makes it unavailable', async (t) => {
  const probe = probeBy(t);
  probe.probeNow();
  probe.tick(2_900);
  assert.equal(probe.code(), null);
  await probe.answer();
  probe.tick(1_000);
  probe.tick(2_900);
  assert.equal(probe.code(), null, 'the time is that of one question');
  probe.tick(200);
  assert.equal(probe.code(), 'database_unavailable');
  assert.equal(probe.questions(), 2, 'a frozen database is not asked again and again');
  await probe.answer();
  assert.equal(probe.code(), null);
});

test('a database that accepts no writes has a reason of its own', async (t) => {
  const probe = probeBy(t);
  probe.probeNow();
  await probe.answer(false);
  assert.equal(probe.code(), 'database_read_only');
  probe.tick(1_000);
  await probe.answer();
  assert.equal(probe.code(), null);
  probe.tick(1_000);
  await probe.fail(READ_ONLY);
  await probe.fail(READ_ONLY);
  assert.equal(probe.code(), 'database_read_only');
});
