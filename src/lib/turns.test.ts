/** Turns among owners, with tasks that end when the test lets them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Turns } from './turns.ts';

const nextTick = () => new Promise<void>((resolve) => setImmediate(resolve));

/** Tasks that the test ends by name. The first letter of a name is the owner. */
function tasks(turns: Turns) {
  const running = new Map<string, () => void>();
  const start = (name: string, signal?: AbortSignal): Promise<void> => {
    const work = async () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      running.set(name, resolve);
      await promise;
    };
    return turns.run(name.charAt(0), work, signal);
  };
  const names = async (): Promise<string> => {
    await nextTick();
    return [...running.keys()].join(' ');
  };
  const end = async (name: string): Promise<void> => {
    await nextTick();
    running.get(name)?.();
    running.delete(name);
  };
  return { start, names, end };
}

/** Starts tasks and ends them one by one. @returns their names in the order of their start */
async function orderOf(count: number, names: readonly string[]): Promise<string[]> {
  const turns = new Turns({ count });
  const begun: string[] = [];
  const task = async (name: string): Promise<void> => {
    begun.push(name);
    await nextTick();
    if (name === 'a2') throw new Error('failed');
  };
  await Promise.allSettled(names.map((name) => turns.run(name.charAt(0), () => task(name))));
  return begun;
}

test('an owner with many tasks does not delay the task of another', async () => {
  const order = await orderOf(2, ['a', 'a', 'a', 'a', 'a', 'b', 'c']);
  assert.deepEqual(order, ['a', 'a', 'b', 'c', 'a', 'a', 'a']);
});

test('a single turn goes from owner to owner, also after a task that fails', async () => {
  const order = await orderOf(1, ['a1', 'a2', 'a3', 'b1', 'b2']);
  assert.deepEqual(order, ['a1', 'b1', 'a2', 'b2', 'a3']);
});

test('an owner leaves one turn to the others, and the next turn belongs to the owner with the fewest running tasks', async () => {
  const { start, names, end } = tasks(new Turns({ count: 3, perOwner: 2 }));
  const all = ['a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1'].map((name) => start(name));
  assert.equal(await names(), 'a1 a2 b1');
  await end('a1');
  assert.equal(await names(), 'a2 b1 c1');
  await end('b1');
  assert.equal(await names(), 'a2 c1 b2');
  await end('a2');
  assert.equal(await names(), 'c1 b2 a3');
  for (const name of ['c1', 'b2']) await end(name);
  assert.equal(await names(), 'a3 a4');
  for (const name of ['a3', 'a4']) await end(name);
  await Promise.all(all);
});

test('a task that is aborted while it waits leaves, and the others keep their turns', async () => {
  const turns = new Turns({ count: 2, perOwner: 1 });
  const { start, names, end } = tasks(turns);
  const all = [start('a1'), start('b1')];
  const abort = new AbortController();
  const leaving = [start('a2', abort.signal), start('c1', abort.signal)];
  all.push(start('a3'));
  assert.deepEqual([turns.tasksOf('a'), turns.tasksOf('c')], [3, 1]);
  abort.abort(new Error('the client has gone'));
  for (const one of leaving) await assert.rejects(one, /the client has gone/);
  assert.deepEqual([turns.tasksOf('a'), turns.tasksOf('c')], [2, 0]);
  await end('a1');
  assert.equal(await names(), 'b1 a3');
  for (const name of ['b1', 'a3']) await end(name);
  await Promise.all(all);
});
