/**
 * Lists the webhook deliveries of an endpoint, newest first, with filters. Without an email or a recipient, a list
 * searches the deliveries of the endpoint in order, at most SCAN_MAX in one call. With one of them it begins with the
 * events of the emails, which are few. delivery-store.ts reads one delivery.
 */
import type { Scope } from '../../core/scope.ts';
import {
  type AddressIndex,
  findAddressIndexes,
  INDEX_CONDITIONS,
} from '../../database/address-keys.ts';
import type { Queryable } from '../../database/database.ts';
import { firstUuidAt } from '../../database/ids.ts';
import { type Page, type PageResult, cutToPage } from '../../database/page.ts';
import { namedParameters } from '../../database/parameters/named-parameters.ts';
import {
  DELIVERY_COLUMNS,
  type DeliveryStatus,
  codeValues,
  ID_MARGIN_MS,
  matchesSql,
  QUEUE_JOIN,
  type ResponseCode,
  type WebhookDelivery,
} from '../delivery-store.ts';

export type DeliveryFilter = {
  status: DeliveryStatus | null;
  type: string | null;
  code: ResponseCode | null;
  /** Inclusive, by the time of the event. */
  since: Date | null;
  /** Exclusive. */
  until: Date | null;
  /** Only events of this email, or of emails to this recipient (an addressKey). */
  about: { emailId: string } | { recipientKey: string } | null;
};

export type DeliveryPage = PageResult<WebhookDelivery> & {
  /** The last delivery searched, if the search stopped before the end of the list. */
  scannedUntil: string | null;
};

const NO_FILTER: DeliveryFilter = {
  status: null,
  type: null,
  code: null,
  since: null,
  until: null,
  about: null,
};

/** Limit on the deliveries searched for a filter that has no index. */
const SCAN_MAX = 50_000;
/** Limits on what is searched for an email and for a recipient. */
const EVENTS_MAX = 1_000;
const EMAILS_MAX = 500;

/** The search of ids needs the first five. `about` is only in lists that begin with emails. */
const SCAN = namedParameters(['projectId', 'environment', 'endpointId', 'olderThan', 'newerThan']);
const FILTER = namedParameters(
  ['status', 'type', 'codeLike', 'isUnanswered', 'since', 'until', 'limit'],
  Object.keys(SCAN.sql).length,
);
const P = { ...SCAN.sql, ...FILTER.sql };
const ABOUT = `$${Object.keys(P).length + 1}`;

const OF_ENDPOINT = `
       project_id = ${P.projectId} and environment = ${P.environment} and endpoint_id = ${P.endpointId}
       and (${P.olderThan}::uuid is null or event_id < ${P.olderThan})
       and (${P.newerThan}::uuid is null or event_id > ${P.newerThan})`;

type Scan = { order: 'desc' | 'asc'; failed: boolean };

/** The status is a literal, so that the planner uses the index of failed deliveries. */
const scanSql = ({ order, failed }: Scan): string => `
  select * from webhook_deliveries
   where ${OF_ENDPOINT}${failed ? " and status = 'failed'" : ''}
   order by event_id ${order} limit ${SCAN_MAX}`;

const lastScannedSql = (scan: Scan): string => `
select event_id as id from (${scanSql(scan)}) scanned offset ${SCAN_MAX - 1}`;

const EVENTS_OF_EMAIL = `
    select id from events
     where project_id = ${P.projectId} and environment = ${P.environment} and subject_id = ${ABOUT}::uuid
     order by seq desc limit ${EVENTS_MAX}`;

const recipientSql = (index: AddressIndex): string => `
      (select email_id, position, uuid_send(email_id) as place from recipients
        where ${INDEX_CONDITIONS[index](ABOUT)}
        order by place desc limit ${EMAILS_MAX})`;

/** Events about the recipient or the whole email, not about other recipients. */
const eventsOfRecipient = (indexes: readonly AddressIndex[]): string => `
    select distinct event.id
      from (${indexes.map(recipientSql).join(' union all ')}) recipient
     cross join lateral (
        select events.id from events
         where events.project_id = ${P.projectId} and events.environment = ${P.environment}
           and events.subject_id = recipient.email_id
           and (events.position is null or events.position = recipient.position) offset 0) event`;

const ofEventsSql = (events: string): string => `
  select delivery.* from (${events}) event
   cross join lateral (
      select * from webhook_deliveries where ${OF_ENDPOINT} and event_id = event.id offset 0) delivery`;

const listSql = (deliveries: string, order: Scan['order']): string => `
select ${DELIVERY_COLUMNS} from (${deliveries}) delivery${QUEUE_JOIN}
 where (${P.status}::text is null or delivery.status = ${P.status})
   and ${matchesSql(P)}
   and (${P.since}::timestamptz is null or delivery.created_at >= ${P.since})
   and (${P.until}::timestamptz is null or delivery.created_at < ${P.until})
 order by delivery.event_id ${order}
 limit ${P.limit}`;

export async function listDeliveries(
  db: Queryable,
  scope: Scope,
  { endpointId, page, ...given }: Partial<DeliveryFilter> & { endpointId: string; page: Page },
): Promise<DeliveryPage> {
  const filter: DeliveryFilter = { ...NO_FILTER, ...given };
  const order = page.before === null ? 'desc' : 'asc';
  const scan: Scan = { order, failed: filter.status === 'failed' };
  const scanValues = SCAN.valuesOf({ ...scope, endpointId, ...idRange(page, filter) });
  const values = [...scanValues, ...filterValues(filter, page.limit + 1)];
  const { about } = filter;
  if (about !== null) {
    const rows = await db.query<WebhookDelivery>(
      listSql(ofEventsSql(await eventsSql(db, scope, about)), order),
      [...values, 'emailId' in about ? about.emailId : about.recipientKey],
    );
    return { ...cutToPage(rows, page), scannedUntil: null };
  }
  const rows = await db.query<WebhookDelivery>(listSql(scanSql(scan), order), values);
  const found = cutToPage(rows, page);
  const isFiltered = Object.values(filter).some((one) => one !== null);
  if (found.hasMore || !isFiltered) return { ...found, scannedUntil: null };
  const [last] = await db.query<{ id: string }>(lastScannedSql(scan), scanValues);
  return { ...found, hasMore: last !== undefined, scannedUntil: last?.id ?? null };
}

async function eventsSql(
  db: Queryable,
  { projectId }: Scope,
  about: NonNullable<DeliveryFilter['about']>,
): Promise<string> {
  if ('emailId' in about) return EVENTS_OF_EMAIL;
  return eventsOfRecipient(await findAddressIndexes(db, { projectId, key: about.recipientKey }));
}

function filterValues({ code, ...filter }: DeliveryFilter, limit: number): unknown[] {
  return FILTER.valuesOf({ ...filter, ...codeValues(code), limit });
}

/** A time converts to an id only approximately, so the list compares `created_at` too. */
function idRange(page: Page, { since, until }: DeliveryFilter) {
  const lowest = since && firstUuidAt(since.getTime() - ID_MARGIN_MS);
  const highest = until && firstUuidAt(until.getTime() + ID_MARGIN_MS);
  const { after, before } = page;
  return {
    olderThan: after !== null && (highest === null || after < highest) ? after : highest,
    newerThan: before !== null && (lowest === null || before > lowest) ? before : lowest,
  };
}
