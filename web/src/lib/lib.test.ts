/** Times, numbers and files as they are shown. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { noteServerTime, serverNowMs } from './clock.ts';
import { csvOf } from './csv.ts';
import { count, megabytes, recipients, sizeInWords, successRate } from './numbers.ts';
import { inWords, relativeTime } from './time.ts';
import { asSentence } from './words.ts';

test('a time is shown in the largest unit that fits', () => {
  const shown = [0.25, 1.44, 12, 90, 7_200, 200_000].map(inWords);
  assert.deepEqual(shown, ['250 ms', '1.4 s', '12 s', '2 min', '2 h', '2 d']);
  const at = '2026-11-21T08:30:00Z';
  const relative = [2, 61, -3, -90].map((seconds) => relativeTime(seconds, at));
  assert.deepEqual(relative, ['now', '1 min ago', 'now', 'in 2 min']);
  assert.match(relativeTime(86_400, at), /21/);
});

test('a computer whose clock is wrong shows the time of the service', () => {
  const at = (ms: number): string => new Date(Date.now() + ms).toUTCString();
  const isWithin = (ms: number): boolean => Math.abs(serverNowMs() - Date.now() - ms) < 30_000;
  noteServerTime(at(300_000));
  assert.ok(isWithin(300_000));
  noteServerTime(null);
  assert.ok(isWithin(300_000), 'a response without a date changes nothing');
  noteServerTime(at(0));
  assert.ok(isWithin(0));
});

test('an estimate is rounded to two digits, a count is not', () => {
  assert.equal(count(123_456, true), `≈ ${(120_000).toLocaleString()}`);
  assert.equal(count(123_456, false), (123_456).toLocaleString());
  assert.equal(count(999, true), '999');
  assert.deepEqual([recipients(1), recipients(2)], ['1 recipient', '2 recipients']);
  assert.deepEqual([512, 49_152, 1_572_864].map(sizeInWords), ['512 B', '48 KB', '1.5 MB']);
  assert.equal(megabytes(1), '1 MB');
});

test('a rate of successes is rounded, but one failure among many is not 100 percent', () => {
  const percent = new Intl.NumberFormat(undefined, { style: 'percent', maximumFractionDigits: 1 });
  const rates = [successRate(454, 483), successRate(9_999, 10_000), successRate(5, 5)];
  assert.deepEqual(
    rates,
    [0.94, 0.999, 1].map((rate) => percent.format(rate)),
  );
  assert.equal(successRate(0, 0), '–');
});

test('a finding is shown as a sentence, and a host that it begins with is not changed', () => {
  assert.equal(asSentence('there is no MX record: add it'), 'There is no MX record: add it.');
  assert.equal(asSentence('send.acme.com has no MX.'), 'send.acme.com has no MX.');
});

test('no cell of a CSV file is computed as a formula', () => {
  const columns = [['text', (text: string) => text]] as const;
  const rows = ['plain', 'a "b", c', '=1+1', '-2', 'two\nlines'];
  assert.equal(
    csvOf(columns, rows),
    'text\r\nplain\r\n"a ""b"", c"\r\n\'=1+1\r\n\'-2\r\n"two\nlines"\r\n',
  );
});
