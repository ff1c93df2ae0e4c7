import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Overloaded, REFUSAL_CODES } from '../core/refusals.ts';
import { replyTo, replyToThrown } from './submission.ts';
import { AcceptedUnknown } from '../store/accept.ts';
import { DatabaseUnavailable } from '../store/postgres/database.ts';

test('every refusal has a reply whose codes agree, and only what passes by itself is temporary', () => {
  for (const refused of REFUSAL_CODES) {
    const { code, enhanced, text } = replyTo({ refused, message: 'No.' });
    assert.equal(String(code)[0], enhanced?.[0], refused);
    assert.equal(text, 'No.');
    const isTemporary = ['rate_limit_error', 'service_unavailable'].includes(refused);
    assert.equal(code < 500, isTemporary, refused);
  }
});

test('what is wrong with From is a question of what is allowed', () => {
  const details = [{ field: 'From', message: 'is missing' }];
  const { code, enhanced } = replyTo({ refused: 'validation_error', message: 'x', details });
  assert.deepEqual([code, enhanced], [550, '5.7.1']);
});

test('a service that cannot store says whether it may have, a bug says nothing', () => {
  const said = (error: Error) => replyToThrown(error)?.text ?? '';
  assert.match(said(new Overloaded('the disk is nearly full')), /Nothing .*: the disk is nearly/);
  assert.match(said(new AcceptedUnknown('x')), /may have been accepted\. .* is safe\.$/);
  assert.match(said(new DatabaseUnavailable('x')), /nothing was accepted/);
  assert.equal(replyToThrown(new Error('a bug')), null);
});
