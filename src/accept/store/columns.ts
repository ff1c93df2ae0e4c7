/**
 * The stored fields of an email and of its recipients: one table of columns, from which both paths of accepting build
 * their inserts (insert.ts, fast-path-sql.ts). In the SQL of accepting, most new fields are one line here.
 * CONTRIBUTING.md lists the other files.
 *
 * It contains only fields of the request. Each path computes the fields that follow from the decision, such as the
 * domain and the number of open recipients.
 */
import { formatMailbox, type Mailbox } from '../../mail/address.ts';
import type { Attachment } from '../../mail/email.ts';
import type { NewEmail, NewRecipient } from './new-email.ts';
import { storedAddressKey } from '../../database/address-keys.ts';
import { binaryArray } from '../../database/parameters/binary-array.ts';

type Item = Parameters<typeof binaryArray>[1][number];
type Value = Item | number | boolean;

export type Column<Row> = {
  name: string;
  type:
    | Parameters<typeof binaryArray>[0]
    | ('uuid' | 'int' | 'boolean' | 'timestamptz')
    /** Passed as text, with `absent` for null. Most batches then have no value for most columns. */
    | ('text[]' | 'jsonb');
  absent?: '{}' | '[]';
  value: (row: Row) => Value;
};

/** From this size html is stored uncompressed, because compression costs CPU in proportion to its length. */
const LARGE_HTML_BYTES = 8_000;

const isLarge = (html: string | null): boolean =>
  html !== null && Buffer.byteLength(html) >= LARGE_HTML_BYTES;

/** Columns of `emails`, kept until the retention of metadata ends. Lists and events can read them. */
export const EMAIL_COLUMNS: readonly Column<NewEmail>[] = [
  { name: 'from_address', type: 'text', value: ({ from }) => from.address },
  { name: 'from_key', type: 'text', value: ({ from }) => storedAddressKey(from) },
  { name: 'from_name', type: 'text', value: ({ from }) => from.name },
  { name: 'to_list', type: 'text[]', absent: '{}', value: ({ to }) => textArrayOf(to) },
  { name: 'cc_list', type: 'text[]', absent: '{}', value: ({ cc }) => textArrayOf(cc) },
  { name: 'bcc_list', type: 'text[]', absent: '{}', value: ({ bcc }) => textArrayOf(bcc) },
  { name: 'reply_to', type: 'text[]', absent: '{}', value: ({ replyTo }) => textArrayOf(replyTo) },
  { name: 'subject', type: 'text', value: ({ subject }) => subject },
  { name: 'tags', type: 'jsonb', absent: '[]', value: ({ tags }) => jsonOf(tags) },
  { name: 'metadata', type: 'jsonb', absent: '{}', value: ({ metadata }) => jsonOf(metadata) },
  { name: 'template_id', type: 'uuid', value: ({ templateId }) => templateId ?? null },
  { name: 'message_id', type: 'text', value: ({ submitted }) => submitted?.messageId ?? null },
];

/** Columns of `contents`, deleted when the retention of content ends. */
export const CONTENT_COLUMNS: readonly Column<NewEmail>[] = [
  { name: 'html', type: 'text', value: ({ html }) => (isLarge(html) ? null : html) },
  { name: 'large_html', type: 'text', value: ({ html }) => (isLarge(html) ? html : null) },
  { name: 'body_text', type: 'text', value: ({ text }) => text },
  { name: 'headers', type: 'json', value: ({ headers }) => jsonOf(headers) },
  { name: 'attachments', type: 'json', value: ({ attachments }) => attachmentPieces(attachments) },
  { name: 'unsubscribe_url', type: 'text', value: ({ unsubscribeUrl }) => unsubscribeUrl },
  { name: 'raw', type: 'bytea', value: ({ submitted }) => submitted?.raw ?? null },
  { name: 'traceparent', type: 'text', value: ({ traceparent }) => traceparent ?? null },
  { name: 'dsn', type: 'json', value: ({ dsn }) => (dsn ? JSON.stringify(dsn) : null) },
];

export const RECIPIENT_COLUMNS: readonly Column<NewRecipient>[] = [
  { name: 'address', type: 'text', value: ({ address }) => address },
  { name: 'address_key', type: 'text', value: (recipient) => storedAddressKey(recipient) },
  { name: 'kind', type: 'text', value: ({ kind }) => kind },
];

export const QUEUE_COLUMNS: readonly Column<NewRecipient>[] = [
  { name: 'destination', type: 'text', value: ({ destination }) => destination },
  { name: 'provider', type: 'text', value: ({ provider }) => provider },
];

function jsonOf(value: object): string | null {
  for (const _ in value) return JSON.stringify(value);
  return null;
}

function textArrayOf(mailboxes: readonly Mailbox[]): string | null {
  if (mailboxes.length === 0) return null;
  const items = mailboxes.map((one) => `"${formatMailbox(one).replace(/[\\"]/g, '\\$&')}"`);
  return `{${items.join()}}`;
}

/** Returns JSON in pieces, so that no content is copied: base64 needs no escaping. null: no attachments. */
function attachmentPieces(attachments: readonly Attachment[]): string[] | null {
  if (attachments.length === 0) return null;
  const pieces = attachments.flatMap(({ content, ...rest }, index) => [
    `${index === 0 ? '[' : ','}${JSON.stringify(rest).slice(0, -1)},"content":"`,
    content,
    '"}',
  ]);
  return [...pieces, ']'];
}

/** SQL of an insert: the names of columns and their values. `byName` has each value by its column. */
type InsertSql = { names: string; values: string; byName: Record<string, string> };

/** Numbers the parameters of a statement, one array for each column. */
export class ColumnParameters {
  #count: number;

  constructor(count: number) {
    this.#count = count;
  }

  /** Returns the values of row `ord`. Arrays are indexed where they are inserted, because steps would copy them. */
  elements(columns: readonly Column<never>[]): InsertSql {
    const values = columns.map((column) => valueOf(column, `(${this.#array(column)})[ord]`));
    const byName = Object.fromEntries(columns.map(({ name }, index) => [name, values[index]!]));
    return { names: namesOf(columns), values: values.join(', '), byName };
  }

  /** Returns the rows as `recipient`. Indexing long arrays of texts one by one would take too long. */
  rows(columns: readonly Column<never>[]): string {
    const arrays = columns.map((column) => this.#array(column));
    return `unnest(${arrays.join(', ')}) as recipient(${namesOf(columns)})`;
  }

  #array({ type }: Column<never>): string {
    this.#count += 1;
    return `$${this.#count}::${isText(type) ? 'text' : type}[]`;
  }
}

export function namesOf(columns: readonly Column<never>[]): string {
  return columns.map(({ name }) => name).join(', ');
}

function isText(type: Column<never>['type']): boolean {
  return type === 'text[]' || type === 'jsonb';
}

function valueOf({ type, absent }: Column<never>, element: string): string {
  return isText(type) ? `coalesce(${element}, '${absent}')::${type}` : element;
}

/** Returns the parameters of columns. null stands for an array of nulls, the value of most columns in most batches. */
export function arraysOf<Row>(columns: readonly Column<Row>[], rows: readonly Row[]): unknown[] {
  return columns.map(({ type, value }) => {
    const items = rows.map(value);
    if (items.every((item) => item === null)) return null;
    if (isText(type)) return binaryArray('text', items as Item[]);
    if (type === 'text' || type === 'json' || type === 'bytea') {
      return binaryArray(type, items as Item[]);
    }
    return `{${items.map((item) => item ?? 'null').join()}}`;
  });
}
