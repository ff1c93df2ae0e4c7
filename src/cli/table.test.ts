/** Tables on terminals of different widths. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Column, table } from './table.ts';

const ID = '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa';
const COLUMNS: Column[] = ['ID', { heading: 'TO', cut: 2 }, { heading: 'SUBJECT', cut: 1 }];

function shown(rows: string[][], widthColumns?: number, columns = COLUMNS): string[] {
  const cli = { program: 'letterhaus', ...(widthColumns !== undefined && { widthColumns }) };
  return table(cli, { columns, rows, none: '' }).split('\n');
}

const ROW = [ID, 'somebody.with.a.name@example.org', 'Your receipt of the third of November'];

test('a table that fits the terminal is not cut', () => {
  const wide = shown([ROW], 200);
  assert.equal(wide[1], ROW.join('   '));
});

test('a table that is too wide is cut in the column with the lowest priority', () => {
  const [, line = ''] = shown([ROW], 90);
  assert.equal(line, `${ID}   somebody.with.a.name@example.org   Your receipt of…`);
  assert.ok(line.length <= 90);
});

test('a table that is still too wide is cut in the next column, and never in an id', () => {
  const [, line = ''] = shown([ROW], 70);
  assert.equal(line, `${ID}   somebody.with.a…   Your receip…`);
  const [, narrow] = shown([ROW], 20);
  assert.equal(narrow, `${ID}   somebody.wi…   Your receip…`);
});

test('nothing is cut where stdout is not a terminal', () => {
  assert.equal(shown([ROW])[1], ROW.join('   '));
});

test('a column of sentences continues on the next lines, in whole words', () => {
  const columns: Column[] = ['RECIPIENT', { heading: 'LAST REPLY', wraps: true }];
  const reply = '550 5.1.1 The address was not found: check it for a typing mistake';
  const lines = shown([['jo@example.org', reply]], 50, columns);
  assert.deepEqual(lines, [
    'RECIPIENT        LAST REPLY',
    'jo@example.org   550 5.1.1 The address was not',
    '                 found: check it for a typing',
    '                 mistake',
  ]);
  assert.equal(
    shown([['jo@example.org', reply]], undefined, columns)[1],
    `jo@example.org   ${reply}`,
  );
});

test('characters that take two columns, or none, are counted that way', () => {
  const columns: Column[] = [{ heading: 'SUBJECT', cut: 1 }, 'STATUS'];
  const lines = shown(
    [
      ['領収書のお知らせです', 'sent'],
      ['e\u0301te\u0301', 'sent'],
    ],
    22,
    columns,
  );
  const columnsOf = 'SUBJECT         STATUS';
  assert.deepEqual(lines, [columnsOf, '領収書のお知…   sent', 'e\u0301te\u0301             sent']);
});

test('control sequences in a cell never reach the terminal', () => {
  for (const width of [undefined, 80]) {
    const [, line = ''] = shown([[ID, 'a\u001b[31mb\u0007', 'x\r\ny']], width);
    assert.equal(line, `${ID}   ab    x y`);
  }
});
