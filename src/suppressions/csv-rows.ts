/**
 * Suppressions as rows of CSV, in both directions: what the export writes, the import reads.
 *
 * A cell that a spreadsheet would take for a formula gets a `'` in front, which reading takes away
 * again. Columns are found by their names in the first row, in any order and beside others;
 * without names they are address, reason, created_at, expires_at.
 */
import { explainAddress, parseAddress } from '../mail/address.ts';
import {
  type ImportedSuppression,
  type Suppression,
  SUPPRESSION_REASONS,
  type SuppressionReason,
} from '../store/suppressions.ts';

export const CSV_HEADER = 'address,reason,source_email_id,created_at,expires_at\r\n';

/** One row, with its line end. */
export function csvRowOf(entry: Suppression): string {
  const times = [entry.createdAt.toISOString(), entry.expiresAt?.toISOString() ?? ''];
  const cells = [entry.address, entry.reason, entry.sourceEmailId ?? '', ...times];
  return `${cells.map(writeCell).join(',')}\r\n`;
}

/** What a spreadsheet would calculate, behind the quotes that an earlier escape has put there. */
const FORMULA = /^'*[=+\-@\t\r]/;
const ESCAPED = /^'+[=+\-@\t\r]/;

/** @internal */
export function writeCell(text: string): string {
  const safe = FORMULA.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** @internal */
export function readCell(cell: string | undefined): string {
  const text = (cell ?? '').trim();
  return ESCAPED.test(text) ? text.slice(1) : text;
}

type Field = 'address' | 'reason' | 'created_at' | 'expires_at';

/** Where each field stands; undefined: the file has none. */
export type Columns = Readonly<Partial<Record<Field, number>>>;

export const COLUMNS_WITHOUT_NAMES: Columns = {
  address: 0,
  reason: 1,
  created_at: 2,
  expires_at: 3,
};

const NAMES: Readonly<Record<string, Field>> = {
  address: 'address',
  email: 'address',
  email_address: 'address',
  reason: 'reason',
  created_at: 'created_at',
  expires_at: 'expires_at',
};

/** The columns that the first row of a file names; null: it names none and is a row like others. */
export function columnsOf(cells: readonly string[]): Columns | null {
  const columns: Partial<Record<Field, number>> = {};
  for (const [index, cell] of cells.entries()) {
    const name = cell.trim().toLowerCase().replaceAll(/[ -]/g, '_');
    const field = Object.hasOwn(NAMES, name) ? NAMES[name] : undefined;
    if (field !== undefined) columns[field] ??= index;
  }
  return columns.address === undefined ? null : columns;
}

/** What a row says, or what is wrong with it as a sentence without its full stop. */
export function readRow(
  cells: readonly string[],
  columns: Columns,
): ImportedSuppression | { problem: string } {
  const cell = (field: Field) => {
    const index = columns[field];
    return index === undefined ? '' : readCell(cells[index]);
  };
  const written = cell('address');
  if (written.includes('\u{fffd}')) return { problem: 'The address is not in UTF-8' };
  const address = parseAddress(written);
  if (address === null) return { problem: explainAddress(written) };
  const reason = reasonOf(cell('reason'));
  if (reason === null) {
    return { problem: `${shown(cell('reason'))} is not one of ${SUPPRESSION_REASONS.join(', ')}` };
  }
  const createdAt = timeOf(cell('created_at'));
  const expiresAt = timeOf(cell('expires_at'));
  if (createdAt === 'wrong') return { problem: notATime('created_at', cell('created_at')) };
  if (expiresAt === 'wrong') return { problem: notATime('expires_at', cell('expires_at')) };
  return { address, reason, createdAt, expiresAt };
}

function reasonOf(text: string): SuppressionReason | null {
  const wanted = text.toLowerCase();
  if (wanted === '') return 'manual';
  return SUPPRESSION_REASONS.find((reason) => reason === wanted) ?? null;
}

/** ISO 8601: a date, or a date and a time with or without its distance from UTC. */
const TIME =
  /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?) ?(Z|[+-]\d\d:?\d\d)?)?$/i;

const FIRST_TIME = new Date('0001-01-01T00:00:00Z');
const LAST_TIME = new Date('9999-12-31T23:59:59.999Z');

/** null: none. Without a distance from UTC it is UTC. */
function timeOf(text: string): Date | 'wrong' | null {
  if (text === '') return null;
  const [, day, clock = '00:00', zone = 'Z'] = TIME.exec(text) ?? [];
  if (day === undefined) return 'wrong';
  const offset = zone.length === 5 ? `${zone.slice(0, 3)}:${zone.slice(3)}` : zone.toUpperCase();
  const time = new Date(`${day}T${clock}${offset}`);
  // The database has no year 0, and ISO 8601 four digits for a year.
  const isOutside = !(time >= FIRST_TIME && time <= LAST_TIME);
  return isOutside ? 'wrong' : time;
}

function notATime(field: Field, text: string): string {
  return `${field}: ${shown(text)} is not a time in ISO 8601, like 2026-11-21T08:30:00Z`;
}

/** From a file of somebody's: short, and without control characters. */
function shown(text: string): string {
  return JSON.stringify(text.length <= 40 ? text : `${text.slice(0, 40)}…`);
}
