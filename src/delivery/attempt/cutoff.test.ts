/** Messages in progress when a worker stops: before the final dot they end, after it they are waited for. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Cutoff } from './cutoff.ts';

const never = new Promise<string>(() => {});

test('a stop ends messages before their final dot and waits for the others', async () => {
  const cutoff = new Cutoff();
  const dot = { unsent: false, sent: true };
  const unsent = cutoff.untilCut(never, () => dot.unsent);
  const sent = Promise.withResolvers<string>();
  const waited = cutoff.untilCut(sent.promise, () => dot.sent);
  cutoff.cutUnsent();
  assert.equal(await unsent, 'unsent');
  assert.equal(cutoff.hasBegun, true);
  sent.resolve('250 taken');
  assert.equal(await waited, '250 taken');
});

test('a message without a reply to its final dot ends in doubt', async () => {
  const cutoff = new Cutoff();
  const waited = cutoff.untilCut(never, () => true);
  cutoff.cutUnsent();
  cutoff.cutAll();
  assert.equal(await waited, 'in_doubt');
});

test('an attempt that begins after the stop ends at once', async () => {
  const cutoff = new Cutoff();
  cutoff.cutUnsent();
  assert.equal(await cutoff.untilCut(never, () => false), 'unsent');
});
