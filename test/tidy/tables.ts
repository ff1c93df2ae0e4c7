/** The rule for tables in documents: a row fits the page, else it is a list or a section. */
import type { Rule } from './rules.ts';

/** After `npm run format`, which pads the cells of a column to one width. */
const ROW_CHARS_MAX = 120;

export const tablesFitThePage: Rule = (files) =>
  files.flatMap(({ path, text }) => {
    const lines = text.split('\n');
    const long = lines.findIndex((line) => /^\s*\|/.test(line) && line.length > ROW_CHARS_MAX);
    return long < 0 ? [] : [`${path} has a table row that is too long in line ${long + 1}.`];
  });
