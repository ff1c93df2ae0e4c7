/** CSV as other services write it, and our own, which is read back unchanged. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { formatCsvRow } from '../lib/csv-row.ts';
import type { Suppression } from '../suppressions/suppression-store.ts';
import {
  type CsvRow,
  readCsv,
  COLUMNS_WITHOUT_NAMES,
  columnsOf,
  CSV_HEADER,
  csvRowOf,
  readCell,
  readRow,
} from './csv.ts';

async function read(text: string | Uint8Array, pieceBytes = 1 << 20): Promise<CsvRow[]> {
  const bytes = Buffer.from(text);
  async function* pieces() {
    for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes);
  }
  const rows: CsvRow[] = [];
  for await (const some of readCsv(pieces())) rows.push(...some);
  return rows;
}

const cellsOf = (rows: CsvRow[]) => rows.map((row) => ('cells' in row ? row.cells : row.problem));

test('quotes, line ends of both kinds, a byte order mark and empty lines are read', async () => {
  const rows = await read('\ufeffa,b\r\n\r\n"c ""d""","e\r\nf"\nlast');
  assert.deepEqual(rows, [
    { line: 1, cells: ['a', 'b'] },
    { line: 3, cells: ['c "d"', 'e\r\nf'] },
    { line: 5, cells: ['last'] },
  ]);
});

test('semicolons and tabs separate where the first line has no comma', async () => {
  assert.deepEqual(cellsOf(await read('a;b\nc;"d;e"')), [
    ['a', 'b'],
    ['c', 'd;e'],
  ]);
  assert.deepEqual(cellsOf(await read('a\tb\n')), [['a', 'b']]);
});

test('a malformed row is reported with its line and affects no other', async () => {
  const long = 'x'.repeat(20_000);
  const file = ['one', '"two"2,x', 'three', long, 'five', '"never closed', 'seven', long];
  for (const pieceBytes of [7, 1000, 1 << 20]) {
    const rows = await read(`${file.join('\n')}\n`, pieceBytes);
    assert.deepEqual(
      rows.map((row) => [row.line, 'cells' in row ? row.cells[0] : 'broken']),
      [
        [1, 'one'],
        [2, 'broken'],
        [3, 'three'],
        [4, 'broken'],
        [5, 'five'],
        [6, 'broken'],
        [7, 'seven'],
        [8, 'broken'],
      ],
    );
  }
});

const cell = fc.string({
  unit: fc.constantFrom('a', '"', ',', ';', '\n', '\r', "'", '=', 'é', '😀'),
});

test('any written table is read back unchanged, in chunks of any size', async () => {
  const write = (text: string) => `"${text.replaceAll('"', '""')}"`;
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(cell, { minLength: 2, maxLength: 4 }), { maxLength: 6 }),
      fc.constantFrom('\n', '\r\n'),
      fc.integer({ min: 1, max: 40 }),
      async (table, lineEnd, pieceBytes) => {
        const text = table.map((row) => row.map(write).join(',') + lineEnd).join('');
        assert.deepEqual(cellsOf(await read(text, pieceBytes)), table);
      },
    ),
  );
});

test('after any bytes, later lines with valid rows are read', async () => {
  const noise = fc.array(cell, { maxLength: 8 }).map((parts) => parts.join('').replaceAll('"', ''));
  await fc.assert(
    fc.asyncProperty(noise, fc.integer({ min: 1, max: 40 }), async (text, pieceBytes) => {
      const rows = cellsOf(await read(`x,y\n${text}\njo@acme.com,manual\n`, pieceBytes));
      assert.deepEqual(rows.at(-1), ['jo@acme.com', 'manual']);
    }),
  );
});

const writeCell = (text: string): string => formatCsvRow([text]).slice(0, -'\r\n'.length);

test('a formula is written with a leading quote, and any cell is read unchanged', () => {
  for (const start of ['=', '+', '-', '@', '\t', '\r']) {
    assert.match(writeCell(`${start}cmd|'/c calc'!A1`), /^"?'[=+\-@\t\r]/);
  }
  assert.equal(writeCell('jo@acme.com'), 'jo@acme.com');
  fc.assert(
    fc.property(cell, (text) => {
      const stored = writeCell(text);
      const unquoted = stored.startsWith('"') ? stored.slice(1, -1).replaceAll('""', '"') : stored;
      assert.doesNotMatch(unquoted, /^[=+\-@\t\r]/);
      if (text === text.trim()) assert.equal(readCell(unquoted), text);
    }),
  );
});

test('an export is imported unchanged', () => {
  const entry: Suppression = {
    address: '+jo@acme.com',
    reason: 'hard_bounce',
    sourceEmailId: '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa',
    createdAt: new Date('2026-11-21T08:30:00.123Z'),
    expiresAt: new Date('2026-11-28T08:30:00.123Z'),
    isSimulated: false,
  };
  const columns = columnsOf(CSV_HEADER.trim().split(','));
  const { sourceEmailId: _source, isSimulated: _mark, ...rest } = entry;
  assert.deepEqual(readRow(csvRowOf(entry).trimEnd().split(','), columns!), rest);
});

test('columns are found by name, or without a header by position', () => {
  assert.deepEqual(columnsOf(['Reason', 'x', 'E-Mail', 'Email Address']), {
    reason: 0,
    address: 3,
  });
  assert.equal(columnsOf(['jo@acme.com', 'reason']), null);
  assert.equal(columnsOf(['constructor', 'toString']), null);
  assert.deepEqual(readRow(['jo@ACME.com'], COLUMNS_WITHOUT_NAMES), {
    address: 'jo@acme.com',
    reason: 'manual',
    createdAt: null,
    expiresAt: null,
  });
});

test('times may omit the time of day, seconds or offset', () => {
  const createdAt = (text: string) => {
    const row = readRow(['jo@acme.com', '', text], COLUMNS_WITHOUT_NAMES);
    return 'problem' in row ? row.problem : row.createdAt?.toISOString();
  };
  assert.equal(createdAt('2026-11-21'), '2026-11-21T00:00:00.000Z');
  assert.equal(createdAt('2026-11-21 08:30'), '2026-11-21T08:30:00.000Z');
  assert.equal(createdAt('2026-11-21T08:30:00.5+0100'), '2026-11-21T07:30:00.500Z');
  const outside = ['0000-01-01', '0001-01-01T00:00+14:00', '9999-12-31T23:59-01:00'];
  for (const wrong of ['21.11.2026', '2026-13-01', 'yesterday', ...outside]) {
    assert.match(createdAt(wrong) ?? '', /^created_at: ".*" is not a time/);
  }
});

test('an invalid row is reported in a sentence', () => {
  const problem = (...cells: string[]) => {
    const row = readRow(cells, COLUMNS_WITHOUT_NAMES);
    return 'problem' in row ? row.problem : null;
  };
  assert.match(problem('bob@') ?? '', /^"bob@" is not an email address/);
  assert.match(problem('') ?? '', /is empty/);
  assert.match(problem('jo@acme.com', 'Bounce') ?? '', /^"Bounce" is not one of hard_bounce/);
  assert.match(problem('j\ufffdrg@acme.com') ?? '', /UTF-8/);
});
