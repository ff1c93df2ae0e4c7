/**
 * Formats the output of commands: tables, `name   value` lines, times. Control characters never reach the terminal.
 *
 * A table fits the width of the terminal, as far as the columns that may be cut allow. They shrink in their order of
 * priority and end with an ellipsis; a last column of sentences continues on the next lines. Ids, times and statuses
 * are never cut. Nothing is cut when stdout is not a terminal, so scripts read whole values. No colours are used.
 */
import { stripVTControlCharacters } from 'node:util';
import type { Cli } from './command.ts';

/**
 * @property cut the column may be cut down to CUT_MIN, the lowest number first
 * @property wraps the last column, whose text continues below itself, in at least WRAP_MIN
 */
export type Column = string | { heading: string; cut: number } | { heading: string; wraps: true };

/** Printed for an empty list: what is missing, and the command that creates it. */
export type Empty = { says: string; toDo: string; command: string };

const GAP = '   ';
const CUT_MIN = 12;
const WRAP_MIN = 30;
const ELLIPSIS = '…';

/**
 * Returns rows under their headings, each column as wide as its widest cell, without trailing blanks.
 * @param shown.none printed when there are no rows
 */
export function table(
  cli: Pick<Cli, 'program' | 'widthColumns'>,
  shown: { columns: readonly Column[]; rows: readonly (readonly string[])[]; none: Empty | string },
): string {
  const { columns, rows, none } = shown;
  if (rows.length === 0) return typeof none === 'string' ? none : emptyText(cli, none);
  const headings = columns.map((column) => (typeof column === 'string' ? column : column.heading));
  const cells = [headings, ...rows].map((row) => row.map(printable));
  const naturalWidths = headings.map((_, at) =>
    Math.max(...cells.map((row) => widthOf(row[at] ?? ''))),
  );
  const widths = fitWidths(columns, naturalWidths, cli.widthColumns ?? Infinity);
  return cells
    .flatMap((row) => linesOf(columns, row, widths))
    .map((line) => alignCells(line, widths))
    .join('\n');
}

/** @param empty.toDo followed by a colon and, on a line of its own, the command to copy */
export function emptyText({ program }: Pick<Cli, 'program'>, empty: Empty): string {
  return `${empty.says} ${empty.toDo}:\n  ${program} ${empty.command}`;
}

/** Returns the lines of one row: more than one where a column wraps. */
function linesOf(columns: readonly Column[], row: readonly string[], widths: readonly number[]) {
  const cells = row.map((cell, at) => {
    const width = widths[at] ?? 0;
    return wraps(columns[at]) ? wrapText(cell, width) : [cutText(cell, width)];
  });
  const height = Math.max(...cells.map((lines) => lines.length));
  return Array.from({ length: height }, (_, line) => cells.map((lines) => lines[line] ?? ''));
}

/** Returns the widths of the columns. Columns that wrap or may be cut give up the excess. */
function fitWidths(
  columns: readonly Column[],
  naturalWidths: readonly number[],
  max: number,
): number[] {
  const widths = [...naturalWidths];
  const gaps = GAP.length * (columns.length - 1);
  let excess = widths.reduce((sum, width) => sum + width, gaps) - max;
  for (const at of cutOrder(columns)) {
    if (excess <= 0) break;
    const width = widths[at] ?? 0;
    const min = wraps(columns[at]) ? WRAP_MIN : CUT_MIN;
    const narrower = Math.max(Math.min(width, min), width - excess);
    excess -= width - narrower;
    widths[at] = narrower;
  }
  return widths;
}

/** Returns the indexes of the columns that may shrink, in the order in which they shrink. */
function cutOrder(columns: readonly Column[]): number[] {
  return columns
    .flatMap((column, at) => (typeof column === 'string' ? [] : [{ at, column }]))
    .map(({ at, column }) => ({ at, order: 'cut' in column ? column.cut : 0 }))
    .toSorted((a, b) => a.order - b.order)
    .map(({ at }) => at);
}

function wraps(column: Column | undefined): boolean {
  return typeof column === 'object' && 'wraps' in column;
}

/** Returns aligned `name   value` lines, without those that have no value. */
export function facts(pairs: readonly (readonly [string, string | null])[]): string {
  const present = pairs.filter((pair): pair is [string, string] => pair[1] !== null);
  const width = Math.max(...present.map(([name]) => name.length));
  return present
    .map(([name, value]) => alignCells([name, printable(value)], [width, 0]))
    .join('\n');
}

/** Returns `2026-11-21 08:30:00` in UTC; `-` for null. */
export function shortTime(time: string | Date | null): string {
  if (time === null) return '-';
  const iso = typeof time === 'string' ? time : time.toISOString();
  return iso.slice(0, 19).replace('T', ' ');
}

function alignCells(cells: readonly string[], widths: readonly number[]): string {
  return cells
    .map((cell, at) => cell + ' '.repeat(Math.max(0, (widths[at] ?? 0) - widthOf(cell))))
    .join(GAP)
    .trimEnd();
}

/** Replaces control characters: subjects and server replies could otherwise control the terminal. */
export function printable(cell: string): string {
  return stripVTControlCharacters(cell).replace(/[\u0000-\u001f\u007f-\u009f]+/g, ' ');
}

/** Makes content printable. Only its line breaks are trusted. */
export function printableLines(text: string): string {
  return text.split('\n').map(printable).join('\n');
}

/** Created for the first text beyond ASCII: that takes 12 ms, which every command and every start would pay. */
let segmenter: Intl.Segmenter | null = null;

function charactersOf(text: string): Intl.Segments {
  segmenter ??= new Intl.Segmenter('en', { granularity: 'grapheme' });
  return segmenter.segment(text);
}

/** Characters that terminals show in two columns (UAX #11, Wide and Fullwidth), as far as emails contain them. */
const WIDE =
  /^[\p{scx=Han}\p{scx=Hangul}\p{scx=Hiragana}\p{scx=Katakana}\p{Emoji_Presentation}\uff01-\uff60\uffe0-\uffe6]|\ufe0f/v;
const NO_WIDTH = /^[\p{M}\p{Cf}]+$/v;

/** Returns the columns that a terminal needs for a text without control characters. */
function widthOf(text: string): number {
  if (/^[ -~]*$/.test(text)) return text.length;
  let width = 0;
  for (const { segment } of charactersOf(text)) width += widthOfCharacter(segment);
  return width;
}

function widthOfCharacter(character: string): number {
  if (NO_WIDTH.test(character)) return 0;
  return WIDE.test(character) ? 2 : 1;
}

/** Splits the text into lines of whole words. A word that is wider than a line stays whole. */
function wrapText(text: string, widthMax: number): string[] {
  const [first = '', ...words] = text.split(' ');
  const lines = [first];
  for (const word of words) {
    const longer = `${lines.at(-1)} ${word}`;
    if (widthOf(longer) <= widthMax) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

function cutText(text: string, widthMax: number): string {
  if (widthOf(text) <= widthMax) return text;
  let [beginning, width] = ['', 0];
  for (const { segment } of charactersOf(text)) {
    width += widthOfCharacter(segment);
    if (width > widthMax - ELLIPSIS.length) break;
    beginning += segment;
  }
  return beginning.trimEnd() + ELLIPSIS;
}
