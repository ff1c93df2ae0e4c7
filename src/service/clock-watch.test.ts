import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type ClockState, ClockWatch, leastSkewMs, levelOf } from './clock-watch.ts';

test('the time that an answer of the database takes is no difference', () => {
  assert.equal(leastSkewMs({ begunMs: 1_000, databaseMs: 5_000, endedMs: 90_000 }), 0);
  assert.equal(leastSkewMs({ begunMs: 1_000, databaseMs: 400, endedMs: 90_000 }), 600);
  assert.equal(leastSkewMs({ begunMs: 1_000, databaseMs: 95_000, endedMs: 90_000 }), -5_000);
});

test('a clock at the limit is not reported again and again', () => {
  assert.equal(levelOf(59_999, 'right'), 'right');
  assert.equal(levelOf(60_000, 'right'), 'wrong');
  assert.equal(levelOf(59_000, 'wrong'), 'wrong');
  assert.equal(levelOf(47_000, 'wrong'), 'right');
  assert.equal(levelOf(3_600_000, 'wrong'), 'refusing');
  assert.equal(levelOf(3_500_000, 'refusing'), 'refusing');
  assert.equal(levelOf(2_800_000, 'refusing'), 'wrong');
});

test('each change is logged once with its remedy, and mail is refused from an hour', async () => {
  let nowMs = 1_000_000_000;
  let skewMs = 0;
  const lines: string[] = [];
  let last: ClockState | null = null;
  const log = (_facts: object, text: string) => lines.push(text);
  const watch = new ClockWatch({
    db: { query: async () => [{ ms: nowMs - skewMs }] as never },
    world: { now: () => nowMs },
    log: { warn: log, info: log } as never,
    onLook: (state) => (last = state),
  });
  const look = async (ms: number): Promise<ClockState | null> => {
    skewMs = ms;
    nowMs += 2_500;
    await watch.look();
    return last;
  };
  assert.deepEqual(await look(30_000), { skewMs: 30_000, refusal: null });
  assert.deepEqual(lines, []);
  await look(90_000);
  assert.deepEqual(await look(91_000), { skewMs: 91_000, refusal: null });
  assert.match(
    lines.join('\n'),
    /^the clock .* is 90 seconds ahead of that of its database; .*NTP.*$/,
  );
  const refused = await look(-200 * 86_400_000);
  const behind = 'the clock of this machine is 200 days behind that of its database';
  assert.equal(refused?.refusal, behind);
  await look(-200 * 86_400_000);
  assert.equal((await look(0))?.refusal, null);
  assert.equal(lines.length, 3);
  assert.match(lines[1]!, /no mail is accepted here until it is right/);
  assert.equal(lines[2], 'the clock of this machine is right again');
});
