import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SharedTurns } from './turns.ts';

/** Tasks that end when they are told to, and the names of those that run. */
function tasks(turns: SharedTurns) {
  const running = new Map<string, () => void>();
  const start = (name: string): Promise<void> =>
    turns.take(name.charAt(0), async () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      running.set(name, resolve);
      await promise;
    });
  const settle = () => new Promise((resolve) => setImmediate(resolve));
  const names = async (): Promise<string> => {
    await settle();
    return [...running.keys()].join(' ');
  };
  const end = async (name: string): Promise<void> => {
    await settle();
    running.get(name)?.();
    running.delete(name);
  };
  return { start, names, end };
}

test('an owner leaves one turn to the others, and owners with waiting tasks take turns', async () => {
  const { start, names, end } = tasks(new SharedTurns(3));
  const all = ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1'].map(start);
  assert.equal(await names(), 'a1 a2 b1');
  await end('a1');
  assert.equal(await names(), 'a2 b1 a3');
  await end('b1');
  assert.equal(await names(), 'a2 a3 b2');
  await end('a2');
  assert.equal(await names(), 'a3 b2 c1');
  for (const name of ['a3', 'b2', 'c1', 'a4']) await end(name);
  await Promise.all(all);
});

test('a single turn goes from owner to owner, also after a task that fails', async () => {
  const turns = new SharedTurns(1);
  const order: string[] = [];
  const add = (name: string) =>
    turns.take(name.charAt(0), async () => {
      order.push(name);
      if (name === 'a2') throw new Error('failed');
    });
  const all = ['a1', 'a2', 'a3', 'b1', 'b2'].map((name) => add(name).catch(() => {}));
  await Promise.all(all);
  assert.deepEqual(order, ['a1', 'a2', 'b1', 'a3', 'b2']);
});
