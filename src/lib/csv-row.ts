/** Rows of CSV (RFC 4180) that are safe to open in a spreadsheet: it would evaluate a cell that begins a formula. */

/** Text that a spreadsheet would evaluate, after any `'` that an earlier export added. */
const FORMULA = /^'*[=+\-@\t\r]/;

/** One row with its line end. A formula gets a leading `'`, which move-in/csv.ts removes. */
export function formatCsvRow(cells: readonly string[]): string {
  return `${cells.map(formatCell).join(',')}\r\n`;
}

function formatCell(text: string): string {
  const safe = FORMULA.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
