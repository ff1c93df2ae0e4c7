/**
 * `npm run bench -- storage`: measures the bytes on disk per email, by table and index. The service accepts the emails
 * over HTTP and delivers them to the sink, so every recipient has ended. The mail is that of the other rows
 * (parts/mail-text.ts): an order confirmation compresses well, and random letters would not.
 */
import { Sink } from './parts/children.ts';
import { Rig } from './parts/rig.ts';
import { show } from './numbers.ts';
import { endToEndRound } from './rates.ts';
import { alignColumns } from './report.ts';

export type StorageOptions = { emails: number; workers: number };

const HTML_BYTES = 2_048;
/** Rounds. After each, a vacuum removes dead rows, as autovacuum does when a fifth of a table is dead. */
const ROUNDS = 5;
const TABLES = ['contents', 'emails', 'events', 'recipients'];

/** Adds up the partitions and their indexes, by the names of the parents. */
const SIZES = `
select parent.name as "table", part.name as "index", sum(part.bytes)::float8 as bytes
  from unnest($1::text[]) as parent(name)
  join pg_inherits on pg_inherits.inhparent = parent.name::regclass
 cross join lateral (
    select null as name, pg_table_size(pg_inherits.inhrelid) as bytes
    union all
    select pg_partition_root(pg_index.indexrelid)::regclass::text, pg_relation_size(pg_index.indexrelid)
      from pg_index where pg_index.indrelid = pg_inherits.inhrelid) part
 group by 1, 2
 order by 1, 2 nulls first`;

/** Bytes of an index. When `index` is null: bytes of the table with its TOAST table. */
type Size = { table: string; index: string | null; bytes: number };

/** @returns the table as text */
export async function measureStorage(
  { emails, workers }: StorageOptions,
  say: (line: string) => void,
): Promise<string> {
  await using sink = await Sink.start();
  await using rig = await Rig.start({ workers, mxPort: sink.port });
  const before = await sizesOf(rig);
  for (let round = 1; round <= ROUNDS; round += 1) {
    say(`  ${Math.round((emails * round) / ROUNDS).toLocaleString('en-US')} emails of 2 KB`);
    const count =
      Math.floor((emails * round) / ROUNDS) - Math.floor((emails * (round - 1)) / ROUNDS);
    await endToEndRound({ rig, sink }, { count, htmlBytes: HTML_BYTES });
    if (round < ROUNDS) await rig.service.sql('vacuum emails, recipients');
  }
  const sizes = (await sizesOf(rig)).map((size, index) => ({
    ...size,
    bytes: (size.bytes - before[index]!.bytes) / emails,
  }));
  return `${alignColumns([
    ['bytes of an email', 'rows', 'index', 'in all', 'GB of a million'],
    ...TABLES.flatMap((table) => rowsOf(sizes.filter((size) => size.table === table))),
    ['together', '', '', ...total(sizes)],
  ])}\n`;
}

async function sizesOf(rig: Rig): Promise<Size[]> {
  return (await rig.service.sql(SIZES, [TABLES])) as Size[];
}

function rowsOf(own: readonly Size[]): string[][] {
  return own.map(({ table, index, bytes }) =>
    index === null ? [table, show(bytes), '', ...total(own)] : [`  ${index}`, '', show(bytes)],
  );
}

function total(sizes: readonly Size[]): string[] {
  const bytes = sizes.reduce((sum, size) => sum + size.bytes, 0);
  return [show(bytes), (bytes / 1_000).toFixed(2)];
}
