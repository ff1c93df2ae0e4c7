/** The rule for the tests that documents name as links, `[title](../src/a.test.ts)`. */
import type { Rule } from './rules.ts';

/** Documents name tests that exist. Takes documents and test files. */
export const namedTestsExist: Rule = (files) => {
  const sources = new Map(files.map(({ path, text }) => [path, text]));
  const documents = files.filter(({ path }) => path.endsWith('.md'));
  return documents.flatMap(({ path, text }) => {
    const links = text.matchAll(/\[([^\]\n]+)\]\(\.\.\/([^)\n]+\.test\.ts)\)/g);
    return [...links].flatMap(([, title = '', file = '']) =>
      hasTest(sources.get(file) ?? '', title)
        ? []
        : [`${path} names a test that ${file} does not have: ${title}.`],
    );
  });
};

/**
 * Returns whether the source of a test file has a test of this title. A title that is made of parts
 * (`${what} bounces`) counts when each part stands in the file as well.
 */
function hasTest(source: string, title: string): boolean {
  const titles = source.matchAll(/\btest\(\s*(['"`])((?:\\.|(?!\1)[^\\])*)\1/gs);
  return [...titles].some(([, quote, text = '']) => {
    if (quote !== '`') return text.replaceAll(/\\(.)/g, '$1') === title;
    const fixed = text.split(/\$\{[^}]*\}/).map(escaped);
    const parts = new RegExp(`^${fixed.join('(.+)')}$`).exec(title)?.slice(1);
    return parts?.every((part) => source.includes(part)) ?? false;
  });
}

function escaped(text: string): string {
  return text.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&');
}
