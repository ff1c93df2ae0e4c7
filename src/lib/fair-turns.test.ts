import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FairTurns } from './fair-turns.ts';

/** Starts tasks that end one after the other. @returns their names in the order in which they began */
async function orderOf(count: number, owners: readonly string[]): Promise<string[]> {
  const turns = new FairTurns(count);
  const begun: string[] = [];
  await Promise.all(
    owners.map((owner) =>
      turns.take(owner, async () => {
        begun.push(owner);
        await new Promise<void>((resolve) => setImmediate(resolve));
      }),
    ),
  );
  return begun;
}

test('an owner with many tasks does not delay the task of another', async () => {
  const order = await orderOf(2, ['a', 'a', 'a', 'a', 'a', 'b', 'c']);
  assert.deepEqual(order, ['a', 'a', 'b', 'c', 'a', 'a', 'a']);
});

test('owners alternate', async () => {
  const order = await orderOf(1, ['a', 'a', 'a', 'b', 'b', 'b']);
  assert.deepEqual(order, ['a', 'b', 'a', 'b', 'a', 'b']);
});

test('no more tasks run than there are turns, also after one has failed', async () => {
  const turns = new FairTurns(2);
  let running = 0;
  let most = 0;
  const task = async (fails: boolean): Promise<void> => {
    running += 1;
    most = Math.max(most, running);
    await new Promise<void>((resolve) => setImmediate(resolve));
    running -= 1;
    if (fails) throw new Error('failed');
  };
  const names = ['a', 'b', 'c', 'a', 'b', 'c', 'd'];
  await Promise.allSettled(names.map((name, at) => turns.take(name, () => task(at % 2 === 0))));
  await turns.take('a', () => task(false));
  assert.deepEqual([running, most], [0, 2]);
});
