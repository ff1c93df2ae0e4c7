/** Shows how the problems of the fields of a request become one refusal. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { refuseFields } from './refusals.ts';

test('one problem is reported with the name of its field', () => {
  const problem = { field: 'to[2]', message: '"bob@" is not an email address' };
  assert.deepEqual(refuseFields([problem]), {
    refused: 'validation_error',
    message: 'to[2]: "bob@" is not an email address',
    details: [problem],
  });
});

test('several problems are counted in the message and listed in the details', () => {
  const problems = ['a', 'b', 'c'].map((field) => ({ field, message: 'is required' }));
  const refusal = refuseFields(problems);
  assert.equal(refusal.message, 'a: is required (and 2 more problems)');
  assert.deepEqual(refusal.details, problems);
});

test('a problem of the whole body names no field', () => {
  assert.equal(
    refuseFields([
      { field: '', message: 'no' },
      { field: '', message: 'x' },
    ]).message,
    'no (and 1 more problem)',
  );
});

test('thousands of problems do not make a large response', () => {
  const problems = Array.from({ length: 5_000 }, (_, index) => ({
    field: `to[${index}]`,
    message: 'must be a string',
  }));
  const refusal = refuseFields(problems);
  assert.equal(refusal.details?.length, 20);
  assert.match(refusal.message, /4999 more/);
});
