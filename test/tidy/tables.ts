/** The rules for the width of documents: prose and rows of tables fit the page, and a longer row is a list. */
import type { Rule } from './source.ts';

/** After `npm run format`, which pads the cells of a column to one width. */
const ROW_CHARS_MAX = 120;
const PROSE_CHARS_MAX = 120;

export const tablesFitThePage: Rule = (files) =>
  files.flatMap(({ path, text }) => {
    const lines = text.split('\n');
    const long = lines.findIndex((line) => /^\s*\|/.test(line) && line.length > ROW_CHARS_MAX);
    return long < 0 ? [] : [`${path} has a table row that is too long in line ${long + 1}.`];
  });

/** Code, tables and lines that are one link or one code span may be longer. */
export const proseFitsThePage: Rule = (files) =>
  files.flatMap(({ path, text }) => {
    const prose = text.replaceAll(/^```[\s\S]*?^```$/gm, (code) => code.replaceAll(/./g, ''));
    const long = prose
      .split('\n')
      .findIndex((line) => line.length > PROSE_CHARS_MAX && !NO_PROSE.test(line));
    return long < 0 ? [] : [`${path} has a line of prose that is too long in line ${long + 1}.`];
  });

/** An indented code line, a row of a table, or a link or code span (of a list, with the words before it). */
const NO_PROSE = /^ {4}|^\s*\||^\s*(?:[-*] )?(?:and |, )?(?:\[[^\]]*\]\([^)]*\)|`[^`]*`)[.,;]?$/;
