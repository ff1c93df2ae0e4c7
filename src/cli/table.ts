/** Text for people: aligned columns, short times. Pure. */
import { stripVTControlCharacters } from 'node:util';

const GAP = '   ';

/**
 * Rows under their headings, each column as wide as its widest cell, no trailing blanks.
 * @param none said instead when there are no rows
 */
export function table(
  headings: readonly string[],
  rows: readonly (readonly string[])[],
  none: string,
): string {
  if (rows.length === 0) return none;
  const cells = [headings, ...rows].map((row) => row.map(printable));
  const widths = headings.map((_, column) =>
    Math.max(...cells.map((row) => row[column]?.length ?? 0)),
  );
  return cells.map((row) => line(row, widths)).join('\n');
}

/** `name   value` lines, the names aligned; lines without a value are left out. */
export function facts(pairs: readonly (readonly [string, string | null])[]): string {
  const present = pairs.filter((pair): pair is [string, string] => pair[1] !== null);
  const width = Math.max(...present.map(([name]) => name.length));
  return present.map(([name, value]) => line([name, printable(value)], [width, 0])).join('\n');
}

/** `2026-11-21 08:30:00`, UTC as everywhere; a dash for never. */
export function shortTime(time: string | Date | null): string {
  if (time === null) return '-';
  const iso = typeof time === 'string' ? time : time.toISOString();
  return iso.slice(0, 19).replace('T', ' ');
}

function line(cells: readonly string[], widths: readonly number[]): string {
  return cells
    .map((cell, column) => cell.padEnd(widths[column] ?? 0))
    .join(GAP)
    .trimEnd();
}

/** Subjects and server replies come from strangers: nothing in them may steer the terminal. */
function printable(cell: string): string {
  return stripVTControlCharacters(cell).replace(/[\u0000-\u001f\u007f-\u009f]+/g, ' ');
}
