import { test } from 'node:test';
import assert from 'node:assert/strict';
import { textLine } from './log.ts';

test('a log line for people shows time, level, message and facts', () => {
  const line = textLine(
    '{"level":"info","time":"2026-11-21T08:30:00.123Z","method":"POST","ms":4,"msg":"request"}',
  );
  assert.equal(line, '08:30:00.123 info  request method=POST ms=4\n');
});

test('what a remote server said cannot steer the terminal', () => {
  const line = textLine(
    JSON.stringify({
      level: 'warn',
      time: '',
      reply: '550 \u001b[31mno\nsuch \u0007user',
      msg: 'x',
    }),
  );
  assert.equal(line, ' warn  x reply="550 no such  user"\n');
});
