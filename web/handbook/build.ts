/**
 * Builds the handbook: docs/ and some documents beside it as pages, as Markdown, and as an index for the search.
 *
 * The result is static files that load nothing from elsewhere. Pages are named by their address (`sending.html`), with
 * their Markdown beside them (`sending.md`). src/http/dashboard/handbook-routes.ts serves them at /docs.
 */
import { createHash } from 'node:crypto';
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { globSync } from 'node:fs';
import { dirname, extname, join } from 'node:path';
import tailwindcss from '@tailwindcss/vite';
import { build } from 'vite';
import { type ReferenceSource, referenceParts } from '../../src/http/openapi/reference-page.ts';
import type { Entry } from './client/index-options.ts';
import {
  BASE,
  type Document,
  readContents,
  readDocuments,
  resolveLink,
  sourceUrlOf,
  urlOf,
} from './documents.ts';
import { type Heading, type Rendered, renderDocument } from './markdown.ts';
import { type Assets, type Frame, renderPage } from './pages.ts';
import { operationsOf } from './operations.ts';
import { buildIndex } from './search-index.ts';

const ROOT = join(import.meta.dirname, '../..');
const IMAGES = 'docs';

type Target = { folder: string; documents: ReadonlyMap<string, Document> };

/** @param folder a folder that does not exist yet */
export async function buildHandbook(folder: string): Promise<void> {
  const documents = readDocuments(ROOT);
  const target = { folder, documents };
  const [{ script, theme, style }, imageUrls, source] = await Promise.all([
    bundle(folder),
    copyImages(folder),
    readReference(),
  ]);
  const sections = readContents(documents);
  const pages = sections.flatMap((section) => section.pages);
  const titles = new Map(pages.map(({ address, title }) => [urlOf(address), title]));
  const rendered = new Map<Document, Rendered>();
  for (const document of documents.values())
    rendered.set(document, await renderDocument(document, { documents, imageUrls, titles }));
  const entries = [...rendered].flatMap(([document, page]) => entriesOf(document, page));
  const index = await writeIndex(folder, [...entries, ...operationsOf(source)]);
  const frame: Frame = {
    version: await readVersion(),
    assets: { script, theme, style, index },
    sections,
  };
  for (const [document, page] of rendered) await writeDocument(target, { document, page, frame });
  await writeReference(folder, source, frame);
  await writeNotFound(folder, frame);
  await writeFile(join(folder, 'llms.txt'), llmsText(frame, rendered));
}

/** Bundles scripts and styles, and returns their URLs. */
async function bundle(folder: string): Promise<Omit<Assets, 'index'>> {
  const root = import.meta.dirname;
  await build({
    root,
    configFile: false,
    publicDir: false,
    base: `${BASE}/`,
    logLevel: 'warn',
    plugins: [tailwindcss()],
    build: {
      outDir: folder,
      emptyOutDir: false,
      target: 'es2022',
      manifest: 'manifest.json',
      assetsInlineLimit: 0,
      modulePreload: { polyfill: false },
      rolldownOptions: {
        input: ['client/handbook.ts', 'client/theme.ts', 'handbook.css'].map((name) =>
          join(root, name),
        ),
      },
    },
  });
  const manifestPath = join(folder, 'manifest.json');
  const manifest = JSON.parse(await readFile(manifestPath, 'utf8')) as Record<
    string,
    { file: string }
  >;
  await rm(manifestPath);
  const urlOfFile = (name: string) => `${BASE}/${manifest[name]!.file}`;
  return {
    script: urlOfFile('client/handbook.ts'),
    theme: urlOfFile('client/theme.ts'),
    style: urlOfFile('handbook.css'),
  };
}

/** Copies the images of docs/images, and returns their URLs by their path below docs/. */
async function copyImages(folder: string): Promise<Map<string, string>> {
  const urls = new Map<string, string>();
  for (const path of globSync('images/*', { cwd: join(ROOT, IMAGES) })) {
    urls.set(path, await writeAsset(folder, path, await readFile(join(ROOT, IMAGES, path))));
  }
  return urls;
}

/** Writes a file with the hash of its content in its name, and returns its URL. */
async function writeAsset(folder: string, name: string, content: Buffer | string): Promise<string> {
  const hash = createHash('sha256').update(content).digest('base64url').slice(0, 8);
  const extension = extname(name);
  const base = name.slice(name.lastIndexOf('/') + 1, -extension.length);
  const file = `assets/${base}-${hash}${extension}`;
  await write(folder, file, content);
  return `${BASE}/${file}`;
}

function writeIndex(folder: string, entries: readonly Omit<Entry, 'id'>[]): Promise<string> {
  return writeAsset(folder, 'search.json', buildIndex(entries));
}

function entriesOf({ address }: Document, { title, passages }: Rendered): Omit<Entry, 'id'>[] {
  return passages.map(({ anchor, heading, text }) => ({
    url: urlOf(address) + (anchor === '' ? '' : `#${anchor}`),
    page: title,
    heading,
    text: text.replaceAll(/\s+/g, ' '),
  }));
}

async function writeDocument(
  { folder, documents }: Target,
  { document, page, frame }: { document: Document; page: Rendered; frame: Frame },
): Promise<void> {
  const { address, path } = document;
  const { title, headings } = page;
  const html = address === '' ? asCards(page.html) : page.html;
  const contents = address === '' ? '' : contentsOf(headings);
  const text = renderPage({ title, address, hasSource: true, html, contents }, frame);
  await write(folder, `${address === '' ? 'index' : address}.html`, text);
  const source = document.text.replaceAll(/\]\(([^)\s]+)\)/g, (_, href: string) => {
    const isImage = href.endsWith('.png');
    return isImage
      ? `](${href})`
      : `](${resolveLink(documents, { from: path, href, form: 'source' })})`;
  });
  await write(folder, sourceUrlOf(address).slice(BASE.length + 1), source);
}

/** On the first page, a link and its description become a title and a sentence. */
function asCards(html: string): string {
  return html.replaceAll(/<\/a>: (\p{L})/gu, (_, letter: string) => `</a>${letter.toUpperCase()}`);
}

function contentsOf(headings: readonly Heading[]): string {
  const shown = headings.filter(({ depth }) => depth === 2 || depth === 3);
  if (shown.length < 2) return '';
  const items = shown.map(
    ({ depth, anchor, text }) =>
      `<li class="depth-${depth}"><a href="#${anchor}">${escape(text)}</a></li>`,
  );
  return `<ul>${items.join('')}</ul>`;
}

const escape = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;');

async function readReference(): Promise<ReferenceSource> {
  return JSON.parse(await readFile(join(ROOT, 'docs/openapi.json'), 'utf8')) as ReferenceSource;
}

async function writeReference(
  folder: string,
  source: ReferenceSource,
  frame: Frame,
): Promise<void> {
  const { menu, main } = referenceParts(source);
  const page = {
    title: 'API reference',
    address: 'reference',
    hasSource: false,
    html: main,
    contents: menu,
  };
  await write(folder, 'reference.html', renderPage(page, frame));
}

const NOT_FOUND = `<h1>There is no such page</h1>
<p>It may be a page of another version. Search for it, or begin at <a href="${BASE}">the first page</a>.</p>`;

async function writeNotFound(folder: string, frame: Frame): Promise<void> {
  const page = {
    title: 'There is no such page',
    address: null,
    hasSource: false,
    html: NOT_FOUND,
    contents: '',
  };
  await write(folder, '404.html', renderPage(page, frame));
}

/** Lists all pages as links to their Markdown, for language models. */
function llmsText({ sections }: Frame, rendered: ReadonlyMap<Document, Rendered>): string {
  const isPage = new Set([...rendered.keys()].map(({ address }) => address));
  const parts = sections.map(({ title, pages }) => {
    const lines = pages
      .filter(({ address }) => isPage.has(address))
      .map((page) => `- [${page.title}](${sourceUrlOf(page.address)})`);
    return `## Handbook: ${title}\n\n${lines.join('\n')}\n`;
  });
  return parts.join('\n');
}

async function readVersion(): Promise<string> {
  const { version } = JSON.parse(await readFile(join(ROOT, 'package.json'), 'utf8')) as {
    version: string;
  };
  return version;
}

async function write(folder: string, name: string, content: string | Buffer): Promise<void> {
  const path = join(folder, name);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, content);
}
