/** The list of emails: merging of new rows, and parsing of a typed search. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EmailSummary } from '../../../../../sdk/src/api.ts';
import {
  asFirst,
  type EmailPage,
  firstPages,
  nextAfter,
  partsToRead,
  rowsUpTo,
  withPart,
} from './email-pages.ts';
import {
  canSearchLive,
  filterInWords,
  joinSearch,
  readSearchText,
  splitSearch,
  statusOf,
  withStatus,
} from './email-search.ts';
import { complete } from './search-completion.ts';

/** Ids grow with time: the newest first. */
function page(ids: string, hasMore = true): EmailPage {
  const data = ids.split('').map((id) => ({ id }) as EmailSummary);
  return { object: 'list', data, has_more: hasMore, scanned_until: null };
}

function idsOf(pages: readonly EmailPage[]): string[] {
  return pages.map(({ data }) => data.map(({ id }) => id).join(''));
}

/** Consecutive pages of 50 rows, from this number down; `count` rows. */
function rows(newest: number, count: number): EmailSummary[] {
  return Array.from({ length: count }, (_, index) => row(newest - index));
}

const idOf = (number: number): string => String(number).padStart(4, '0');
const row = (number: number): EmailSummary => ({ id: idOf(number) }) as EmailSummary;
const ofRows = (data: EmailSummary[], hasMore = true): EmailPage => ({
  object: 'list',
  data,
  has_more: hasMore,
  scanned_until: null,
});

test('a first page that is read again has all new emails before it, and ends where it did', () => {
  const read = [ofRows(rows(230, 50)), ofRows(rows(180, 100))];
  const first = asFirst(read, ofRows(rows(150, 50)));
  assert.deepEqual(idsOf([first]), idsOf([ofRows(rows(230, 130))]));
  assert.equal(nextAfter(first), idOf(101));
  const searched = asFirst(read, { ...ofRows(rows(150, 3)), scanned_until: idOf(120) });
  assert.deepEqual([searched.data.at(-1)!.id, nextAfter(searched)], [idOf(120), idOf(120)]);
  const whole = asFirst([ofRows(rows(12, 12), false)], ofRows(rows(9, 9), false));
  assert.deepEqual([whole.data.length, nextAfter(whole)], [12, undefined]);
});

test('a list that has grown long forgets its last pages, and reads them again from there', () => {
  const shown = [ofRows(rows(150, 50)), ofRows(rows(100, 50)), ofRows(rows(50, 50), false)];
  const kept = firstPages(shown, 2);
  assert.deepEqual(idsOf(kept), idsOf(shown.slice(0, 2)));
  assert.equal(nextAfter(kept.at(-1)!), idOf(51));
  assert.deepEqual(firstPages(shown, 3), shown);
  assert.equal(nextAfter(firstPages(shown, 3).at(-1)!), undefined);
  assert.deepEqual(firstPages([], 2), []);
});

test('a burst of new emails is read as far as the newest known row, so that it leaves no hole', () => {
  const shown = [ofRows(rows(100, 50)), ofRows(rows(50, 50), false)];
  const touched = rows(230, 130).map(({ id }) => id);
  assert.deepEqual(partsToRead(shown, touched), [{ after: undefined, until: idOf(100) }]);
  const read = [ofRows(rows(230, 50)), ofRows(rows(180, 100))];
  const pages = withPart(shown, undefined, read);
  assert.deepEqual(
    pages.flatMap(({ data }) => data.map(({ id }) => id)),
    rows(230, 230).map(({ id }) => id),
  );
  assert.deepEqual(
    pages.map(({ data, has_more: hasMore }) => [data.length, hasMore]),
    [
      [50, true],
      [50, true],
      [50, true],
      [50, true],
      [30, false],
    ],
  );
});

test('an event of an older row reads the rows around it again, and one below the list nothing', () => {
  const shown = [ofRows(rows(200, 50)), ofRows(rows(150, 50)), ofRows(rows(100, 50))];
  assert.deepEqual(partsToRead(shown, [idOf(120), idOf(110), idOf(40)]), [
    { after: idOf(151), until: idOf(110) },
  ]);
  const changed = rows(150, 50)
    .filter(({ id }) => id !== idOf(120))
    .map((one) => (one.id === idOf(110) ? { ...one, subject: 'changed' } : one));
  const all = withPart(shown, idOf(151), [ofRows(changed)]).flatMap(({ data }) => data);
  assert.equal(all.length, 149, 'a row that left the search is dropped');
  assert.equal(all.find(({ id }) => id === idOf(110))?.subject, 'changed');
  assert.deepEqual([all[0]?.id, all.at(-1)?.id], [idOf(200), idOf(51)]);
});

test('a refreshed list goes on where it did, also after a search without results so far', () => {
  const more = withPart([ofRows(rows(9, 3))], undefined, [ofRows(rows(10, 4))]);
  assert.equal(nextAfter(more.at(-1)!), idOf(7));
  const searched: EmailPage = { ...ofRows([]), scanned_until: idOf(3) };
  const read: EmailPage = { ...ofRows([row(12)]), scanned_until: idOf(8) };
  const found = withPart([searched], undefined, [read]);
  assert.deepEqual([idsOf(found), nextAfter(found[0]!)], [[idOf(12)], idOf(3)]);
  const end = withPart([ofRows(rows(9, 3))], undefined, [ofRows(rows(10, 2), false)]);
  assert.deepEqual([idsOf(end), nextAfter(end[0]!)], [[idOf(10) + idOf(9)], undefined]);
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

test('days are those of the member, and become times', () => {
  const nowMs = new Date(2026, 10, 27, 15, 30).getTime();
  const day = (date: number) => new Date(2026, 10, date).toISOString().slice(0, 13);
  const today = readSearchText('x after:yesterday before:TODAY', nowMs);
  assert.equal(today.kind, 'search');
  const [, from = '', until = ''] =
    /after:(\S+) before:(\S+)/.exec('q' in today ? today.q : '') ?? [];
  assert.deepEqual(
    [from, until].map((time) => new Date(time).toISOString().slice(0, 13)),
    [day(26), day(27)],
  );
});

test('a search is split into filters and words, and joined again', () => {
  const splits: [q: string, filters: string[], words: string][] = [
    ['', [], ''],
    ['a to:jo b', ['to:jo'], 'a b'],
    ['reply:"mailbox full" "two words"', ['reply:"mailbox full"'], '"two words"'],
    ['https://acme.com status:', [], 'https://acme.com status:'],
    ['to:a "open', [], 'to:a "open'],
  ];
  for (const [q, filters, words] of splits) {
    assert.deepEqual(splitSearch(q), { filters, words }, q);
    assert.equal(joinSearch({ filters, words }).length, q.length, q);
  }
  assert.deepEqual(filterInWords('reply:"mailbox full"'), { name: 'reply', value: 'mailbox full' });
});

test('the list follows the typing once a word is long enough and nothing is open', () => {
  for (const words of ['', 'fjo', 'a parcel', 'parcel ']) assert.ok(canSearchLive(words), words);
  for (const words of ['f', 'parcel x', 'status:bo', '"your par'])
    assert.ok(!canSearchLive(words), words);
});

test('the choice of a status is part of the search', () => {
  assert.equal(statusOf('tag:a status:bounced x'), 'bounced');
  assert.equal(statusOf('substatus:bounced'), null);
  assert.equal(withStatus('x status:bounced', 'delivered'), 'x status:delivered');
  assert.equal(withStatus('x status:bounced y', ''), 'x y');
});

test('days begin at midnight where the member is', () => {
  const zone = process.env['TZ'];
  const today = (name: string): string | undefined => {
    process.env['TZ'] = name;
    const nowMs = Date.parse('2026-11-21T23:30:00Z');
    return complete('after:2', NOTHING_KNOWN, nowMs)[0]?.token;
  };
  try {
    assert.equal(today('UTC'), 'after:2026-11-21');
    assert.equal(today('Europe/Berlin'), 'after:2026-11-21T23:00Z');
    assert.equal(today('America/New_York'), 'after:2026-11-21T05:00Z');
  } finally {
    if (zone === undefined) delete process.env['TZ'];
    else process.env['TZ'] = zone;
  }
});

const NOTHING_KNOWN = { domain: [], tag: [], template: [], key: [], provider: [] };

test('a search is completed by operators, then by the values that exist', () => {
  process.env['TZ'] = 'UTC';
  const known = {
    ...NOTHING_KNOWN,
    domain: ['acme.test'],
    tag: ['kind:receipt'],
    template: ['Order receipt', 'A "quoted" one'],
    provider: ['google'],
  };
  const tokens = (text: string) =>
    complete(text, known, Date.parse('2026-11-21T12:00:00Z')).map(({ token }) => token);
  assert.deepEqual(tokens('x sta'), ['status:']);
  assert.deepEqual(tokens('status:bo'), ['status:bounced']);
  assert.deepEqual(tokens('domain:'), ['domain:acme.test']);
  assert.deepEqual(tokens('tag:'), ['tag:kind:receipt']);
  assert.deepEqual(
    tokens('template:'),
    ['template:"Order receipt"'],
    'no quotation mark in a name',
  );
  assert.deepEqual(tokens('provider:g'), ['provider:google']);
  assert.deepEqual(tokens('reason:mail'), ['reason:mailbox']);
  assert.deepEqual(tokens('after:2026-11-2'), ['after:2026-11-21', 'after:2026-11-20']);
  assert.deepEqual(tokens('"status:bo'), [], 'quoted text is not completed');
  assert.deepEqual(tokens('x '), []);
  assert.equal(complete('a status:bo', known, 0)[0]?.text, 'a status:bounced ');
});
