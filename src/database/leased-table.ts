/**
 * The statements that release claims, and find claims that only the table has, for each table of leased rows
 * (leased-queue.ts). They are made from the table's columns.
 */
import type { Queryable } from './database.ts';

type Columns = Readonly<
  Record<string, 'uuid' | 'smallint' | 'int' | 'float8' | 'text' | 'boolean'>
>;

/** A claim to release, with its lease and the milliseconds until the row is due again. */
export type Released<Claim> = Claim & { holder: string; delayMs: number };

export type LeasedTable<Key extends object, Claim extends Key> = {
  rows: 'recipients' | 'webhooks';
  keyOf: (key: Key) => string;
  /** Releases claims; rows under another lease do not change. @returns the number of released rows */
  release: (db: Queryable, claims: readonly Released<Claim>[]) => Promise<number>;
  /** Finds rows leased to `holder` that are not known, at most UNKNOWN_CLAIMS_MAX. Reads the whole table. */
  findUnknown: (db: Queryable, holder: string, known: readonly Key[]) => Promise<Claim[]>;
  /** Whether the row was stored with this claim. Memory gets such a claim only with the answer of the statement. */
  mayBeOnItsWay: (claim: Claim) => boolean;
  unknown?: Partial<Claim>;
};

type Shape<Claim> = Pick<
  LeasedTable<object, Claim & object>,
  'rows' | 'mayBeOnItsWay' | 'unknown'
> & {
  name: string;
  key: Columns;
  /** Columns of an unknown claim, besides its key. */
  found?: Columns;
  /** Further columns that a release may have. */
  said?: Columns;
  /** Assignments of a release, from the row `q` and the values `i` of the release. */
  set: string;
  beforeRelease?: () => void;
};

export const UNKNOWN_CLAIMS_MAX = 10_000;

export function leasedTable<Key extends object, Claim extends Key>(
  shape: Shape<Claim>,
): LeasedTable<Key, Claim> {
  const { name, rows, key, found = {}, said = {}, set, beforeRelease } = shape;
  const ids: Columns = { project_id: 'uuid', ...key };
  const fence: Columns = { ...ids, claim: 'int', holder: 'uuid' };
  const columns: Columns = { ...fence, delay_ms: 'float8', ...found, ...said };
  // The ids are repeated as arrays, so that any join plan starts from them.
  const release = `
update ${name} q set holder = null, ${set}
  from unnest(${typesFrom(1, columns)}) as i(${Object.keys(columns).join()})
 where ${equal('q', 'i', fence)}
   and ${Object.keys(ids)
     .flatMap((id, at) => (ids[id] === 'uuid' ? [`q.${id} = any($${at + 1}::uuid[])`] : []))
     .join(' and ')}
returning 1`;
  const selected = Object.keys({ ...ids, claim: 'int', ...found });
  const findUnknown = `
select ${selected.map((column) => `q.${column} as "${camelCased(column)}"`).join()} from ${name} q
 where q.holder = $1::uuid
   and not exists (select from unnest(${typesFrom(2, key)}) as k(${Object.keys(key).join()})
                    where ${equal('k', 'q', key)})
 limit ${UNKNOWN_CLAIMS_MAX}`;
  return {
    ...shape,
    keyOf: (one) =>
      Object.keys(key)
        .map((column) => valueOf(one, column))
        .join(' '),
    async release(db, claims) {
      beforeRelease?.();
      const statement = { name: `${rows}_release`, text: release };
      return (await db.query(statement, valuesOf(claims, columns))).length;
    },
    findUnknown: (db, holder, known) =>
      db.query<Claim>(findUnknown, [holder, ...valuesOf(known, key)]),
  };
}

function typesFrom(first: number, columns: Columns): string {
  return Object.values(columns)
    .map((type, index) => `$${first + index}::${type}[]`)
    .join();
}

function equal(one: string, other: string, columns: Columns): string {
  return Object.keys(columns)
    .map((column) => `${one}.${column} = ${other}.${column}`)
    .join(' and ');
}

function valuesOf(items: readonly object[], columns: Columns): unknown[][] {
  return Object.keys(columns).map((column) => items.map((item) => valueOf(item, column)));
}

function valueOf(item: object, column: string): unknown {
  return (item as Record<string, unknown>)[camelCased(column)] ?? null;
}

function camelCased(column: string): string {
  return column.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase());
}
