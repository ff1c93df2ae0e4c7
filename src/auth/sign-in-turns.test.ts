import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Overloaded } from '../core/refusals.ts';
import { SignInTurns } from './sign-in-turns.ts';

const PLACES = 16;

/** Turns that end one by one, and the owners that had them. */
function crowd() {
  const turns = new SignInTurns();
  const had: string[] = [];
  const refused: string[] = [];
  const running: (() => void)[] = [];
  const enter = (owner: string, isKnown = false): void => {
    const work = () => {
      had.push(owner);
      return new Promise<void>((resolve) => running.push(resolve));
    };
    turns.take({ isKnown, owner }, work).catch((error: unknown) => {
      assert.ok(error instanceof Overloaded);
      refused.push(owner);
    });
  };
  const finishAll = async (): Promise<void> => {
    while (running.length > 0) {
      running.shift()!();
      await new Promise(setImmediate);
    }
  };
  return { enter, finishAll, had, refused };
}

test('a network that floods delays and refuses itself, and others have their turn', async () => {
  const { enter, finishAll, had, refused } = crowd();
  for (let n = 0; n < 100; n += 1) enter('flood');
  for (const owner of ['a', 'b', 'c']) enter(owner);
  await finishAll();
  assert.deepEqual(had.slice(0, 5), ['flood', 'flood', 'a', 'b', 'c']);
  assert.equal(had.length, 1 + PLACES);
  assert.deepEqual(new Set(refused), new Set(['flood']));
});

test('when as many networks as places wait, a further one is told to come back', async () => {
  const { enter, finishAll, had, refused } = crowd();
  for (let n = 0; n < PLACES + 3; n += 1) enter(`network ${n}`);
  await finishAll();
  assert.deepEqual(refused, [`network ${PLACES + 1}`, `network ${PLACES + 2}`]);
  assert.equal(had.length, PLACES + 1);
});

test('members who are known and strangers take turns, each with places of their own', async () => {
  const { enter, finishAll, had, refused } = crowd();
  for (let n = 0; n < 50; n += 1) enter(`network ${n}`);
  for (let n = 0; n < 3; n += 1) enter(`member ${n}`, true);
  await finishAll();
  const early = ['network 0', 'member 0', 'network 1', 'member 1', 'network 2', 'member 2'];
  assert.deepEqual(had.slice(0, 6), early);
  assert.ok(refused.every((owner) => owner.startsWith('network')));
});

test('a turn that fails is passed on', async () => {
  const turns = new SignInTurns();
  const asker = { isKnown: false, owner: 'a' };
  const failing = turns.take(asker, () => Promise.reject(new Error('broken')));
  const next = turns.take(asker, () => Promise.resolve('done'));
  await assert.rejects(failing, /broken/);
  assert.equal(await next, 'done');
  assert.equal(await turns.take(asker, () => Promise.resolve('again')), 'again');
});
