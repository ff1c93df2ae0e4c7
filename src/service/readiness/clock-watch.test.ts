/** Shows when a difference of clocks counts. test/journey/clock-skew.test.ts runs a node with a wrong clock. */
import assert from 'node:assert/strict';
import { hostname } from 'node:os';
import { test } from 'node:test';
import { type ClockState, ClockWatch, classifySkew } from './clock-watch.ts';

test('a clock at the limit is reported once', () => {
  assert.equal(classifySkew(59_999, 'right'), 'right');
  assert.equal(classifySkew(60_000, 'right'), 'wrong');
  assert.equal(classifySkew(59_000, 'wrong'), 'wrong');
  assert.equal(classifySkew(47_000, 'wrong'), 'right');
  assert.equal(classifySkew(3_600_000, 'wrong'), 'refusing');
  assert.equal(classifySkew(3_500_000, 'refusing'), 'refusing');
  assert.equal(classifySkew(2_800_000, 'refusing'), 'wrong');
});

test('a wrong clock is a condition with its remedy, and mail is refused from an hour', async () => {
  let nowMs = 1_000_000_000;
  let skewMs = 0;
  const reports: string[] = [];
  const lines: string[] = [];
  let last: ClockState | null = null;
  const watch = new ClockWatch({
    db: { query: async () => [{ ms: nowMs - skewMs }] as never },
    world: { now: () => nowMs },
    log: { warn: (_facts: object, text: string) => lines.push(text) } as never,
    operatorEvents: {
      raise: ({ message, remedy }) => void reports.push(`${message} ${remedy}`),
      clear: ({ subject }) => void reports.push(`${subject} is right`),
    },
    onCheck: (state) => (last = state),
  });
  const check = async (ms: number): Promise<ClockState | null> => {
    skewMs = ms;
    nowMs += 2_500;
    reports.length = 0;
    await watch.check();
    return last;
  };
  assert.deepEqual(await check(30_000), { skewMs: 30_000, refusal: null });
  assert.deepEqual(reports, [`${hostname()} is right`]);
  await check(90_000);
  assert.deepEqual(await check(91_000), { skewMs: 91_000, refusal: null });
  assert.equal(reports.length, 1);
  assert.match(reports[0]!, /^The clock of \S+ is 91 seconds ahead of .*NTP/);
  assert.deepEqual(lines, [], 'the beginning of the condition is logged with the condition');
  const refused = await check(-200 * 86_400_000);
  const behind = 'the clock of this machine is 200 days behind that of its database';
  assert.equal(refused?.refusal, behind);
  await check(-200 * 86_400_000);
  assert.match(reports.join(), /No mail is accepted here until it is right/);
  assert.deepEqual(lines, [`The clock of ${hostname()} is 200 days behind that of its database.`]);
  assert.equal((await check(0))?.refusal, null);
  assert.deepEqual(reports, [`${hostname()} is right`]);
});
