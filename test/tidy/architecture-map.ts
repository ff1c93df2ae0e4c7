/** The rules for the files that ARCHITECTURE.md and the other documents name. */
import type { Rule } from './rules.ts';
import type { SourceFile } from './source.ts';

const MAP = 'ARCHITECTURE.md';

export const mappedFilesExist: Rule = (files) => {
  const paths = new Set(files.map(({ path }) => path));
  const documents = files.filter(({ path }) => path.endsWith('.md'));
  return documents.flatMap(({ path: document, text }) =>
    namedIn(text)
      .filter((path) => !paths.has(path))
      .map((path) => `${document} names ${path}, which is not there.`),
  );
};

/** A path of more files than this is not the path of one email. */
const MAPPED_FILES_MAX = 25;

export const theMapIsShort: Rule = (files) => {
  const rows = textOf(files).match(/^\| \d+ +\|.*$/gm) ?? [];
  const { size } = new Set(rows.flatMap((row) => namedIn(row)));
  if (size <= MAPPED_FILES_MAX) return [];
  return [`${MAP} names ${size} files in its table (${MAPPED_FILES_MAX} at most).`];
};

function textOf(files: readonly SourceFile[]): string {
  return files.find(({ path }) => path === MAP)?.text ?? '';
}

/** `sending/draft.ts` and `src/main.ts` alike as paths in the tree. */
function namedIn(text = ''): string[] {
  const names = text.matchAll(/`((?:[\w-]+\/)+[\w.-]+\.ts)`/g);
  return [...names].map(([, name = '']) =>
    /^(src|test|bench)\//.test(name) ? name : `src/${name}`,
  );
}
