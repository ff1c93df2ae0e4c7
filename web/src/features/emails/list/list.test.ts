/** The list of emails: merging of new rows, and parsing of a typed search. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EmailSummary } from '../../../../../sdk/src/api.ts';
import { type EmailPage, rowsUpTo, mergeFirst, nextAfter } from './email-pages.ts';
import { readSearchText, statusOf, withStatus } from './email-search.ts';
import { complete } from './search-completion.ts';

/** Ids grow with time: the newest first. */
function page(ids: string, hasMore = true): EmailPage {
  const data = ids.split('').map((id) => ({ id }) as EmailSummary);
  return { object: 'list', data, has_more: hasMore, scanned_until: null };
}

function idsOf(pages: readonly EmailPage[]): string[] {
  return pages.map(({ data }) => data.map(({ id }) => id).join(''));
}

test('a newer first page replaces the first one, and rows that it pushed out stay before the next page', () => {
  assert.deepEqual(idsOf(mergeFirst(page('fed'), [page('dcb'), page('a')])), ['fedcb', 'a']);
});

test('a row that is gone from the first page is dropped, and a changed one is shown once', () => {
  assert.deepEqual(idsOf(mergeFirst(page('dba'), [page('dcb')])), ['dba']);
});

test('a newer first page does not end a list that has more', () => {
  const [first] = mergeFirst(page('c', false), [page('b', true), page('a', false)]);
  assert.equal(first?.has_more, true);
  assert.deepEqual(idsOf(mergeFirst(page('b'), [])), ['b']);
});

test('the next page begins after the last row, or where the search has looked', () => {
  assert.equal(nextAfter(page('cb')), 'b');
  assert.equal(nextAfter({ ...page('cb'), scanned_until: 'a' }), 'a');
  assert.equal(nextAfter(page('cb', false)), undefined);
});

test('rows that arrive while the list is read wait, and older ones that are loaded do not', () => {
  const [{ data }] = [page('edcba')];
  assert.equal(rowsUpTo(data, null).length, 5);
  assert.deepEqual(
    rowsUpTo(data, 'c').map(({ id }) => id),
    ['c', 'b', 'a'],
  );
});

const ID = '0193F2A4-7C1E-7B3A-9D52-6F0E8C4B21AA';

test('an id opens its email, and an address is searched as a recipient', () => {
  const read: [typed: string, wanted: ReturnType<typeof readSearchText>][] = [
    [` ${ID} `, { kind: 'id', id: ID.toLowerCase() }],
    ['jo@acme.test', { kind: 'search', q: 'to:jo@acme.test' }],
    ['hello jo@acme.test x', { kind: 'search', q: 'hello to:jo@acme.test x' }],
    ['from:jo@acme.test', { kind: 'search', q: 'from:jo@acme.test' }],
    ['"to jo@acme.test"', { kind: 'search', q: '"to jo@acme.test"' }],
    ['', { kind: 'search', q: '' }],
  ];
  for (const [typed, wanted] of read) assert.deepEqual(readSearchText(typed), wanted, typed);
});

test('the choice of a status is part of the search', () => {
  assert.equal(statusOf('tag:a status:bounced x'), 'bounced');
  assert.equal(statusOf('substatus:bounced'), null);
  assert.equal(withStatus('x status:bounced', 'delivered'), 'x status:delivered');
  assert.equal(withStatus('x status:bounced y', ''), 'x y');
});

test('a search is completed by operators, then by the values that exist', () => {
  const known = { domains: ['acme.test'], tags: ['kind:receipt', 'two words'] };
  const tokens = (text: string) =>
    complete(text, known, Date.parse('2026-11-21T12:00:00Z')).map(({ token }) => token);
  assert.deepEqual(tokens('x sta'), ['status:']);
  assert.deepEqual(tokens('status:bo'), ['status:bounced']);
  assert.deepEqual(tokens('domain:'), ['domain:acme.test']);
  assert.deepEqual(tokens('tag:'), ['tag:kind:receipt'], 'a tag that cannot be typed is left out');
  assert.deepEqual(tokens('after:2026-11-2'), ['after:2026-11-21', 'after:2026-11-20']);
  assert.deepEqual(tokens('"status:bo'), [], 'quoted text is not completed');
  assert.deepEqual(tokens('x '), []);
  assert.equal(complete('a status:bo', known, 0)[0]?.text, 'a status:bounced ');
});
