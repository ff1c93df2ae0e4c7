/** The outcome of each address at simulator.test. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { address } from '../../../test/support/deliveries.ts';
import { simulate } from './simulator.ts';

function codeOf(to: string, attempts = 0): number | string {
  const result = simulate(address(to), attempts, attempts + 1);
  return result.kind === 'replied' ? result.reply.code : result.kind;
}

test('each name at simulator.test has its final status', () => {
  assert.equal(codeOf('delivered@simulator.test'), 250);
  assert.equal(codeOf('bounced@simulator.test'), 550);
  assert.equal(codeOf('blocked@simulator.test'), 550);
  assert.equal(codeOf('full@simulator.test'), 452);
  assert.equal(codeOf('suppressed@simulator.test'), 'suppressed');
  assert.equal(codeOf('complained@simulator.test'), 250);
});

test('deferred is delivered at the third attempt', () => {
  const codes = [0, 1, 2].map((attempts) => codeOf('deferred@simulator.test', attempts));
  assert.deepEqual(codes, [451, 451, 250]);
});

test('slow is delivered after 30 seconds', () => {
  const slow = address('slow@simulator.test');
  assert.deepEqual(simulate(slow, 0, 1), { kind: 'wait', delayMs: 30_000 });
  assert.equal(simulate(slow, 0, 2).kind, 'replied');
});

test('a label after a plus sign and capitals change nothing', () => {
  assert.equal(codeOf('Bounced+signup-7@simulator.test'), 550);
});

test('resend.dev has four special names', () => {
  assert.equal(codeOf('bounced@resend.dev'), 550);
  assert.equal(codeOf('full@resend.dev'), 250);
});

test('any other address is delivered', () => {
  assert.equal(codeOf('bounced@example.net'), 250);
  assert.equal(codeOf('constructor@simulator.test'), 250);
});
