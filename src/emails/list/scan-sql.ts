/**
 * SQL of the emails that a list searches, in its order: all of them, those to one recipient, or those of some blocks
 * (search-blocks-store.ts). A scan of all, and one of a recipient, ends after 50,000 emails.
 */
import { type AddressIndex, INDEX_CONDITIONS } from '../../database/address-keys.ts';
import { namedParameters } from '../../database/parameters/named-parameters.ts';

export const SCAN_MAX = 50_000;

type Order = 'desc' | 'asc';
/** A scan of emails in their order, which ends after SCAN_MAX. */
export type OrderedScan =
  | { kind: 'all'; order: Order }
  | { kind: 'recipient'; indexes: readonly AddressIndex[]; order: Order };
export type ListScan = OrderedScan | { kind: 'blocks'; order: Order };

const NAMES = ['projectId', 'environment', 'olderThan', 'newerThan'] as const;
const ALL_OR_RECIPIENT = namedParameters([...NAMES, 'to']);
const BLOCKS = namedParameters([...NAMES, 'firstIds', 'lastIds']);

export const SCAN_PARAMETERS = {
  all: ALL_OR_RECIPIENT,
  recipient: ALL_OR_RECIPIENT,
  blocks: BLOCKS,
} as const;
const L = ALL_OR_RECIPIENT.sql;

const IN_RANGE = `
       and (${L.olderThan}::uuid is null or (email_id < ${L.olderThan} and uuid_send(email_id) < uuid_send(${L.olderThan})))
       and (${L.newerThan}::uuid is null or (email_id > ${L.newerThan} and uuid_send(email_id) > uuid_send(${L.newerThan})))
       and ${L.environment}::text is not null`;

/** Both indexes contain ids as bytes, which sort like ids. */
const scanIndexSql = (index: AddressIndex, order: Order): string => `
    select distinct on (place) email_id as id, uuid_send(email_id) as place from recipients
     where ${INDEX_CONDITIONS[index](L.to)}${IN_RANGE}
     order by place ${order} limit ${SCAN_MAX}`;

const scanRecipientsSql = (indexes: readonly AddressIndex[], order: Order): string => {
  const scans = indexes.map((index) => scanIndexSql(index, order));
  if (scans.length === 1) return scans[0]!;
  return `
    select distinct on (place) id, place from ((${scans.join(') union all (')})) found
     order by place ${order} limit ${SCAN_MAX}`;
};

/** Without a recipient `to` is null. */
const scanAllSql = (columns: string, order: Order): string => `
    select ${columns} from emails
     where project_id = ${L.projectId} and environment = ${L.environment} and ${L.to}::text is null
       and (${L.olderThan}::uuid is null or id < ${L.olderThan})
       and (${L.newerThan}::uuid is null or id > ${L.newerThan})
     order by id ${order} limit ${SCAN_MAX}`;

const B = BLOCKS.sql;

const SCAN_BLOCKS = `
    select found.* from unnest(${B.firstIds}::uuid[], ${B.lastIds}::uuid[]) block(first_id, last_id)
     cross join lateral (
        select * from emails
         where project_id = ${B.projectId} and environment = ${B.environment}
           and id >= block.first_id and id <= block.last_id
           and (${B.olderThan}::uuid is null or id < ${B.olderThan})
           and (${B.newerThan}::uuid is null or id > ${B.newerThan}) offset 0) found`;

/** Selects the rows of emails. With a recipient each is read by its id. */
export const scannedEmailsSql = (scan: ListScan): string => {
  switch (scan.kind) {
    case 'blocks':
      return SCAN_BLOCKS;
    case 'all':
      return scanAllSql('*', scan.order);
    case 'recipient':
      return `
    select scanned.place, found.* from (${scanRecipientsSql(scan.indexes, scan.order)}) scanned
     cross join lateral (
        select * from emails
         where project_id = ${L.projectId} and environment = ${L.environment}
           and id = scanned.id offset 0) found`;
  }
};

/** Returns the last id of a full scan; no row when it came to the end of the list. */
export const lastScannedSql = (scan: OrderedScan): string => {
  const ids =
    scan.kind === 'recipient'
      ? scanRecipientsSql(scan.indexes, scan.order)
      : scanAllSql('id', scan.order);
  return `
select id from (${ids}) scanned offset ${SCAN_MAX - 1}`;
};
