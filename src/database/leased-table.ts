/**
 * The statements that release claims, and find claims that only the table has, for each table of leased rows
 * (leased-queue.ts). They are made from the table's columns.
 */
import type { Queryable } from './database.ts';

type Columns = Readonly<
  Record<string, 'uuid' | 'smallint' | 'int' | 'float8' | 'text' | 'boolean'>
>;

/** A claim to release, with its lease and the milliseconds until the row is due again. */
export type ClaimRelease<Claim> = Claim & { leaseId: string; delayMs: number };

export type LeasedTable<Key extends object, Claim extends Key> = {
  rowNoun: 'recipients' | 'webhooks';
  keyOf: (key: Key) => string;
  /**
   * Releases claims. Rows under another lease do not change.
   * @returns the number of released rows
   */
  release: (db: Queryable, claims: readonly ClaimRelease<Claim>[]) => Promise<number>;
  /** Finds rows leased under `leaseId` that are not known, at most UNKNOWN_CLAIMS_MAX. Reads the whole table. */
  findUnknown: (db: Queryable, leaseId: string, known: readonly Key[]) => Promise<Claim[]>;
  /** Returns whether the row was stored with this claim, so memory gets it only with the result of the statement. */
  mayBeInFlight: (claim: Claim) => boolean;
  unknownClaimDefaults?: Partial<Claim>;
};

type TableDefinition<Claim> = Pick<
  LeasedTable<object, Claim & object>,
  'rowNoun' | 'mayBeInFlight' | 'unknownClaimDefaults'
> & {
  name: string;
  key: Columns;
  /** Columns of an unknown claim, besides its key. */
  claimColumns?: Columns;
  /** Further columns that a release may have. */
  releaseColumns?: Columns;
  /** Assignments of a release, from the row `queue` and the values `input` of the release. */
  setClause: string;
  beforeRelease?: () => void;
};

export const UNKNOWN_CLAIMS_MAX = 10_000;

export function createLeasedTable<Key extends object, Claim extends Key>(
  definition: TableDefinition<Claim>,
): LeasedTable<Key, Claim> {
  const { rowNoun, key, claimColumns = {}, releaseColumns = {}, beforeRelease } = definition;
  const ids: Columns = { project_id: 'uuid', ...key };
  const columns: Columns = {
    ...ids,
    claim: 'int',
    lease_id: 'uuid',
    delay_ms: 'float8',
    ...claimColumns,
    ...releaseColumns,
  };
  const release = { name: `${rowNoun}_release`, text: releaseSql(definition, ids, columns) };
  const findUnknown = findUnknownSql(definition, { ...ids, claim: 'int', ...claimColumns });
  return {
    ...definition,
    keyOf: (row) =>
      Object.keys(key)
        .map((column) => valueOf(row, column))
        .join(' '),
    async release(db, claims) {
      beforeRelease?.();
      return (await db.query(release, valuesOf(claims, columns))).length;
    },
    findUnknown: (db, leaseId, known) =>
      db.query<Claim>(findUnknown, [leaseId, ...valuesOf(known, key)]),
  };
}

/** Fenced by claim and lease. The ids are repeated as arrays, so that any join plan starts from them. */
function releaseSql(
  { name, setClause }: Pick<TableDefinition<unknown>, 'name' | 'setClause'>,
  ids: Columns,
  columns: Columns,
): string {
  return `
update ${name} queue set holder = null, ${setClause}
  from unnest(${typedParameters(1, columns)}) as input(${Object.keys(columns).join()})
 where ${equalColumns('queue', 'input', { ...ids, claim: 'int' })} and queue.holder = input.lease_id
   and ${Object.keys(ids)
     .flatMap((id, at) => (ids[id] === 'uuid' ? [`queue.${id} = any($${at + 1}::uuid[])`] : []))
     .join(' and ')}
returning 1`;
}

function findUnknownSql(
  { name, key }: Pick<TableDefinition<unknown>, 'name' | 'key'>,
  selected: Columns,
): string {
  const aliased = Object.keys(selected).map(
    (column) => `queue.${column} as "${toCamelCase(column)}"`,
  );
  return `
select ${aliased.join()} from ${name} queue
 where queue.holder = $1::uuid
   and not exists (select from unnest(${typedParameters(2, key)}) as known(${Object.keys(key).join()})
                    where ${equalColumns('known', 'queue', key)})
 limit ${UNKNOWN_CLAIMS_MAX}`;
}

function typedParameters(first: number, columns: Columns): string {
  return Object.values(columns)
    .map((type, index) => `$${first + index}::${type}[]`)
    .join();
}

function equalColumns(left: string, right: string, columns: Columns): string {
  return Object.keys(columns)
    .map((column) => `${left}.${column} = ${right}.${column}`)
    .join(' and ');
}

function valuesOf(items: readonly object[], columns: Columns): unknown[][] {
  return Object.keys(columns).map((column) => items.map((item) => valueOf(item, column)));
}

function valueOf(item: object, column: string): unknown {
  return (item as Record<string, unknown>)[toCamelCase(column)] ?? null;
}

function toCamelCase(column: string): string {
  return column.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase());
}
