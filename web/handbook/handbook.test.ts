/** Every document is a page with a place in the navigation, and every link of a page leads somewhere. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import MiniSearch from 'minisearch';
import { type ReferenceSource, referenceParts } from '../../src/http/openapi/reference-page.ts';
import { type Entry, INDEX_OPTIONS } from './client/index-options.ts';
import {
  BASE,
  type Document,
  readContents,
  readDocuments,
  resolveLink,
  urlOf,
} from './documents.ts';
import { type Rendered, renderDocument } from './markdown.ts';
import { operationsOf } from './operations.ts';
import { buildIndex } from './search-index.ts';

const ROOT = join(import.meta.dirname, '../..');
const documents = readDocuments(ROOT);
const contents = readContents(documents);
const titles = new Map(
  contents.flatMap(({ pages }) => pages.map(({ address, title }) => [urlOf(address), title])),
);
const imageUrls = new Map(
  ['images/overview.png', 'images/email.png'].map((path) => [path, `${BASE}/${path}`]),
);
const around = { documents, imageUrls, titles };
const rendered = new Map<Document, Rendered>();
for (const document of documents.values())
  rendered.set(document, await renderDocument(document, around));
const source = JSON.parse(readFileSync(join(ROOT, 'docs/openapi.json'), 'utf8')) as ReferenceSource;

const render = (text: string) => renderDocument({ path: 'docs/a.md', address: 'a', text }, around);

/** Addresses of pages, and the anchors in each. */
const anchors = new Map<string, Set<string>>(
  [...rendered].map(([{ address }, { headings }]) => [
    urlOf(address),
    new Set(headings.map(({ anchor }) => anchor)),
  ]),
);
anchors.set(
  `${BASE}/reference`,
  new Set([...referenceParts(source).main.matchAll(/ id="([^"]+)"/g)].map(([, id = '']) => id)),
);

/** Returns whether a URL of this host leads to a page, and to a heading of it. */
function leads(url: string): boolean {
  const [path = '', anchor] = url.split('#', 2);
  if (['/openapi.json', '/llms.txt', '/dashboard/'].includes(path)) return true;
  const found = anchors.get(path);
  return found !== undefined && (anchor === undefined || found.has(anchor));
}

test('every document has a place in the navigation, and decisions are in their list', () => {
  const shown = contents.flatMap(({ pages }) => pages.map(({ address }) => address));
  assert.equal(new Set(shown).size, shown.length, 'no page is there twice');
  const missing = [...documents.values()]
    .filter(({ path }) => !/^docs\/decisions\/.+\d\d\d\d-/.test(path) && path !== 'docs/README.md')
    .filter(({ address }) => !shown.includes(address) && !address.startsWith('decisions/'))
    .map(({ path }) => path);
  assert.deepEqual(missing, [], 'docs/README.md lists every page');
  const unknown = shown.filter((address) => !anchors.has(urlOf(address)));
  assert.deepEqual(unknown, []);
});

test('every link of every page leads to a page and a heading of the handbook, or to another host', () => {
  const broken: string[] = [];
  for (const [{ path, address }, { html }] of rendered) {
    for (const [, href = ''] of html.matchAll(/ href="([^"]*)"/g)) {
      if (/^(?:https?|mailto):/.test(href)) continue;
      if (!leads(href.startsWith('#') ? urlOf(address) + href : href))
        broken.push(`${path}: ${href}`);
    }
  }
  assert.deepEqual(broken, []);
});

test('a link that leads nowhere is found', () => {
  assert.equal(leads(`${BASE}/sending#test-addresses`), true);
  assert.equal(leads(`${BASE}/reference#sendEmail`), true);
  assert.equal(leads(`${BASE}/sending#no-such-heading`), false);
  assert.equal(leads(`${BASE}/no-such-page`), false);
});

test('a link to a document leads to its page, to a program to the forge, and in Markdown to Markdown', () => {
  const to = (from: string, href: string, form: 'page' | 'source' = 'page') =>
    resolveLink(documents, { from, href, form });
  assert.equal(to('docs/api.md', 'sending.md#idempotency'), '/docs/sending#idempotency');
  assert.equal(to('docs/alarms/down.md', '../shaping.md'), '/docs/shaping');
  assert.equal(to('README.md', 'docs/decisions/'), '/docs/decisions');
  assert.equal(to('docs/api.md', '../sdk/README.md'), '/docs/sdk');
  assert.equal(to('docs/api.md', 'openapi.json'), '/docs/reference');
  assert.equal(to('docs/api.md', 'sending.md', 'source'), '/docs/sending.md');
  assert.equal(to('docs/api.md', '../README.md', 'source'), '/docs/about.md');
  assert.equal(
    to('docs/rfcs.md', '../src/mail/dkim.ts'),
    'https://github.com/letterhaus/letterhaus/blob/main/src/mail/dkim.ts',
  );
});

test('markup in a document is shown as text', async () => {
  const { html } = await render('# A\n\n<script>alert(1)</script>\n\nb <img src=x> c\n');
  assert.doesNotMatch(html, /<script|<img/);
  assert.match(html, /&#60;script&#62;/);
});

test('a page with a link named by its file has the title of the page there', async () => {
  const { html } = await render('# A\n\n[sending.md](sending.md), [this](sending.md)\n');
  assert.match(
    html,
    /<a href="\/docs\/sending">Sending by HTTP<\/a>, <a href="\/docs\/sending">this<\/a>/,
  );
});

test('code has colours, and headings have the anchors of the forge', async () => {
  const { html, headings } = await render(
    '# A\n\n## A `b`, c\n\n## A b c\n\n```sh\necho "$HOME"\n```\n',
  );
  assert.deepEqual(
    headings.map(({ anchor }) => anchor),
    ['a', 'a-b-c', 'a-b-c-1'],
  );
  assert.match(html, /<span class="hljs-/);
});

test('a diagram is drawn without styles that the policy of the pages forbids', async () => {
  const { html } = await render(
    '# A\n\n```mermaid\nstateDiagram-v2\n  [*] --> open\n  open --> full: filled\n```\n',
  );
  assert.match(html, /<figure class="diagram"><svg [^>]*role="img"/);
  assert.match(html, />filled<\/text>/);
  assert.doesNotMatch(html, /<style|style="|https?:\/\/(?!www\.w3\.org)/);
});

test('no page has a script or a style of its own, or anything from another host', () => {
  for (const [{ path }, { html }] of rendered) {
    assert.doesNotMatch(html, /<script|<style| style="| on\w+="|<iframe/, path);
    for (const [, url = ''] of html.matchAll(/ src="([^"]*)"/g))
      assert.match(url, /^\/docs\//, path);
  }
});

test('the index finds headings, parts of names, misspelt words and operations of the API', () => {
  const entries = [...rendered].flatMap(([{ address }, { title, passages }]) =>
    passages.map(({ anchor, heading, text }) => ({
      url: `${urlOf(address)}#${anchor}`,
      page: title,
      heading,
      text,
    })),
  );
  const json = buildIndex([...entries, ...operationsOf(source)]);
  const index = MiniSearch.loadJSON<Entry>(json, INDEX_OPTIONS);
  const urls = (text: string) =>
    index
      .search(text, {
        prefix: true,
        fuzzy: 0.2,
        boost: { page: 4, heading: 3 },
        combineWith: 'AND',
      })
      .slice(0, 10)
      .map(({ url }) => String(url));
  assert.ok(urls('test addresses').includes('/docs/sending#test-addresses'));
  assert.ok(urls('LETTERHAUS_PUBLIC_URL').some((url) => url.startsWith('/docs/configuration')));
  assert.ok(urls('public url').length > 0);
  assert.ok(urls('idempotncy').some((url) => url.includes('idempotency')));
  assert.ok(urls('sendEmail').includes('/docs/reference#sendEmail'));
});

test('each screen of the dashboard leads to a page of the handbook', () => {
  const screens = readFileSync(join(ROOT, 'web/src/shell/screens.ts'), 'utf8');
  const addresses = [...screens.matchAll(/handbook: '([^']+)'/g)].map(
    ([, address = '']) => address,
  );
  assert.ok(addresses.length >= 15);
  for (const address of addresses) assert.ok(leads(`${BASE}/${address}`), address);
});
