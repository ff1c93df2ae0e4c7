/**
 * The suppression list by address, a page at a time: one probe of an index finds where a page
 * begins, however long the list is. Addresses are in the order of their bytes.
 */
import type { Scope } from '../core/scope.ts';
import type { Queryable } from './postgres/database.ts';
import type { PageOf } from './page.ts';
import { type Suppression, SUPPRESSION_COLUMNS, type SuppressionReason } from './suppressions.ts';

export type SuppressionPage = {
  /** Rows at most. */
  limit: number;
  /** Only what comes after this address. Not together with `before`. */
  after: string | null;
  /** Only what comes before this address: the page that ends just before it. */
  before: string | null;
};

export type SuppressionFilter = {
  /** How the address begins, in any case. */
  prefix: string | null;
  reason: SuppressionReason | null;
};

export const NO_SUPPRESSION_FILTER: SuppressionFilter = { prefix: null, reason: null };

/** Comes after every other character. */
const LAST_CHARACTER = `chr(1114111)`;

const PAGE = (key: string) => `
   and (expires_at is null or expires_at > app_now())
   and ${key} > lower($3 collate "C") and ${key} < lower($4 collate "C")
   and ${key} >= lower($5 collate "C") and ${key} < lower($5 collate "C") || ${LAST_CHARACTER}`;

/** As the index suppressions_by_reason has it. */
const KEY_OF_REASON = "(address_key || '')";

const PAGE_OF_ALL = PAGE('address_key');
const PAGE_OF_REASON = PAGE(KEY_OF_REASON);

const OF_ALL = `
select ${SUPPRESSION_COLUMNS} from suppressions
 where project_id = $1 and environment = $2${PAGE_OF_ALL}`;

const OF_REASON = `
select ${SUPPRESSION_COLUMNS} from suppressions
 where hashtextextended(project_id::text || environment || reason, 0)
       = hashtextextended($1::uuid::text || $2 || $7, 0)
   and project_id = $1 and environment = $2 and reason = $7${PAGE_OF_REASON}`;

/** The end of all addresses. */
const BEYOND = '\u{10ffff}';

/** One page, in the order of the addresses. */
export async function listSuppressions(
  db: Queryable,
  scope: Scope,
  { page, filter }: { page: SuppressionPage; filter: SuppressionFilter },
): Promise<PageOf<Suppression>> {
  const { limit, after, before } = page;
  const { prefix, reason } = filter;
  const direction = before === null ? 'asc' : 'desc';
  const statement =
    reason === null
      ? `${OF_ALL} order by address_key ${direction} limit $6`
      : `${OF_REASON} order by ${KEY_OF_REASON} ${direction} limit $6`;
  const found = await db.query<Suppression>(statement, [
    scope.projectId,
    scope.environment,
    after ?? '',
    before ?? BEYOND,
    prefix ?? '',
    limit + 1,
    ...(reason === null ? [] : [reason]),
  ]);
  const rows = found.slice(0, limit);
  return { rows: before === null ? rows : rows.toReversed(), hasMore: found.length > limit };
}
