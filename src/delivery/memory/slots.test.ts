/**
 * Slots for deliveries in progress while many servers are silent, without servers.
 * test/isolation/silent-receivers.test.ts measures what others notice.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type SlotKind, type SlotUse, Slots } from './slots.ts';
import { TurnOrder } from '../memory/turn-order.ts';

const KIB = 1024;

function newSlots(slotlessBytesMax = Infinity): Slots {
  return new Slots({ slotlessBytesMax });
}

function startAll(slots: Slots, project: string, slotKind: SlotKind = 'trial'): SlotUse[] {
  const uses: SlotUse[] = [];
  while (slots.mayStart(slotKind, project)) uses.push(slots.start(slotKind, project, 24 * KIB));
  return uses;
}

/** Starts deliveries of a project that wait for silent servers. */
function wait(slots: Slots, project: string, count: number): SlotUse[] {
  return Array.from({ length: count }, () => {
    const use = slots.start('trial', project, 24 * KIB);
    assert.ok(slots.leaveSlotIfSlow(use));
    return use;
  });
}

test('when other projects use all their slots, a project without deliveries still finds one', () => {
  const slots = newSlots();
  const taken = Array.from({ length: 20 }, (_, index) => startAll(slots, `p${index}`).length);
  assert.deepEqual(taken.slice(0, 4), [128, 64, 32, 16]);
  assert.equal(startAll(slots, 'victim').length, 2);
});

test('a delivery to a silent server leaves its slot, which others can use', () => {
  const slots = newSlots();
  const uses = startAll(slots, 'a');
  for (const use of uses) assert.ok(slots.leaveSlotIfSlow(use));
  assert.equal(slots.slotlessCount, 128);
  assert.equal(startAll(slots, 'a').length, 128);
  for (const use of uses) slots.end(use);
  assert.equal(slots.slotlessCount, 0);
});

test('a session keeps its slot for five checks', () => {
  const slots = newSlots();
  const use = slots.start('prompt', 'a', 24 * KIB);
  use.markGreeted();
  const left = Array.from({ length: 6 }, () => slots.leaveSlotIfSlow(use));
  assert.deepEqual(left, [false, false, false, false, true, true]);
});

test('a project with a quarter of the budget gives up its oldest delivery without a session', () => {
  const slots = newSlots();
  const uses = wait(slots, 'a', 500);
  uses[0]!.markGreeted();
  wait(slots, 'a', 1);
  const given = uses.filter(({ signal }) => signal.aborted);
  assert.deepEqual(given, [uses[1]]);
  assert.equal(slots.slotlessCount, 500);
});

test('when the whole budget is full, the project with the most deliveries gives one up', () => {
  const slots = newSlots();
  const many = ['a', 'b', 'c'].map((project) => wait(slots, project, 500));
  const less = [wait(slots, 'd', 499), wait(slots, 'e', 1)];
  wait(slots, 'f', 1);
  assert.equal(many.flat().filter(({ signal }) => signal.aborted).length, 1);
  assert.ok(less.flat().every(({ signal }) => !signal.aborted));
});

test('the memory of slotless deliveries is limited, and a project with few gives none up', () => {
  const slots = newSlots(100 * 24 * KIB);
  const few = wait(slots, 'few', 10);
  const many = wait(slots, 'many', 200);
  assert.equal(slots.slotlessCount, 100);
  assert.equal(many.filter(({ signal }) => signal.aborted).length, 110);
  assert.ok(few.every(({ signal }) => !signal.aborted));
});

test('deliveries with a session are never given up, so others keep their slots', () => {
  const slots = newSlots();
  for (const use of wait(slots, 'a', 500)) use.markGreeted();
  assert.equal(slots.leaveSlotIfSlow(slots.start('trial', 'a', 24 * KIB)), false);
});

test('every second turn goes to the queue that came last', () => {
  const turns = new TurnOrder<string>();
  for (const name of ['a', 'b', 'c', 'd']) turns.addNew(name);
  assert.deepEqual(
    Array.from({ length: 5 }, () => turns.takeNext()),
    ['a', 'd', 'b', 'c', null],
  );
});
