/**
 * Shows how a search text is parsed. src/emails/email-store.test.ts has filters in the database,
 * test/isolation/searches.test.ts their cost.
 */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { readSearch, SEARCH_MAX } from './search.ts';

function restricted(text: string): object {
  const search = readSearch(text);
  return Object.fromEntries(Object.entries(search).filter(([, value]) => value !== null));
}

const ID = '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa';

const SEARCHES: [text: string, restricts: object][] = [
  ['', {}],
  ['  ', {}],
  ['receipt', { words: ['receipt'] }],
  ['Your  receipt', { words: ['Your', 'receipt'] }],
  ['"Your receipt" 4711', { words: ['Your receipt', '4711'] }],
  ['""', {}],
  ['1 2 3 4 5 6 7 8', { words: ['1', '2', '3', '4', '5', '6', '7', '8'] }],
  ['to:jo@example.com', { to: 'jo@example.com' }],
  ['TO:Jo@Example.com', { to: 'jo@example.com' }],
  ['to:"Jo <jo@example.com>"', { to: 'jo@example.com' }],
  ['to:@example.com', { toPart: '@example.com' }],
  ['to:jo', { toPart: 'jo' }],
  ['from:hello@acme.com', { from: 'hello@acme.com' }],
  ['from:Harbor', { fromPart: 'Harbor' }],
  ['subject:"order 4711"', { subject: ['order 4711'] }],
  ['reply:"mailbox full"', { reply: 'mailbox full' }],
  ['server:mx1.', { server: 'mx1.' }],
  [ID, { id: ID }],
  [ID.toUpperCase(), { id: ID }],
  [`id:${ID}`, { id: ID }],
  [`<${ID}@acme.com>`, { id: ID }],
  [`id:<${ID}@acme.com>`, { id: ID }],
  [`"${ID}"`, { words: [ID] }],
  ['status:Bounced', { status: 'bounced' }],
  ['domain:BÜCHER.example', { domain: 'xn--bcher-kva.example' }],
  ['tag:kind', { tag: { name: 'kind' } }],
  ['tag:kind:receipt', { tag: { name: 'kind', value: 'receipt' } }],
  ['template:"Order receipt"', { template: 'Order receipt' }],
  ['key:Production', { key: 'Production' }],
  ['provider:google', { provider: 'google' }],
  ['reason:Mailbox', { reason: 'mailbox' }],
  ['after:2026-11-21', { createdAfter: new Date('2026-11-21T00:00:00Z') }],
  ['before:2026-11-21T09:00+01:00', { createdBefore: new Date('2026-11-21T08:00:00Z') }],
  ['after:"2026-11-21t09:00:00.123z"', { createdAfter: new Date('2026-11-21T09:00:00.123Z') }],
  ['Re: order', { words: ['Re:', 'order'] }],
  ['at 10:30', { words: ['at', '10:30'] }],
  ['"see https://acme.com"', { words: ['see https://acme.com'] }],
  ['100% _ \\', { words: ['100%', '_', '\\'] }],
  [
    'to:jo@example.com hello status:bounced "a b"',
    { to: 'jo@example.com', status: 'bounced', words: ['hello', 'a b'] },
  ],
];

for (const [text, expected] of SEARCHES) {
  test(`a search is read: ${text}`, () => assert.deepEqual(restricted(text), expected));
}

const REFUSED: [text: string, problem: RegExp][] = [
  ['too:jo@example.com', /^too: is not an operator; use to:, from:, subject:, .*quotation marks$/],
  ['https://acme.com', /^https: is not an operator/],
  ['to:', /^to: "" is not an address or a part of one$/],
  ['from: jo@example.com', /^from: "" is not an address or a part of one$/],
  ['reply:', /^reply: "" is not a part of a reply$/],
  ['id:4711', /^id: "4711" is not the id of an email$/],
  [`${ID} ${ID}`, /^has id: twice/],
  ['status:gone', /^status: "gone" is not one of sending, .*bounced/],
  ['domain:-', /^domain: "-" is not a domain name/],
  ['tag:a:b:c', /^tag: "a:b:c" is not a tag/],
  ['after:yesterday', /^after: "yesterday" is not a date/],
  ['after:2026-02-30', /^after: .* is not a date/],
  ['before:2026-11-21T09:00', /^before: .*with its offset/],
  ['to:a@b.test to:c@d.test', /^has to: twice/],
  ['"open', /^has an unclosed quotation mark$/],
  ['to:"jo', /quotation mark/],
  ['1 2 3 4 5 6 7 8 9', /^has more than 8 words; put consecutive words/],
];

for (const [text, problem] of REFUSED) {
  test(`a search is refused: ${text}`, () => {
    const search = readSearch(text);
    assert.ok('problems' in search);
    assert.match(search.problems[0]!, problem);
  });
}

test('all problems are reported at once', () => {
  const search = readSearch('too:a to: status:c');
  assert.equal('problems' in search && search.problems.length, 3);
});

test('a quoted text that contains an operator is searched literally', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', minLength: 1 }), (text) => {
      const quoted = text.replaceAll('"', '');
      fc.pre(quoted !== '');
      assert.deepEqual(restricted(`"${quoted}"`), { words: [quoted] });
    }),
  );
});

test('the longest search is read in time', () => {
  for (const text of ['a:', 'a ', '"', 'a:"', ': ']) {
    const search = readSearch(text.repeat(SEARCH_MAX / text.length));
    assert.ok(typeof search === 'object');
  }
  fc.assert(
    fc.property(fc.string({ maxLength: SEARCH_MAX }), (text) => {
      assert.doesNotThrow(() => readSearch(text));
    }),
  );
});
