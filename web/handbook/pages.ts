/** The HTML around the content of a page: header, navigation, contents of the page, and the pages before and after. */
import { escapeHtml } from '../../src/http/dashboard/html-page.ts';
import { type Link, type Section, sourceUrlOf, urlOf } from './documents.ts';

/** URLs of the files that all pages load. Their names contain the hash of their content. */
export type Assets = { script: string; theme: string; style: string; index: string };

export type Frame = { version: string; assets: Assets; sections: readonly Section[] };

export type Page = {
  title: string;
  /** Null for a page without an address of its own. */
  address: string | null;
  /** Whether the page exists as Markdown. */
  hasSource: boolean;
  html: string;
  /** HTML of the list "On this page"; empty when the page is short. */
  contents: string;
};

export function renderPage(page: Page, { version, assets, sections }: Frame): string {
  const section = sections.find(({ pages }) =>
    pages.some(({ address }) => address === page.address),
  );
  const title = page.address === '' ? 'Letterhaus handbook' : `${page.title} · Letterhaus handbook`;
  return `<!doctype html>
<html lang="en" data-index="${assets.index}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(title)}</title>
<link rel="icon" href="/dashboard/icon.svg" type="image/svg+xml">
${page.hasSource && page.address !== null ? `<link rel="alternate" type="text/markdown" href="${sourceUrlOf(page.address)}">\n` : ''}<script src="${assets.theme}"></script>
<link rel="stylesheet" href="${assets.style}">
<script type="module" src="${assets.script}"></script>
</head>
<body>
<a class="skip" href="#content">Skip to the content</a>
${header(version)}
<div class="columns">
<nav id="pages" aria-label="Pages">${sections.map((one) => navigationOf(one, page.address, one === section)).join('\n')}</nav>
<main id="content"${classOf(page)} tabindex="-1">
${section === undefined || page.address === '' ? '' : `<p class="section">${escapeHtml(section.title)}</p>\n`}${page.html}
${footer(page, { version, sections })}
</main>
${page.contents === '' ? '' : `<nav class="contents" aria-label="On this page"><h2>On this page</h2>${page.contents}</nav>`}
</div>
</body>
</html>
`;
}

function classOf({ address }: Page): string {
  if (address === '') return ' class="home"';
  return address === 'reference' ? ' class="reference"' : '';
}

function header(version: string): string {
  return `<header>
<button type="button" class="icon menu" aria-label="Navigation" aria-expanded="false" aria-controls="pages">${icon('M4 7h16M4 12h16M4 17h16')}</button>
<a class="brand" href="/docs">${LOGO}<b>Letterhaus</b> <span>Handbook</span></a>
<button type="button" class="search">${icon('M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14ZM16 16l4.5 4.5')}<span>Search</span><kbd>/</kbd></button>
<span class="version">${escapeHtml(version)}</span>
<a href="/docs/reference" class="wide">API</a>
<a href="/dashboard/" class="wide">Dashboard</a>
<button type="button" class="icon theme" aria-label="Theme">${icon('M12 3a9 9 0 1 0 9 9c-5 2-11-4-9-9Z')}</button>
</header>`;
}

const LOGO =
  '<svg class="logo" viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="7"/><path d="M7.5 14.5 16 8l8.5 6.5V24h-17zM7.5 14.5 16 20l8.5-5.5"/></svg>';

function icon(path: string): string {
  return `<svg viewBox="0 0 24 24" aria-hidden="true"><path d="${path}"/></svg>`;
}

function navigationOf({ title, pages }: Section, address: string | null, isOpen: boolean): string {
  const links = pages
    .map((page) => {
      const current = page.address === address ? ' aria-current="page"' : '';
      return `<li><a href="${urlOf(page.address)}"${current}>${escapeHtml(page.title)}</a></li>`;
    })
    .join('');
  return `<details${isOpen ? ' open' : ''}><summary>${escapeHtml(title)}</summary><ul>${links}</ul></details>`;
}

function footer(page: Page, { version, sections }: Omit<Frame, 'assets'>): string {
  const { address } = page;
  const links = sections.flatMap(({ pages }) => pages);
  const place = links.findIndex((link) => link.address === address);
  const [before, after] = place < 0 ? [] : [links[place - 1], links[place + 1]];
  const source =
    page.hasSource && address !== null
      ? `<a href="${sourceUrlOf(address)}">This page as Markdown</a>`
      : '<a href="/openapi.json">openapi.json</a>';
  return `<footer>
<div class="neighbours">${neighbour('before', 'Previous', before)}${neighbour('after', 'Next', after)}</div>
<p>Letterhaus ${escapeHtml(version)} · ${source} · <a href="/llms.txt">llms.txt</a></p>
</footer>`;
}

function neighbour(kind: 'before' | 'after', label: string, link: Link | undefined): string {
  if (link === undefined) return '';
  return `<a class="${kind}" href="${urlOf(link.address)}"><small>${label}</small>${escapeHtml(link.title)}</a>`;
}
