/** Responses of a receiver, as the dashboard words them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { answerInWords, firstLine, resultOf, sayingOf, stateOf } from './responses.ts';

const said = (status: number, answer: string) => ({ status, answer, error: null });
const silent = { status: null, answer: null, error: 'The connection was refused.' };

test('the message of a response is found in JSON, in HTML and in text', () => {
  const sayings: [string, string | null][] = [
    ['{"error":"database is locked","trace":"a71f"}', 'database is locked'],
    ['{"error":{"code":7,"message":"no such table: \\"orders\\""}}', 'no such table: "orders"'],
    ['{"message":"cut off in the midd', 'cut off in the midd'],
    ['<html><head><title>502 Bad Gateway</title></head>', '502 Bad Gateway'],
    ['  Internal error\nat line 7', 'Internal error'],
    [' \n', null],
  ];
  for (const [answer, saying] of sayings) assert.equal(sayingOf(answer), saying);
});

test('a failure is one sentence with its status and message', () => {
  assert.equal(
    answerInWords(said(500, '{"error":"database is locked"}')),
    'answers 500, “database is locked”',
  );
  assert.equal(answerInWords(said(404, '')), 'answers 404');
  assert.equal(answerInWords(silent), 'does not answer: The connection was refused.');
});

test('a row shows the response in one line, and nothing before the first attempt', () => {
  assert.equal(firstLine(said(500, 'two\n lines')), 'two lines');
  const of = (last: object | null) => resultOf({ last_attempt: last as never });
  assert.equal(of(said(200, 'OK')), '200 OK');
  assert.equal(of(said(404, '')), '404');
  assert.equal(of(silent), 'The connection was refused.');
  assert.equal(of(null), null);
});

test('a webhook is failing while its attempts fail; a disabled one is disabled', () => {
  const at = '2026-11-21T08:30:00.000Z';
  assert.equal(stateOf({ status: 'enabled', failing_since: null }), 'enabled');
  assert.equal(stateOf({ status: 'enabled', failing_since: at }), 'failing');
  assert.equal(stateOf({ status: 'disabled', failing_since: at }), 'disabled');
});
