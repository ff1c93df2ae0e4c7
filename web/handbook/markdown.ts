/**
 * Renders a document as HTML, and as the sections that the search looks through. HTML in a document is shown as text.
 * Anchors of headings are those of the forge, so a link to a heading works in both places.
 */
import { Marked, type RendererThis, type Token, type Tokens } from 'marked';
import { escapeHtml } from '../../src/http/dashboard/html-page.ts';
import { type Document, resolveLink } from './documents.ts';
import { renderDiagram } from './diagram.ts';
import { highlight } from './highlight.ts';

export type Heading = { depth: number; anchor: string; html: string; text: string };
/** The text between a heading and the next one, without markup. */
export type Passage = { anchor: string; heading: string; text: string };
export type Rendered = { title: string; html: string; headings: Heading[]; passages: Passage[] };

type Resolve = {
  /** Returns where a link of the document leads. */
  link: (href: string) => string;
  /** Returns the URL of an image. */
  image: (href: string) => string;
  /** Returns the title of a page, or null for other links. */
  title: (href: string) => string | null;
};

type Around = {
  documents: ReadonlyMap<string, Document>;
  imageUrls: ReadonlyMap<string, string>;
  /** Titles of the pages in the navigation, by their URL. */
  titles: ReadonlyMap<string, string>;
};

export async function renderDocument(
  document: Document,
  { documents, imageUrls, titles }: Around,
): Promise<Rendered> {
  const link = (href: string) =>
    resolveLink(documents, { from: document.path, href, form: 'page' });
  const resolve: Resolve = {
    link,
    title: (href) => titles.get(link(href)) ?? null,
    image: (href) => {
      const url = imageUrls.get(href.replace(/^(\.\.\/|docs\/)*/, ''));
      if (url === undefined) throw new Error(`${document.path} has no image ${href}.`);
      return url;
    },
  };
  const headings: Heading[] = [];
  const marked = new Marked({ renderer: rendererOf(resolve, headings) });
  const tokens = marked.lexer(document.text);
  await drawDiagrams(tokens);
  const html = marked.parser(tokens);
  const title = headings.find(({ depth }) => depth === 1)?.text ?? document.address;
  return { title, html, headings, passages: passagesOf(tokens, headings) };
}

/** A diagram is drawn before the page is rendered, because drawing is asynchronous. */
async function drawDiagrams(tokens: Token[]): Promise<void> {
  let count = 0;
  for (const token of tokens) {
    if (token.type !== 'code' || token['lang'] !== 'mermaid') continue;
    count += 1;
    Object.assign(token, { svg: await renderDiagram(String(token['text']), `diagram-${count}`) });
  }
}

function rendererOf(resolve: Resolve, headings: Heading[]) {
  const anchors = new Anchors();
  return {
    heading(this: RendererThis, { tokens, depth }: Tokens.Heading): string {
      const html = this.parser.parseInline(tokens);
      const text = textOf(tokens);
      const anchor = anchors.next(text);
      headings.push({ depth, anchor, html, text });
      if (depth === 1) return `<h1 id="${anchor}">${html}</h1>\n`;
      return `<h${depth} id="${anchor}"><a class="anchor" href="#${anchor}">${withoutLinks(html)}</a></h${depth}>\n`;
    },
    link(this: RendererThis, { href, text, tokens }: Tokens.Link): string {
      const url = resolve.link(href);
      const isElsewhere = /^https?:/.test(url);
      const more = isElsewhere ? ' class="elsewhere" rel="noreferrer"' : '';
      // Documents often name a page by its file, as a reader of the repository knows it.
      const title = /^[\w./-]+\.(?:md|json)$/.test(text) ? resolve.title(href) : null;
      const content = title === null ? this.parser.parseInline(tokens) : escapeHtml(title);
      return `<a href="${escapeHtml(url)}"${more}>${content}</a>`;
    },
    image({ href, text }: Tokens.Image): string {
      return `<img src="${resolve.image(href)}" alt="${escapeHtml(text)}" loading="lazy">`;
    },
    code(token: Tokens.Code): string {
      if ('svg' in token) return `<figure class="diagram">${String(token.svg)}</figure>\n`;
      const { text, lang = '' } = token;
      return `<div class="code"><pre tabindex="0"><code>${highlight(text, lang)}</code></pre></div>\n`;
    },
    table(this: RendererThis, { header, rows }: Tokens.Table): string {
      const cells = (tag: 'td' | 'th', row: Tokens.TableCell[]) =>
        `<tr>${row.map(({ tokens }) => `<${tag}>${this.parser.parseInline(tokens)}</${tag}>`).join('')}</tr>`;
      const body = rows.map((row) => cells('td', row)).join('\n');
      return `<div class="table" tabindex="0"><table><thead>${cells('th', header)}</thead><tbody>\n${body}\n</tbody></table></div>\n`;
    },
    html: ({ text }: Tokens.HTML | Tokens.Tag): string => escapeHtml(text),
  };
}

/** Gives headings the anchors that the forge gives them. */
class Anchors {
  readonly #counts = new Map<string, number>();

  next(heading: string): string {
    const anchor = heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-');
    const count = this.#counts.get(anchor) ?? 0;
    this.#counts.set(anchor, count + 1);
    return count === 0 ? anchor : `${anchor}-${count}`;
  }
}

/** A heading is a link to itself, and cannot contain another one. */
function withoutLinks(html: string): string {
  return html.replaceAll(/<\/?a\b[^>]*>/g, '');
}

function passagesOf(tokens: readonly Token[], headings: readonly Heading[]): Passage[] {
  const passages: Passage[] = [];
  for (const token of tokens) {
    if (token.type === 'heading') {
      const { anchor, text, depth } = headings[passages.length]!;
      passages.push({
        anchor: depth === 1 ? '' : anchor,
        heading: depth === 1 ? '' : text,
        text: '',
      });
    } else {
      const last = passages.at(-1);
      if (last !== undefined) last.text = `${last.text} ${textOf([token])}`.trim();
    }
  }
  return passages;
}

/** Returns the text of tokens and of those inside them, without markup. */
export function textOf(tokens: readonly Token[]): string {
  return tokens.map(textOfOne).join('');
}

function textOfOne(token: Token): string {
  switch (token.type) {
    case 'table': {
      const { header, rows } = token as Tokens.Table;
      return [header, ...rows].flatMap((row) => row.map((cell) => textOf(cell.tokens))).join(' ');
    }
    case 'list':
      return (token as Tokens.List).items.map((item) => textOf(item.tokens)).join(' ');
    case 'space':
    case 'br':
      return ' ';
    default:
      return 'tokens' in token && token.tokens ? textOf(token.tokens) : plain(token);
  }
}

function plain(token: Token): string {
  return 'text' in token ? String(token.text) : token.raw;
}
