/**
 * Derives the text part of an email that has only html.
 *
 * Writes the visible content in order: blocks on separate lines, a blank line around paragraphs, headings, lists and
 * tables, and cells in a row. List items follow `-` or their number (list-marks.ts), and links become `text <url>`.
 * The alternative text of an image is used only for a link without other content. Scripts, styles and elements
 * hidden by `display:none` (the preview line of many templates) are left out. Lines are not wrapped, because mail
 * programs do that.
 *
 * Linear in any html, and bounded: at most TEXT_READ_MAX characters between tags are decoded, and html.ts bounds the
 * tags. docs/decisions/0003-own-composer-and-signer.md lists the reasons against a library.
 */
import { attributeOf, decodeEntities, type HtmlReader, scanHtml } from './html.ts';
import { type Item, OrderedList } from './list-marks.ts';

export const DERIVED_TEXT_LENGTH_MAX = 200_000;
/** Limit on raw text between tags, before decoding: 20 MB of `&lt;` take seconds. */
const TEXT_READ_MAX = 1024 * 1024;
/** List marks and rules can make a short text this much longer than its html. */
const LONGER_BY_MAX = 200;
/** Elements without an end tag, which have no content to hide. */
const VOID_ELEMENTS = new Set(['area', 'base', 'br', 'col', 'hr', 'img', 'input', 'link', 'meta']);
const BLANKS = /[\t\n\f\r \u00a0]+/g;
/** Matches references, blanks other than single spaces, and invisible characters. */
const NEEDS_DECODING =
  /[\0-\x1f&\x7f\u00a0\u00ad\u1680\u2000-\u200b\u2028\u2029\u202f\u205f\u3000\ufeff]|\u034f| {2}/;
/** Invisible fillers, which are removed: controls, soft hyphens, zero-width spaces. */
const INVISIBLE = /[\0-\b\v\x0e-\x1f\x7f\u00ad\u200b\ufeff]|\u034f/g;
const URL_CHARACTERS_MAX = 2_000;

/** Returns a text at most 200 characters longer than its html, and at most 200,000 long. */
export function textFromHtml(html: string): string {
  const writer = new TextWriter(Math.min(html.length + LONGER_BY_MAX, DERIVED_TEXT_LENGTH_MAX));
  scanHtml(html, writer);
  return writer.end();
}

type Layout = 'line' | 'paragraph' | 'cell' | 'item' | 'list' | 'hidden';

const LAYOUT = new Map<string, Layout>();
for (const [layout, names] of Object.entries({
  line:
    'address article aside body caption center dd div dt fieldset figcaption figure footer form ' +
    'header html legend main nav option section summary tbody tfoot thead tr',
  paragraph: 'blockquote details dl h1 h2 h3 h4 h5 h6 hr p pre table',
  cell: 'td th',
  item: 'li',
  list: 'ol ul',
  hidden: 'object select svg template',
})) {
  for (const name of names.split(' ')) LAYOUT.set(name, layout as Layout);
}

/** Blanks of a source text. They are mostly at its ends, where no search is needed. */
function isBlank(code: number): boolean {
  return code === 32 || (code >= 9 && code <= 13 && code !== 11);
}

function visibleText(raw: string): string {
  return decodeEntities(raw).replace(INVISIBLE, '');
}

type Link = { url: string; firstPiece: number; alternative: string };
type List = {
  ordered: OrderedList | null;
  /** Pieces of the text for marks that are only known at the end of the list. */
  openMarks: { piece: number; mark: OpenMark }[];
};
type OpenMark = { list: List; indent: string; item: Item };

class TextWriter implements HtmlReader {
  readonly #lengthMax: number;
  readonly #pieces: string[] = [];
  #length = 0;
  #unreadChars = TEXT_READ_MAX;
  /** Pending output before the next text: line ends or a space, and a list mark. */
  #lineEnds = 0;
  #hasSpace = false;
  #mark = '';
  #openMark: OpenMark | null = null;
  #hidden: { name: string; depth: number } | null = null;
  #link: Link | null = null;
  readonly #lists: List[] = [];
  #preformatted = 0;
  #preStart = 0;

  constructor(lengthMax: number) {
    this.#lengthMax = lengthMax;
  }

  text(source: string): void {
    if (this.#hidden !== null || this.#length > this.#lengthMax) return;
    const raw = source.slice(0, this.#unreadChars);
    this.#unreadChars -= raw.length;
    if (this.#preformatted > 0) return this.#writePreformatted(raw);
    let start = 0;
    let end = raw.length;
    while (start < end && isBlank(raw.charCodeAt(start))) start += 1;
    while (end > start && isBlank(raw.charCodeAt(end - 1))) end -= 1;
    this.#hasSpace ||= start > 0;
    if (start === end) return;
    this.#writeFlowing(raw.slice(start, end));
    this.#hasSpace ||= end < raw.length;
  }

  open(name: string, attributes: string): void {
    if (this.#hidden !== null) {
      if (name === this.#hidden.name) this.#hidden.depth += 1;
      return;
    }
    const layout = LAYOUT.get(name);
    if (layout === 'hidden' || isHidden(name, attributes)) {
      this.#hidden = { name, depth: 1 };
      return;
    }
    if (layout === 'item') this.#beginItem(attributes);
    else this.#applyLayout(layout);
    if (name === 'a') this.#openLink(attributes);
    else if (name === 'br') this.#lineEnds = Math.min(this.#lineEnds + 1, 2);
    else if (name === 'img' && this.#link)
      this.#link.alternative ||= attributeOf(attributes, 'alt') ?? '';
    else if (name === 'hr') this.#writeRule();
    else if (name === 'pre') this.#openPre();
    else if (name === 'ol' || name === 'ul') {
      this.#lists.push({
        ordered: name === 'ol' ? new OrderedList(attributes) : null,
        openMarks: [],
      });
    }
  }

  close(name: string): void {
    if (this.#hidden !== null) {
      if (name === this.#hidden.name) this.#hidden.depth -= 1;
      if (this.#hidden.depth === 0) this.#hidden = null;
      return;
    }
    if (name === 'a') this.#closeLink();
    else if (name === 'pre') this.#preformatted = Math.max(this.#preformatted - 1, 0);
    else if (name === 'ol' || name === 'ul') this.#endList();
    if (name !== 'li') this.#applyLayout(LAYOUT.get(name));
    else this.#breakLine(1);
    if (name === 'li' || name === 'ol' || name === 'ul') this.#dropMark();
  }

  end(): string {
    this.#closeLink();
    while (this.#lists.length > 0) this.#endList();
    return this.#pieces.join('').slice(0, this.#lengthMax).trimEnd().toWellFormed();
  }

  #write(text: string): void {
    if (text === '') return;
    if (this.#length > 0) {
      if (this.#lineEnds > 0) this.#push(this.#lineEnds === 1 ? '\n' : '\n\n');
      else if (this.#hasSpace) this.#push(' ');
    }
    if (this.#openMark !== null) {
      this.#openMark.list.openMarks.push({ piece: this.#pieces.length, mark: this.#openMark });
      this.#push('');
    }
    this.#push(this.#mark + text.slice(0, this.#lengthMax));
    this.#lineEnds = 0;
    this.#hasSpace = false;
    this.#dropMark();
  }

  /** Writes text without blanks at its ends, except encoded ones. */
  #writeFlowing(raw: string): void {
    if (!NEEDS_DECODING.test(raw)) return this.#write(raw);
    const text = raw.trim() === '' ? ' ' : visibleText(raw).replace(BLANKS, ' ');
    const start = text.startsWith(' ') ? 1 : 0;
    if (start === 1) this.#hasSpace = true;
    if (text.length === start) return;
    const end = text.endsWith(' ') ? text.length - 1 : text.length;
    this.#write(text.slice(start, end));
    this.#hasSpace = end < text.length;
  }

  #writePreformatted(raw: string): void {
    const lines = visibleText(raw)
      .replace(/\r\n?|\f/g, '\n')
      .replaceAll('\u00a0', ' ');
    // HTML ignores a line end directly after `<pre>`.
    const isFirst = this.#pieces.length === this.#preStart;
    this.#write(isFirst && lines.startsWith('\n') ? lines.slice(1) : lines);
  }

  #push(piece: string): void {
    this.#pieces.push(piece);
    this.#length += piece.length;
  }

  #breakLine(lineEnds: number): void {
    this.#lineEnds = Math.max(this.#lineEnds, lineEnds);
  }

  #applyLayout(layout: Layout | undefined): void {
    switch (layout) {
      case 'line':
        return this.#breakLine(1);
      case 'paragraph':
        return this.#breakLine(2);
      case 'list':
        return this.#breakLine(this.#lists.length === 0 ? 2 : 1);
      case 'cell':
        this.#hasSpace = true;
        return;
      case 'item':
      case 'hidden':
      case undefined:
    }
  }

  #beginItem(attributes: string): void {
    this.#breakLine(1);
    this.#dropMark();
    const indent = '  '.repeat(Math.min(Math.max(this.#lists.length - 1, 0), 3));
    const list = this.#lists.at(-1);
    const item = list?.ordered?.beginItem(attributes);
    if (list === undefined || item === undefined) this.#mark = `${indent}- `;
    else if (item.fromEnd) this.#openMark = { list, indent, item };
    else this.#mark = textOfMark({ list, indent, item });
  }

  #dropMark(): void {
    this.#mark = '';
    this.#openMark = null;
  }

  #endList(): void {
    for (const { piece, mark } of this.#lists.pop()?.openMarks ?? []) {
      this.#pieces[piece] = textOfMark(mark);
    }
  }

  #writeRule(): void {
    this.#write('---');
    this.#breakLine(2);
  }

  #openPre(): void {
    this.#preformatted += 1;
    this.#preStart = this.#pieces.length;
  }

  #openLink(attributes: string): void {
    this.#closeLink();
    const url = visibleUrl(attributeOf(attributes, 'href') ?? '');
    if (url !== null) this.#link = { url, firstPiece: this.#pieces.length, alternative: '' };
  }

  /** Writes the URL directly after the link's text, even if the text ended its block. */
  #closeLink(): void {
    const link = this.#link;
    if (link === null) return;
    this.#link = null;
    // Already decoded; text() decodes again.
    const text = link.alternative.replaceAll('&', '&amp;');
    if (this.#pieces.length === link.firstPiece) this.text(text);
    const label = this.#pieces.slice(link.firstPiece).join('').trim();
    if (label === '') this.#write(link.url);
    else if (!isSameUrl(label, link.url)) this.#push(` <${link.url}>`);
  }
}

function textOfMark({ list, indent, item }: OpenMark): string {
  return `${indent}${list.ordered?.markOf(item)} `;
}

function isHidden(name: string, attributes: string): boolean {
  if (!attributes.includes('none') || VOID_ELEMENTS.has(name)) return false;
  return /display\s*:\s*none/i.test(attributeOf(attributes, 'style') ?? '');
}

/** Returns the URL to show; null for anchors, relative paths and scripts. */
function visibleUrl(href: string): string | null {
  const url = href.replace(/[\0-\x20\x7f-\xa0]+/g, '');
  if (url.length > URL_CHARACTERS_MAX) return null;
  if (/^https?:\/\/./i.test(url)) return url;
  const address = /^(?:mailto|tel):([^?]+)/i.exec(url)?.[1];
  return address ?? null;
}

/** Returns whether label and URL are the same, like `Acme.com` and `https://acme.com/`. */
function isSameUrl(label: string, url: string): boolean {
  if (label.length > url.length + 8 || url.length > label.length + 9) return false;
  const bare = (text: string): string => text.toLowerCase().replace(/^https?:\/\/|\/$/g, '');
  return bare(label) === bare(url);
}
