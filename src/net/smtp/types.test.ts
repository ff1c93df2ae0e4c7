import { test } from 'node:test';
import assert from 'node:assert/strict';
import { SMTP_TIMEOUTS_MS, timeoutsWithin } from './types.ts';

test('a slow server is given as long as RFC 5321 §4.5.3.2 asks for', () => {
  const { greeting, mail, rcpt, data_command: dataCommand, body, data } = SMTP_TIMEOUTS_MS;
  const minutes = [greeting, mail, rcpt, dataCommand, body, data].map((ms) => ms / 60_000);
  assert.deepEqual(minutes, [5, 5, 5, 2, 3, 10]);
});

test('a cap shortens the longer waits and leaves the others', () => {
  const { connect, data, quit } = timeoutsWithin(10_000);
  assert.deepEqual({ connect, data, quit }, { connect: 10_000, data: 10_000, quit: 5_000 });
});
