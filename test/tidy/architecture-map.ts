/** The rules for the files that ARCHITECTURE.md and the other documents name. */
import { importsOf, type Rule, type SourceFile, valueImportsOf } from './source.ts';

const MAP = 'ARCHITECTURE.md';

/** Pages of docs/security/ name whole paths, other documents also paths below src/. */
export const mappedFilesExist: Rule = (files) => {
  const paths = new Set(files.map(({ path }) => path));
  const documents = files.filter(({ path }) => path.endsWith('.md'));
  return documents.flatMap(({ path: document, text }) =>
    (document.startsWith('docs/security/') ? pathsIn(text) : namedIn(text))
      .filter((path) => !paths.has(path))
      .map((path) => `${document} names ${path}, which is not there.`),
  );
};

/** A path of more files than this is not the path of one email. */
const MAPPED_FILES_MAX = 30;

export const theMapIsShort: Rule = (files) => {
  const { length } = mappedPath(files);
  if (length <= MAPPED_FILES_MAX) return [];
  return [`${MAP} names ${length} files on the path of one email (${MAPPED_FILES_MAX} at most).`];
};

/**
 * Each file of the path is imported by one before it, or named in the comment that such a one opens with; and
 * none calls into a file before it. Types may: they are read where they are made.
 */
export const theMapIsAStraightLine: Rule = (files) => {
  const byPath = new Map(files.map((file) => [file.path, file]));
  const path = mappedPath(files).flatMap((name) => byPath.get(name) ?? []);
  return path.flatMap((file, index) => {
    const before = path.slice(0, index);
    const isLedTo = index === 0 || before.some((one) => leadsTo(one).includes(file.path));
    const back = valueImportsOf(file).filter((name) => before.some((one) => one.path === name));
    return [
      ...(isLedTo ? [] : [`${file.path} is named or imported by no file before it in ${MAP}.`]),
      ...back.map((name) => `${file.path} calls back into ${name}, which is before it in ${MAP}.`),
    ];
  });
};

/** A file that a step names without a folder is beside the file that the step names before it. */
export const neighboursInTheMapExist: Rule = (files) => {
  const paths = new Set(files.map(({ path }) => path));
  return stepsOf(files).flatMap((step) => {
    let folder = '';
    return [...step.matchAll(/`((?:[\w-]+\/)*)([\w.-]+\.tsx?)`/g)].flatMap(
      ([, named = '', name]) => {
        if (named !== '') folder = named;
        return paths.has(`src/${folder}${name}`)
          ? []
          : [`${MAP} names ${name} beside files of ${folder}, where it is not.`];
      },
    );
  });
};

function leadsTo(file: SourceFile): string[] {
  const [header = ''] = /^\/\*\*[\s\S]*?\*\//.exec(file.text) ?? [];
  const folder = file.path.slice(0, file.path.lastIndexOf('/') + 1);
  const named = [...header.matchAll(/[\w/-]+\.ts\b/g)].map(([name]) => name);
  return [
    ...importsOf(file),
    ...named.map((name) => (name.includes('/') ? 'src/' : folder) + name),
  ];
}

/** The files in the numbered steps of the email's way, in order. */
function mappedPath(files: readonly SourceFile[]): string[] {
  return [...new Set(stepsOf(files).flatMap((step) => namedIn(step)))];
}

function stepsOf(files: readonly SourceFile[]): string[] {
  const [, way = ''] = textOf(files).split(/^## The path of one email$/m);
  return way.match(/^\d+\. [^\n]*(?:\n {3}[^\n]*)*/gm) ?? [];
}

function textOf(files: readonly SourceFile[]): string {
  return files.find(({ path }) => path === MAP)?.text ?? '';
}

/** `accept/draft.ts` and `src/main.ts` alike as paths in the tree. */
function namedIn(text?: string): string[] {
  return pathsIn(text).map((name) => (/^(src|test|bench|web)\//.test(name) ? name : `src/${name}`));
}

function pathsIn(text = ''): string[] {
  const names = text.matchAll(/`((?:[\w-]+\/)+[\w.-]+\.tsx?)`/g);
  return [...names].map(([, name = '']) => name);
}
