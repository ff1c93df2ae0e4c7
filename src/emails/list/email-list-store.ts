/**
 * Lists emails, newest first. The cost of a page does not depend on the amount of stored mail: the time in the id gives
 * the position, and recipients have an index. Parts of words use blocks of terms (search-blocks-store.ts). Other
 * filters search at most 50,000 emails, and the result contains the position where the search stopped. `keyId`
 * restricts to emails sent by this key.
 */
import { type Category, type Status, isFinal, STATUS_RANK } from '../../core/statuses.ts';
import type { Scope } from '../../core/scope.ts';
import type { Queryable } from '../../database/database.ts';
import { namedParameters } from '../../database/parameters/named-parameters.ts';
import { findAddressIndexes } from '../../database/address-keys.ts';
import {
  type IdRange,
  type Page,
  type PageResult,
  cutToPage,
  findIdRange,
  greatest,
  least,
} from '../../database/page.ts';
import { firstUuidAt } from '../../database/ids.ts';
import {
  type EmailSummary,
  JOIN_OPEN_STATUSES,
  SUMMARY_COLUMNS,
  type SummaryRow,
  withStatus,
} from '../email-store.ts';
import {
  type ListScan,
  type OrderedScan,
  scannedEmailsSql,
  lastScannedSql,
  SCAN_PARAMETERS,
} from './scan-sql.ts';
import { type BlockStep, findBlockSteps } from './search-blocks-store.ts';
import { trigramsOf } from './search-terms.ts';

/** null: unrestricted. */
export type EmailFilter = {
  id: string | null;
  status: Status | null;
  /** A recipient in any role, as an addressKey. */
  to: string | null;
  /** Part of the address of a recipient. */
  toPart: string | null;
  /** An addressKey. */
  from: string | null;
  /** Part of the sender's address or name. */
  fromPart: string | null;
  /**
   * Parts of the subject, an address, a name, a tag or the Message-ID, in any case; all must occur. Each costs time for
   * every email that is searched.
   */
  words: readonly string[] | null;
  /** Parts of the subject, like `words`. */
  subject: readonly string[] | null;
  /** Part of the last reply of a mail server, or of an error, about a recipient. */
  reply: string | null;
  /** Part of the name or address of the mail server that replied. */
  server: string | null;
  tag: { name: string; value?: string } | null;
  /** Id, alias or whole name of a template; the id also of a deleted one. */
  template: string | null;
  /** Id or whole name of a key. Other than `keyId`, it is chosen by the caller. */
  key: string | null;
  /** Provider to which a recipient's mail goes or went. */
  provider: string | null;
  /** Category of the reason why a recipient's mail is deferred or ended. */
  reason: Category | null;
  domain: string | null;
  /** Inclusive. */
  createdAfter: Date | null;
  /** Exclusive. */
  createdBefore: Date | null;
  keyId: string | null;
};

export const NO_FILTER: EmailFilter = {
  id: null,
  status: null,
  to: null,
  toPart: null,
  from: null,
  fromPart: null,
  words: null,
  subject: null,
  reply: null,
  server: null,
  tag: null,
  template: null,
  key: null,
  provider: null,
  reason: null,
  domain: null,
  createdAfter: null,
  createdBefore: null,
  keyId: null,
};

export type EmailPage = PageResult<EmailSummary> & {
  /** The last searched email, if the search stopped before the end of the list. */
  scannedUntil: string | null;
};

export async function listEmails(
  db: Queryable,
  scope: Scope,
  { page, filter }: { page: Page; filter: EmailFilter },
): Promise<EmailPage> {
  const found: SummaryRow[] = [];
  for await (const step of stepsOf(db, scope, { page, filter })) {
    const limit = page.limit + 1 - found.length;
    const values = [...step.values, ...filterValues(filter, limit)];
    found.push(...(await db.query<SummaryRow>(listSql(step.scan, filter), values)));
    if (found.length > page.limit) {
      return { ...cutToPage(found.map(withStatus), page), scannedUntil: null };
    }
    const scannedUntil = await step.findStop();
    if (scannedUntil !== null) {
      const { rows } = cutToPage(found.map(withStatus), page);
      return { rows, hasMore: true, scannedUntil };
    }
  }
  return { ...cutToPage(found.map(withStatus), page), scannedUntil: null };
}

/** Emails to search, in the order of the page. */
export type SearchStep = {
  scan: ListScan;
  /** Values of the parameters of the scan (SCAN_PARAMETERS). */
  values: unknown[];
  /** Returns where the search stops after this step, or null when it does not. */
  findStop: () => Promise<string | null>;
};

export async function* stepsOf(
  db: Queryable,
  scope: Scope,
  { page, filter }: { page: Page; filter: EmailFilter },
): AsyncGenerator<SearchStep> {
  const { projectId } = scope;
  const order = page.before === null ? 'desc' : 'asc';
  const range = await idRange(db, page, filter);
  const scanStep = (scan: OrderedScan, within: IdRange, to: string | null): SearchStep => {
    const values = SCAN_PARAMETERS[scan.kind].valuesOf({ ...scope, ...within, to });
    const findStop = async (): Promise<string | null> => {
      const [last] = await db.query<{ id: string }>(lastScannedSql(scan), values);
      return last?.id ?? null;
    };
    return { scan, values, findStop };
  };
  const trigrams = trigramsOf(partsOf(filter));
  if (filter.to !== null) {
    const indexes = await findAddressIndexes(db, { projectId, key: filter.to });
    yield scanStep({ kind: 'recipient', indexes, order }, range, filter.to);
  } else if (trigrams.length === 0) yield scanStep({ kind: 'all', order }, range, null);
  else {
    for await (const step of findBlockSteps(db, scope, { trigrams, range, order })) {
      yield step.kind === 'scan'
        ? scanStep({ kind: 'all', order }, step.range, null)
        : blocksStep(scope, { step, range, order });
    }
  }
}

function blocksStep(
  scope: Scope,
  searched: {
    step: Extract<BlockStep, { kind: 'blocks' }>;
    range: IdRange;
    order: ListScan['order'];
  },
): SearchStep {
  const { step, range, order } = searched;
  return {
    scan: { kind: 'blocks', order },
    values: SCAN_PARAMETERS.blocks.valuesOf({
      ...scope,
      ...range,
      firstIds: step.blocks.map(({ firstId }) => firstId),
      lastIds: step.blocks.map(({ lastId }) => lastId),
    }),
    findStop: () => Promise.resolve(step.stop),
  };
}

/** Texts that each matching email contains. */
function partsOf({ words, subject, toPart, fromPart, tag }: EmailFilter): string[] {
  const tagged = tag === null ? [] : [`${tag.name}:${tag.value ?? ''}`];
  const parts = [toPart, fromPart].filter((part) => part !== null);
  return [...(words ?? []), ...(subject ?? []), ...parts, ...tagged];
}

const FILTER_NAMES = [
  'id',
  'from',
  'fromPart',
  'toPart',
  'words',
  'subject',
  'reply',
  'server',
  'tag',
  'template',
  'key',
  'provider',
  'reason',
  'domain',
  'keyId',
  'createdAfter',
  'createdBefore',
  'endedRank',
  'openStatus',
  'laterStatuses',
  'limit',
] as const;
const filterParameters = (passedBefore: number) => namedParameters(FILTER_NAMES, passedBefore);

/** Recipients in all roles, a line each. */
const TO_LINES = `array_to_string(email.to_list || email.cc_list || email.bcc_list, e'\\n')`;

/** `name:value` of each tag, a line each, from the text of the JSON: neither has a character that JSON escapes. */
const TAG_LINES = `rtrim(replace(replace(replace(email.tags::text, '[{"name": "', ''), '", "value": "', ':'),
                        '"}, {"name": "', e'\\n'), '"}]')`;

/** Everything that a word may be part of, in small letters. */
const SEARCHED_TEXT = `lower(concat_ws(e'\\n', email.subject, ${TO_LINES}, email.from_name, email.from_address,
                email.message_id, case when email.tags <> '[]' then ${TAG_LINES} end))`;

/**
 * SQL: the text has all parts. Each part is a condition of its own, because a subquery for each email costs more than
 * the text again. `like all` computes the text once, but takes five times longer than `strpos` for hostile parts.
 */
const hasAll = (parts: string, text: string, count: number): string =>
  Array.from(
    { length: count },
    (_, index) => `strpos(${text}, lower(${parts}[${index + 1}])) > 0`,
  ).join('\n   and ') || 'true';

/** Rows of `table` of this project and environment whose id or one of the columns is the text, in any case. */
const idsNamed = (
  table: 'templates' | 'api_keys',
  columns: readonly string[],
  text: string,
) => `array(
          select named.id from ${table} named
           where named.project_id = $1 and named.environment = $2
             and lower(${text}) in (named.id::text, ${columns.map((name) => `lower(named.${name})`).join(', ')}))`;

/** A deferral changes the provider in the queue only. */
const hasProvider = (name: string): string => `exists (
          select from recipients
            left join queue on queue.project_id = recipients.project_id and queue.email_id = recipients.email_id
                               and queue.position = recipients.position
           where recipients.project_id = email.project_id and recipients.email_id = email.id
             and coalesce(recipients.provider, queue.provider) = lower(${name}))`;

const hasReason = (category: string): string => `exists (
          select from recipients
           where recipients.project_id = email.project_id and recipients.email_id = email.id
             and recipients.reason ->> 'category' = ${category})`;

/**
 * Whether one of the recipients has the part in one of these fields of its last reply, the likeliest first. Most
 * replies do not have it in their JSON either, which is compared first: reading a field costs more. JSON changes only
 * quotation marks, backslashes and control characters. A scalar subquery, because PostgreSQL would read all recipients
 * first for `exists`.
 */
const hasReply = (part: string, ...fields: string[]): string => `(
          select true from recipients
           where recipients.project_id = email.project_id and recipients.email_id = email.id
             and (${part} ~ '[^ !#-[\\]-~]' or strpos(lower(recipients.smtp::text), lower(${part})) > 0)
             and (${fields.map((field) => `strpos(lower(recipients.smtp ->> '${field}'), lower(${part})) > 0`).join(' or ')})
           limit 1)`;

const filterSqlOf = (scan: ListScan): FilterSql =>
  filterParameters(Object.keys(SCAN_PARAMETERS[scan.kind].sql).length).sql;

function listSql(scan: ListScan, filter: EmailFilter): string {
  const F = filterSqlOf(scan);
  return `
select ${SUMMARY_COLUMNS}
  from (${scannedEmailsSql(scan)}) email${JOIN_OPEN_STATUSES}
 where ${filterSql(F, filter)}
 order by ${scan.kind === 'recipient' ? 'email.place' : 'email.id'} ${scan.order}
 limit ${F.limit}`;
}

/** Counts by what makes the status of an email. */
export function countSql(scan: ListScan, filter: EmailFilter): string {
  const F = filterSqlOf(scan);
  return `
select email.worst, open.statuses as open, count(*)::int as count
  from (${scannedEmailsSql(scan)}) email${JOIN_OPEN_STATUSES}
 where ${filterSql(F, filter)}
 group by email.worst, open.statuses
 limit ${F.limit}`;
}

type FilterSql = Readonly<Record<(typeof FILTER_NAMES)[number], string>>;

const filterSql = (F: FilterSql, { words, subject }: EmailFilter): string => `
       (${F.id}::uuid is null or email.id = ${F.id})
   and (${F.from}::text is null or coalesce(email.from_key, lower(email.from_address collate "C")) = ${F.from})
   and (${F.subject}::text[] is null or ${hasAll(F.subject, 'lower(email.subject)', subject?.length ?? 0)})
   and (${F.words}::text[] is null or ${hasAll(F.words, SEARCHED_TEXT, words?.length ?? 0)})
   and (${F.toPart}::text is null or strpos(lower(${TO_LINES}), lower(${F.toPart})) > 0)
   and (${F.fromPart}::text is null
        or strpos(lower(concat_ws(' ', email.from_name, email.from_address)), lower(${F.fromPart})) > 0)
   and (${F.tag}::jsonb is null or email.tags @> ${F.tag})
   and (${F.template}::text is null or email.template_id::text = lower(${F.template})
        or email.template_id = any(${idsNamed('templates', ['name', 'alias'], F.template)}))
   and (${F.key}::text is null or email.key_id::text = lower(${F.key})
        or email.key_id = any(${idsNamed('api_keys', ['name'], F.key)}))
   and (${F.provider}::text is null or ${hasProvider(F.provider)})
   and (${F.reason}::text is null or ${hasReason(F.reason)})
   and (${F.domain}::text is null or right(email.from_address, length(${F.domain}) + 1) = '@' || ${F.domain})
   and (${F.keyId}::uuid is null or email.key_id = ${F.keyId})
   and (${F.createdAfter}::timestamptz is null or email.created_at >= ${F.createdAfter})
   and (${F.createdBefore}::timestamptz is null or email.created_at < ${F.createdBefore})
   and (${F.endedRank}::smallint is null or (email.open_count = 0 and email.worst = ${F.endedRank}))
   and (${F.openStatus}::text is null
        or (${F.openStatus} = any(open.statuses) and not open.statuses && ${F.laterStatuses}::text[]))
   and (${F.reply}::text is null or ${hasReply(F.reply, 'message', 'code', 'enhanced_code')})
   and (${F.server}::text is null or ${hasReply(F.server, 'mx', 'ip')})`;

/** An email with open recipients has the first of these statuses that one of them has. */
const OPEN_IN_ORDER: readonly Status[] = ['sending', 'queued', 'deferred', 'scheduled'];

export function filterValues(filter: EmailFilter, limit: number): unknown[] {
  const { status } = filter;
  const ended = status !== null && isFinal(status);
  const place = status === null ? 0 : Math.max(0, OPEN_IN_ORDER.indexOf(status));
  return filterParameters(0).valuesOf({
    ...filter,
    tag: filter.tag && JSON.stringify([filter.tag]),
    endedRank: ended ? STATUS_RANK[status] : null,
    openStatus: ended ? null : status,
    laterStatuses: OPEN_IN_ORDER.slice(0, place),
    limit,
  });
}

/** Returns the range of ids to search: the page, within the email of `id` or the period. */
async function idRange(
  db: Queryable,
  page: Page,
  { id, createdAfter: from, createdBefore: to }: EmailFilter,
): Promise<IdRange> {
  if (id === null) return findIdRange(db, page, { from, to });
  const ms = Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16);
  const [first, next] = [firstUuidAt(ms), firstUuidAt(ms + 1)];
  return { olderThan: least(page.after, next), newerThan: greatest(page.before, first) };
}
