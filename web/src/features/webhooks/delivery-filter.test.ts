/** The filter of deliveries, from the address of the page to a query of the API. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isFiltered, queryOf, typedText } from './delivery-filter.ts';

const NOW_MS = Date.parse('2026-11-21T08:30:17.000Z');
const given = (search: object) =>
  JSON.parse(JSON.stringify(queryOf(search, NOW_MS))) as Record<string, unknown>;

test('the filter in an address becomes a query, and unknown values are ignored', () => {
  assert.deepEqual(given({}), {});
  assert.deepEqual(given({ status: 'failed', type: 'email.bounced', code: '5xx' }), {
    status: 'failed',
    type: 'email.bounced',
    code: '5xx',
  });
  assert.deepEqual(given({ code: '503' }), { code: '503' });
  assert.deepEqual(given({ status: 'lost', type: 'x', code: '6xx', period: 'age' }), {});
});

test('a period begins at a full minute', () => {
  assert.deepEqual(given({ period: 'hour' }), { since: '2026-11-21T07:30:00.000Z' });
});

test('typed text is an address, or the id of an email or delivery', () => {
  const id = '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa';
  assert.deepEqual(typedText(` ${id.toUpperCase()} `), { id });
  assert.deepEqual(given({ q: id }), { email_id: id });
  assert.deepEqual(given({ q: 'jo@example.com' }), { recipient: 'jo@example.com' });
  assert.equal(typedText('  '), null);
  assert.deepEqual([isFiltered({}), isFiltered({ q: 'jo' })], [false, true]);
});
