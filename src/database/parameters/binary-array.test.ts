/** Generated arrays in PostgreSQL's binary format, read by a real PostgreSQL. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import fc from 'fast-check';
import { testDatabase } from '../../../test/support/postgres.ts';
import { binaryArray } from './binary-array.ts';
import { CHARACTER } from '../../../test/support/characters.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;

async function readBack(type: 'text' | 'bytea' | 'json', array: Buffer): Promise<unknown> {
  const bytes = type === 'bytea' ? 'item' : `convert_to(item::text, 'UTF8')`;
  const [row] = await db.query<{ items: unknown }>(
    `select to_json(array(select encode(${bytes}, 'hex')
                            from unnest($1::${type}[]) with ordinality as i(item, n)
                           order by n)) as items`,
    [array],
  );
  return row?.items;
}

const hexOf = (item: string | Buffer | null) =>
  item === null ? null : Buffer.from(item as string).toString('hex');

test('PostgreSQL reads texts, bytes and nulls unchanged and in order', async () => {
  const texts = fc.string({ unit: CHARACTER }).map((text) => text.replaceAll('\0', ''));
  const bytes = fc.uint8Array().map((octets) => Buffer.from(octets));
  const items = fc.array(fc.option(texts));
  await fc.assert(
    fc.asyncProperty(items, fc.array(fc.option(bytes)), async (written, raw) => {
      assert.deepEqual(await readBack('text', binaryArray('text', written)), written.map(hexOf));
      assert.deepEqual(await readBack('bytea', binaryArray('bytea', raw)), raw.map(hexOf));
    }),
  );
  const pieces = fc.array(fc.option(fc.array(texts)));
  await fc.assert(
    fc.asyncProperty(pieces, async (written) => {
      const joined = written.map((item) => item && item.join(''));
      assert.deepEqual(await readBack('text', binaryArray('text', written)), joined.map(hexOf));
    }),
  );
  const json = [JSON.stringify([{ filename: 'a "b" \\ {c}.txt' }]), null];
  assert.deepEqual(await readBack('json', binaryArray('json', json)), json.map(hexOf));
});
