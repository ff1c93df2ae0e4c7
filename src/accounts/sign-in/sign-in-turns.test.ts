/**
 * The order in which sign-ins are hashed while hundreds of networks guess. Turns end when the test lets them, so
 * nothing is measured.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Overloaded } from '../../core/refusals.ts';
import { SignInTurns } from './sign-in-turns.ts';

const PLACES = 64;

/** Turns that end one by one, with a record of the owners that had them. */
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
    const isWrong = () => !owner.startsWith('right');
    turns.take({ isKnown, owner }, work, isWrong).catch((error: unknown) => {
      assert.ok(error instanceof Overloaded);
      refused.push(owner);
    });
  };
  const finish = async (): Promise<boolean> => {
    const end = running.shift();
    end?.();
    await new Promise(setImmediate);
    return end !== undefined;
  };
  const finishAll = async (): Promise<void> => {
    while (await finish());
  };
  return { enter, finish, finishAll, had, refused };
}

test('a network that floods delays and refuses only itself, and others have their turn', async () => {
  const { enter, finishAll, had, refused } = crowd();
  for (let n = 0; n < 100; n += 1) enter('flood');
  for (const owner of ['a', 'b', 'c']) enter(owner);
  await finishAll();
  assert.deepEqual(had.slice(0, 5), ['flood', 'flood', 'a', 'b', 'c']);
  assert.equal(had.length, 1 + PLACES);
  assert.deepEqual(new Set(refused), new Set(['flood']));
});

test('when as many networks wait as there are places, a further one is refused until later', async () => {
  const { enter, finishAll, had, refused } = crowd();
  for (let n = 0; n < PLACES + 3; n += 1) enter(`network ${n}`);
  await finishAll();
  assert.deepEqual(refused, [`network ${PLACES + 1}`, `network ${PLACES + 2}`]);
  assert.equal(had.length, PLACES + 1);
});

test('a newcomer, even one who mistypes, gets a turn at once while hundreds of networks keep guessing', async () => {
  const { enter, finish, had, refused } = crowd();
  const networks = 500;
  let n = 0;
  /** More networks than there are places. */
  const guess = (): void => {
    for (let times = 0; times < 4; times += 1) enter(`network ${(n += 1) % networks}`);
  };
  const turnsUntil = async (owner: string): Promise<number> => {
    const since = had.length;
    enter(owner);
    while (!had.slice(since).includes(owner)) {
      guess();
      assert.ok(await finish());
    }
    return had.length - since;
  };
  // Each of them has guessed a few times.
  for (let turn = 0; turn < 4 * networks; turn += 1) {
    guess();
    await finish();
  }
  for (let mistake = 0; mistake < 3; mistake += 1) assert.equal(await turnsUntil('jo'), 1);
  // Right passwords do not count: in an office, everybody signs in from one network.
  for (let member = 0; member < 50; member += 1) assert.equal(await turnsUntil('right'), 1);
  assert.deepEqual(new Set(refused.filter((one) => !one.startsWith('network'))), new Set());
});

test('wrong passwords are forgotten over time', async () => {
  const { enter, finishAll, had } = crowd();
  for (let n = 0; n < 6_000; n += 1) {
    enter(n < 8 ? 'jo' : `network ${n}`);
    await finishAll();
  }
  enter('running');
  for (const owner of ['jo', 'again', 'again', 'again', 'again', 'again']) enter(owner);
  await finishAll();
  assert.deepEqual(had.slice(-6), ['again', 'again', 'again', 'again', 'jo', 'again']);
});

test('known members and strangers take turns, each with places of their own', async () => {
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
  const turnOwner = { isKnown: false, owner: 'a' };
  const failing = turns.take(turnOwner, () => Promise.reject(new Error('broken')));
  const next = turns.take(turnOwner, () => Promise.resolve('done'));
  await assert.rejects(failing, /broken/);
  assert.equal(await next, 'done');
  assert.equal(await turns.take(turnOwner, () => Promise.resolve('again')), 'again');
});
