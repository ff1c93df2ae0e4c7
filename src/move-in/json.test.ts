/** Lists of records as JSON, in several forms, read in chunks of any size. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { type JsonRecord, NotJson, readJson } from './json.ts';

async function read(text: string, pieceBytes = 1 << 20): Promise<JsonRecord[]> {
  const bytes = Buffer.from(text);
  async function* pieces() {
    for (let at = 0; at < bytes.length; at += pieceBytes) yield bytes.subarray(at, at + pieceBytes);
  }
  const records: JsonRecord[] = [];
  for await (const some of readJson(pieces(), (name) => name === 'items')) records.push(...some);
  return records;
}

const valuesOf = (records: JsonRecord[]) =>
  records.map((record) => ('value' in record ? record.value : record.problem));

test('records are the elements of an array, alone or within an object, or one object for each line', async () => {
  const records = [{ a: 1, b: ['}', '"]'] }, 'x', { c: { d: null } }];
  const [first, second, third] = records.map((record) => JSON.stringify(record));
  const files = [
    `[${first},${second},${third}]`,
    `{"more": {"items": [1]}, "items": [${first}, ${second}, ${third}], "n": 1}`,
    `{"items": [${first}]}\n{"items": []}\n{"items": [${second}, ${third}]}`,
    JSON.stringify({ items: records }, null, 2),
  ];
  for (const file of files) assert.deepEqual(valuesOf(await read(file)), records);
  assert.deepEqual(valuesOf(await read(`${first}\n\r\n${third}\n`)), [records[0], records[2]]);
  assert.deepEqual(await read('[\n{},\n\n{}]'), [
    { line: 2, item: 1, value: {} },
    { line: 4, item: 2, value: {} },
  ]);
});

test('any written array is read back unchanged, in chunks of any size', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.jsonValue({ maxDepth: 3 }), { maxLength: 6 }),
      fc.integer({ min: 1, max: 40 }),
      fc.constantFrom(0, 2),
      async (values, pieceBytes, indent) => {
        const text = JSON.stringify(values, null, indent);
        assert.deepEqual(valuesOf(await read(text, pieceBytes)), JSON.parse(text));
      },
    ),
  );
});

test('an entry that is too long is reported with its place, and the others are read', async () => {
  const long = 'x'.repeat(40_000);
  const deep = `${'['.repeat(500_000)}${']'.repeat(500_000)}`;
  const file = `[{"a":1},\n{"b":"${long}\\""},\n"${long}",\n${deep},\n{"c":2}]`;
  for (const pieceBytes of [997, 1 << 20]) {
    const records = await read(file, pieceBytes);
    assert.deepEqual(
      records.map((record) => [record.line, record.item, 'problem' in record]),
      [
        [1, 1, false],
        [2, 2, true],
        [3, 3, true],
        [4, 4, true],
        [5, 5, false],
      ],
    );
  }
  const wide = Array.from({ length: 4_000 }, (_, n) => `"k${n}":${n}`).join();
  assert.match(String(valuesOf(await read(`{${wide}}`))[0]), /longer than 16 KB/);
});

test('text that is not JSON or is incomplete is refused with its line', async () => {
  const refused = async (text: string): Promise<string> => {
    const error = await read(text).then(
      () => assert.fail(`${text.slice(0, 40)} was read`),
      (thrown: unknown) => thrown,
    );
    assert.ok(error instanceof NotJson, String(error));
    return error.message;
  };
  assert.match(
    await refused('[{"a":1}\n{"b":2}]'),
    /^Line 2 is not JSON: a comma or \] is expected$/,
  );
  assert.match(await refused('[{"a":1},\n{"b":}]'), /^Line 2 is not JSON/);
  assert.match(await refused('[{"a":1},\n{"b"'), /ends in line 2 before it is complete/);
  assert.match(await refused('['.repeat(200_000)), /before it is complete/);
  const wrong = [
    '{"a" 1}',
    '{"a":1,}',
    '[1,]',
    '[1 2]',
    '[nul]',
    '{a:1}',
    '[1]]',
    '["\n"]',
    '[1',
    '{',
  ];
  for (const text of wrong) await refused(text);
  await refused(`[${'1'.repeat(100_000)}]`);
  await refused(`{"${'n'.repeat(100_000)}":1}`);
});
