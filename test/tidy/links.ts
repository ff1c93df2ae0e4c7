/** The rules for what documents link to: tests by their title, files with their headings, and the pages of threats. */
import { posix } from 'node:path';
import type { Rule, SourceFile } from './source.ts';

/** Documents name tests that exist, as links: `[title](../src/a.test.ts)`. Takes documents and test files. */
export const namedTestsExist: Rule = (files) => {
  const sources = new Map(files.map(({ path, text }) => [path, text]));
  return documentsAmong(files).flatMap(({ path, text }) =>
    [...text.matchAll(/\[([^\]\n]+)\]\((\.\.\/[^)\n]+\.test\.ts)\)/g)]
      .map(([, title = '', link = '']) => ({ title, file: from(path, link) }))
      .filter(({ title, file }) => !hasTest(sources.get(file) ?? '', title))
      .map(({ title, file }) => `${path} names a test that ${file} does not have: ${title}.`),
  );
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

/**
 * Links in documents lead to files and headings that exist.
 * @param paths of the files and folders that a link may lead to, besides the documents
 */
export const linksLead =
  (paths: ReadonlySet<string>): Rule =>
  (files) => {
    const headings = new Map(files.map(({ path, text }) => [path, anchorsOf(text)]));
    const exists = (path: string): boolean => headings.has(path) || paths.has(path);
    return documentsAmong(files).flatMap(({ path, text }) =>
      linksIn(text)
        .map((link) => {
          const [file = '', anchor] = link.split('#', 2);
          return { link, anchor, file: file === '' ? path : from(path, file).replace(/\/$/, '') };
        })
        .filter(
          ({ anchor, file }) =>
            !exists(file) || (anchor !== undefined && headings.get(file)?.has(anchor) === false),
        )
        .map(({ link }) => `${path} links to ${link}, which is not there.`),
    );
  };

/** Relative links outside of code. */
function linksIn(text: string): string[] {
  const prose = text.replaceAll(/^ *```[\s\S]*?^ *```$/gm, '').replaceAll(/`[^`\n]*`/g, '');
  return [...prose.matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, link = '']) => link)
    .filter((link) => !/^[a-z]+:/.test(link));
}

/** The anchors that a forge gives to headings. */
function anchorsOf(text: string): Set<string> {
  const headings = [...text.matchAll(/^#{1,6} (.+)$/gm)].map(([, heading = '']) =>
    heading
      .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, '$1')
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-'),
  );
  return new Set(headings);
}

const THREATS = 'docs/security.md';

/** Each threat that a page of docs/security/ describes is in the list of docs/security.md, and no other. */
export const threatsAreListed: Rule = (files) => {
  const list = files.find(({ path }) => path === THREATS)?.text ?? '';
  const listed = new Map(
    list.split(/^### /m).map((part) => {
      const [, page = ''] = /^\[[^\]]+\]\(([^)]+)\)/.exec(part) ?? [];
      return [from(THREATS, page), namesIn(part, /^- \*\*(.+?)\*\*:/gm)];
    }),
  );
  return files
    .filter(({ path }) => path.startsWith('docs/security/'))
    .flatMap(({ path, text }) => {
      const described = namesIn(text, /^## (.+)$/gm);
      const named = listed.get(path) ?? [];
      return [
        ...described
          .filter((name) => !named.includes(name))
          .map((name) => `${path} describes "${name}", which ${THREATS} does not list.`),
        ...named
          .filter((name) => !described.includes(name))
          .map((name) => `${path} does not describe "${name}", which ${THREATS} lists.`),
      ];
    });
};

function namesIn(text: string, pattern: RegExp): string[] {
  return [...text.matchAll(pattern)].map(([, name = '']) => name);
}

function documentsAmong(files: readonly SourceFile[]): SourceFile[] {
  return files.filter(({ path }) => path.endsWith('.md'));
}

/** Returns the path in the repository that a link in a document leads to. */
function from(document: string, link: string): string {
  return posix.join(posix.dirname(document), link);
}
