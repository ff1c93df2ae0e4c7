/** Rows as CSV (RFC 4180), for spreadsheets. */

/** Spreadsheets compute cells that begin like this, and subjects come from strangers. */
const FORMULA = /^[=+\-@\t\r]/;

export function csvOf<Row>(
  columns: readonly (readonly [title: string, cell: (row: Row) => string])[],
  rows: readonly Row[],
): string {
  const lines = [
    columns.map(([title]) => title),
    ...rows.map((row) => columns.map(([, cell]) => cell(row))),
  ];
  return lines.map((cells) => `${cells.map(quoted).join(',')}\r\n`).join('');
}

function quoted(text: string): string {
  const harmless = FORMULA.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless;
}
