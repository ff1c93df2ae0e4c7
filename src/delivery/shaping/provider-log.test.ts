/** Shows how many lines an outage of a provider, or thousands of silent names, may write to the log. */
import assert from 'node:assert/strict';
import { mock, type TestContext, test } from 'node:test';
import { ProviderLog, type ProviderChange } from './provider-log.ts';

function providerLog(t: TestContext) {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.after(() => mock.timers.reset());
  const lines: Record<string, unknown>[] = [];
  const write = (level: string) => (facts: object, msg: string) =>
    void lines.push({ level, ...facts, msg });
  let nowMs = 0;
  const log = new ProviderLog({
    log: { warn: write('warn'), info: write('info') } as never,
    world: { monotonicMs: () => nowMs },
  });
  return {
    lines,
    note: (provider: string, change: Partial<ProviderChange> = {}) =>
      log.noteChange({ provider, state: 'open', reason: null, ...change }),
    tick: (ms: number) => {
      nowMs += ms;
      mock.timers.tick(ms);
    },
  };
}

const DOWN = { state: 'suspended' as const, reason: 'mx1.down.test: connection refused' };

test('an outage of a provider logs one warning with its remedy and one line at its end, however often it is suspended', (t) => {
  const { lines, note, tick } = providerLog(t);
  note('down.test', DOWN);
  for (let count = 0; count < 5; count += 1) {
    tick(60_000);
    note('down.test', DOWN);
  }
  assert.equal(lines.length, 1);
  const { level, event, provider, reason, remedy } = lines[0]!;
  assert.deepEqual([level, event, provider], ['warn', 'provider.suspended', 'down.test']);
  assert.equal(reason, DOWN.reason);
  assert.match(String(remedy), /letterhaus queue/);
  note('down.test');
  note('down.test');
  assert.deepEqual(lines.slice(1), [
    {
      level: 'info',
      event: 'provider.suspended',
      state: 'cleared',
      provider: 'down.test',
      for_s: 300,
      msg: 'a server of the provider answers again; its mail is sent again',
    },
  ]);
});

test("a provider that asks for less mail logs one warning with its reply, without the recipient's address", (t) => {
  const { lines, note } = providerLog(t);
  const reason = '421 4.7.0 <jo.private@example.org> Too many connections; see https://x.test/a';
  note('google', { state: 'slowed', reason });
  note('google', { state: 'slowed', reason });
  assert.equal(lines.length, 1);
  assert.equal(lines[0]!['reason'], '421 4.7.0 … Too many connections; see https://x.test/a');
  note('google');
  assert.deepEqual(
    lines.map(({ level, event }) => [level, event]),
    [
      ['warn', 'provider.slowed'],
      ['info', 'provider.slowed'],
    ],
  );
});

test('thousands of silent names log 20 lines a minute and one with their number, and Gmail has its own line', (t) => {
  const { lines, note, tick } = providerLog(t);
  for (let count = 0; count < 5_000; count += 1) note(`mx.nowhere${count}.test`, DOWN);
  assert.equal(lines.length, 20);
  note('google', DOWN);
  assert.equal(lines.length, 21);
  tick(60_000);
  assert.deepEqual(
    [lines.length, lines.at(-1)!['event'], lines.at(-1)!['count']],
    [22, 'provider.suspended.more', 4_980],
  );
  // Only outages that were logged at their start are logged at their end.
  for (let count = 0; count < 5_000; count += 1) note(`mx.nowhere${count}.test`);
  assert.equal(lines.filter(({ level }) => level === 'info').length, 20);
});
