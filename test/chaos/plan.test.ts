/** What a seed fixes: every fault, every failpoint, and the choices of the load. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Arsenal } from './arsenal.ts';
import { diceFor } from './dice.ts';
import { letter, needsProof } from './letters.ts';
import { readOptions } from './options.ts';
import { endsOf, SPARED, TROUBLED } from './places.ts';
import { ALL_POINTS, anyPoints, AT_STOP, shareOut } from './points.ts';
import { FAULTS, round } from './schedule.ts';
import { SUPERVISOR_FAILPOINTS } from '../../src/core/failpoint.ts';

const draws = (seed: number, purpose: string): number[] => {
  const dice = diceFor(seed, purpose);
  return Array.from({ length: 1_000 }, () => dice.next());
};

test('the same seed and purpose throw the same dice, others throw others', () => {
  assert.deepEqual(draws(7, 'load'), draws(7, 'load'));
  assert.notDeepEqual(draws(7, 'load'), draws(8, 'load'));
  assert.notDeepEqual(draws(7, 'load'), draws(7, 'faults'));
});

test('dice fall evenly between their bounds', () => {
  const dice = diceFor(1, 'bounds');
  const counts = [0, 0, 0, 0];
  for (let throws = 0; throws < 4_000; throws += 1) counts[dice.between(0, 3)]! += 1;
  assert.ok(
    counts.every((count) => count > 800),
    counts.join(' '),
  );
  assert.ok(draws(1, 'range').every((value) => value >= 0 && value < 1));
});

test('a round has every fault once, in an order that the seed decides', () => {
  const orders = [1, 2, 1].map((seed) => round(diceFor(seed, 'faults')));
  for (const order of orders) {
    assert.deepEqual(
      order.toSorted((a, b) => a.localeCompare(b)),
      FAULTS.toSorted((a, b) => a.localeCompare(b)),
    );
  }
  assert.deepEqual(orders[0], orders[2]);
  assert.notDeepEqual(orders[0], orders[1]);
});

test('every failpoint of a worker kills on exactly one node; the last one waits for the stop', () => {
  const lists = shareOut(diceFor(3, 'points'), 3);
  const names = lists.flat().map(({ name }) => name);
  assert.equal(new Set(names).size, names.length);
  assert.deepEqual(
    new Set<string>([...names, AT_STOP, ...SUPERVISOR_FAILPOINTS]),
    new Set<string>(ALL_POINTS),
  );
  assert.ok(lists.every((list) => list.every(({ action }) => action === 'kill')));
  assert.ok(lists[0]!.length > lists[1]!.length);
});

test('a node is armed with what was not hit yet, and at last with what only its stop reaches', () => {
  const arsenal = new Arsenal(['a', 'b', 'c'], diceFor(3, 'points'), false);
  const named = (text: string): string[] => text.split(',').map((item) => item.split('=')[0]!);
  const before = named(arsenal.pointsFor('b', 0));
  assert.ok(before.includes('burial_before_commit') && !before.includes(AT_STOP));
  assert.equal(arsenal.hit(before[0]!), true);
  assert.equal(arsenal.hit(before[0]!), false);
  assert.ok(!named(arsenal.pointsFor('b', 0)).includes(before[0]!));
  for (const name of ALL_POINTS) if (name !== AT_STOP) arsenal.hit(name);
  assert.deepEqual(named(arsenal.pointsFor('b', 0)), [AT_STOP]);
  arsenal.layDown();
  assert.equal(arsenal.pointsFor('b', 0), '');
});

test('the letters of a short run go to every trouble, and ask for a proof where it counts', () => {
  const dice = diceFor(6, 'load');
  const letters = Array.from({ length: 2_000 }, (_, index) => letter(index, dice));
  const addresses = letters.flatMap((one) => one.addresses);
  const domains = new Set(addresses.map((address) => address.split('@')[1]));
  for (const domain of [...Object.keys(TROUBLED), ...Object.keys(SPARED)]) {
    assert.ok(domains.has(domain), domain);
    assert.ok(endsOf(domain)!.includes('delivered'), domain);
  }
  for (const { body, addresses: own } of letters) {
    assert.equal('tls' in body, own.some(needsProof), own.join());
  }
  assert.equal(domains.size, Object.keys(TROUBLED).length + Object.keys(SPARED).length + 6);
});

test('a long run also stalls processes and breaks their steps, but freezes none before a dot', () => {
  const points = anyPoints(diceFor(5, 'more'), 2_000);
  assert.deepEqual([...new Set(points.map(({ action }) => action))].toSorted(), [
    'delay',
    'kill',
    'throw',
  ]);
});

test('the command line asks for one of two ways, and says what is wrong', () => {
  assert.deepEqual(readOptions(['--quick', '--seed', '7']), {
    seed: 7,
    minutes: null,
    emails: 2_000,
  });
  assert.deepEqual(readOptions(['--minutes', '30', '--seed', '9']), {
    seed: 9,
    minutes: 30,
    emails: 2_000,
  });
  assert.equal(readOptions(['--help']), 'help');
  for (const args of [
    [],
    ['--quick', '--minutes', '3'],
    ['--minutes', '0'],
    ['--quick', '--seed', 'x'],
    ['--quack'],
  ]) {
    assert.ok('problem' in Object(readOptions(args)), args.join(' '));
  }
});
