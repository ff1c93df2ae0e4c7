/**
 * The documents of the handbook: which files of the repository are pages, their addresses, and their order.
 *
 * The lists of docs/README.md are the navigation, so the forge and the handbook lead to the same pages. A decision is a
 * page that only the list of decisions names. A link to any other file of the repository leads to the forge.
 */
import { globSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';
import { lexer, type Token, type Tokens } from 'marked';

export const BASE = '/docs';
const FORGE = 'https://github.com/letterhaus/letterhaus/blob/main';
export const CONTENTS = 'docs/README.md';

/** Documents outside of docs/, with their addresses. */
const ELSEWHERE: Readonly<Record<string, string>> = {
  'README.md': 'about',
  'CHANGELOG.md': 'changelog',
  'SECURITY.md': 'reporting-vulnerabilities',
  'CONTRIBUTING.md': 'contributing',
  'ARCHITECTURE.md': 'architecture',
  'bench/README.md': 'benchmark',
  'sdk/README.md': 'sdk',
  'test/README.md': 'tests',
  'web/README.md': 'dashboard-code',
};

export type Document = {
  /** Relative to the repository, with slashes. */
  path: string;
  /** Below /docs/, without an extension; empty for the first page. */
  address: string;
  text: string;
};

export type Link = { title: string; address: string };
export type Section = { title: string; pages: Link[] };

/** Reads the documents that are there: a package or an image may lack those outside of docs/. */
export function readDocuments(root: string): Map<string, Document> {
  const paths = globSync(['docs/**/*.md', ...Object.keys(ELSEWHERE)], { cwd: root }).toSorted();
  return new Map(
    paths.map((path) => {
      const text = readFileSync(join(root, path), 'utf8');
      return [path, { path, address: addressOf(path), text }];
    }),
  );
}

function addressOf(path: string): string {
  return ELSEWHERE[path] ?? path.replace(/^docs\//, '').replace(/(?:^|\/)README\.md$|\.md$/, '');
}

/** Returns the URL of a page, relative to the host. */
export function urlOf(address: string): string {
  return address === '' ? BASE : `${BASE}/${address}`;
}

/** Returns the URL of a page as Markdown. */
export function sourceUrlOf(address: string): string {
  return `${BASE}/${address === '' ? 'index' : address}.md`;
}

/**
 * Returns where a link of a document leads: to a page, to the OpenAPI document, or to the forge.
 * @param form pages link to pages, their sources to sources
 */
export function resolveLink(
  documents: ReadonlyMap<string, Document>,
  { from, href, form }: { from: string; href: string; form: 'page' | 'source' },
): string {
  if (/^[a-z]+:/.test(href) || href.startsWith('#')) return href;
  const [file = '', anchor] = href.split('#', 2);
  const path = posix.join(posix.dirname(from), file).replace(/\/$/, '');
  const hash = anchor === undefined ? '' : `#${anchor}`;
  const document = documents.get(path) ?? documents.get(`${path}/README.md`);
  if (document !== undefined)
    return (form === 'page' ? urlOf : sourceUrlOf)(document.address) + hash;
  if (path === 'docs/openapi.json') return form === 'page' ? `${BASE}/reference` : '/openapi.json';
  return `${FORGE}/${path}${hash}`;
}

/** Returns the sections of docs/README.md, each with the pages that its list links to first. */
export function readContents(documents: ReadonlyMap<string, Document>): Section[] {
  const sections: Section[] = [];
  for (const token of lexer(documents.get(CONTENTS)!.text)) {
    if (isHeading(token) && token.depth === 2) sections.push({ title: token.text, pages: [] });
    if (!isList(token)) continue;
    for (const item of token.items) {
      const link = firstLinkOf(item.tokens);
      if (link === null) continue;
      const url = resolveLink(documents, { from: CONTENTS, href: link.href, form: 'page' });
      if (!url.startsWith(BASE)) continue;
      const page = { title: link.text.replaceAll('`', ''), address: url.slice(BASE.length + 1) };
      sections.at(-1)?.pages.push(page);
    }
  }
  return sections;
}

function firstLinkOf(tokens: readonly Token[]): Tokens.Link | null {
  const [first] = tokens;
  if (first === undefined) return null;
  if (first.type === 'link') return first as Tokens.Link;
  return 'tokens' in first && first.tokens ? firstLinkOf(first.tokens) : null;
}

const isHeading = (token: Token): token is Tokens.Heading => token.type === 'heading';
const isList = (token: Token): token is Tokens.List => token.type === 'list';
