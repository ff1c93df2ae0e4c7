/** The SMTP reply to each refusal. test/journey/submission.test.ts submits messages over SMTP. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Overloaded, REFUSAL_CODES } from '../core/refusals.ts';
import { replyToRefusal, replyToError } from './smtp-submission.ts';
import { AcceptedUnknown } from './store/lost-commits.ts';
import { DatabaseUnavailable } from '../database/database.ts';

test('every refusal has a reply with consistent codes, temporary only where a retry can succeed', () => {
  for (const refused of REFUSAL_CODES) {
    const { code, enhanced, text } = replyToRefusal({ refused, message: 'No.' });
    assert.equal(String(code)[0], enhanced?.[0], refused);
    assert.equal(text, 'No.');
    const isTemporary = ['rate_limit_error', 'service_unavailable'].includes(refused);
    assert.equal(code < 500, isTemporary, refused);
  }
});

test('a problem with From gets a reply about permission', () => {
  const details = [{ field: 'From', message: 'is missing' }];
  const { code, enhanced } = replyToRefusal({ refused: 'validation_error', message: 'x', details });
  assert.deepEqual([code, enhanced], [550, '5.7.1']);
});

test('without the database the reply says whether the message may be stored; an internal error reveals nothing', () => {
  const said = (error: Error) => replyToError(error)?.text ?? '';
  assert.match(said(new Overloaded('the disk is nearly full')), /Nothing .*: the disk is nearly/);
  assert.match(said(new AcceptedUnknown('x')), /may have been accepted\. .* is safe\.$/);
  assert.match(said(new DatabaseUnavailable('x')), /nothing was accepted/);
  assert.equal(replyToError(new Error('a bug')), null);
});
