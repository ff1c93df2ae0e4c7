import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type LaneAsk, Lanes } from './lanes.ts';

const lane = (endpointId: string, lowWaterMs = 0) => ({ projectId: 'p', endpointId, lowWaterMs });

/** Answers an ask as an endpoint with an endless backlog would. */
const full = (asks: readonly LaneAsk[]) =>
  asks.flatMap(({ endpointId, lowWaterMs, room }) =>
    Array.from({ length: room }, () => ({ endpointId, dueAtMs: lowWaterMs + 1 })),
  );

const roomOf = (lanes: Lanes, endpointId: string) =>
  lanes.ask(64).find((ask) => ask.endpointId === endpointId)?.room ?? 0;

test('an endpoint that does not answer holds two attempts, whatever waits for it', () => {
  const lanes = new Lanes();
  lanes.add(lane('dead'));
  const asks = lanes.ask(64);
  assert.deepEqual(asks, [{ ...lane('dead'), room: 2 }]);
  lanes.took(asks, full(asks));
  lanes.add(lane('dead'));
  assert.deepEqual(lanes.ask(64), []);
  assert.equal(lanes.hasRoom, false);
});

test('quick successes widen a lane, slow ones do not, failures halve it', () => {
  const lanes = new Lanes();
  lanes.add(lane('a'));
  for (let turn = 0; turn < 8; turn += 1) {
    const asks = lanes.ask(64);
    lanes.took(asks, full(asks));
    for (const { endpointId } of full(asks)) lanes.finished(endpointId, 'quick');
  }
  assert.equal(roomOf(lanes, 'a'), 32);
  const asks = lanes.ask(64);
  lanes.took(asks, full(asks));
  lanes.finished('a', 'slow');
  assert.equal(roomOf(lanes, 'a'), 1);
  for (let failed = 0; failed < 31; failed += 1) lanes.finished('a', 'failed');
  assert.equal(roomOf(lanes, 'a'), 1);
});

test('lanes take turns when there is not room for all', () => {
  const lanes = new Lanes();
  for (const name of ['a', 'b', 'c']) lanes.add(lane(name));
  const turns = Array.from({ length: 3 }, () => lanes.ask(2).map(({ endpointId }) => endpointId));
  assert.deepEqual(turns, [
    ['a', 'b'],
    ['c', 'a'],
    ['b', 'c'],
  ]);
  assert.deepEqual(lanes.ask(0), []);
});

test('a lane that gave less than it was asked for is left alone until something is due', () => {
  const lanes = new Lanes();
  lanes.add(lane('a', 10));
  const asks = lanes.ask(64);
  lanes.took(asks, [{ endpointId: 'a', dueAtMs: 15 }]);
  assert.deepEqual(lanes.ask(64), []);
  lanes.add(lane('a', 5));
  assert.deepEqual(lanes.ask(64), [{ ...lane('a', 5), room: 1 }]);
});

test('a lane with more to give goes on where it was, unless something older appears', () => {
  const lanes = new Lanes();
  lanes.add(lane('a', 10));
  const asks = lanes.ask(64);
  lanes.took(
    asks,
    asks.flatMap(({ room }) =>
      Array.from({ length: room }, () => ({ endpointId: 'a', dueAtMs: 50 })),
    ),
  );
  lanes.finished('a', 'quick');
  assert.equal(lanes.ask(64)[0]?.lowWaterMs, 50);
  lanes.add(lane('a', -Infinity));
  assert.equal(lanes.ask(64)[0]?.lowWaterMs, -Infinity);
});
