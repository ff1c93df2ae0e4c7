/**
 * Splits HTML into texts and tags, in one pass without a tree, so the cost is linear and nesting is unlimited. Tags
 * end where browsers end them: a `>` in a quoted value does not count, and comments, scripts and styles are not
 * markup. Everything after TAGS_MAX tags is ignored, which bounds the work.
 */
import { decodeHTML, decodeHTMLAttribute } from 'entities/decode';

export type HtmlReader = {
  /** Receives text between two tags, with character references. Consecutive calls may belong to one text. */
  text(text: string): void;
  /** @param attributes the raw attributes: ` href="…" class=x` */
  open(name: string, attributes: string): void;
  close(name: string): void;
};

/** A hundred times as many tags as large newsletters have. */
export const TAGS_MAX = 200_000;

/** Elements whose content is skipped, with the pattern of their end tag. */
const RAW_ENDS = new Map(
  ['script', 'style', 'title', 'textarea', 'iframe', 'noembed', 'noframes', 'xmp'].map((name) => [
    name,
    new RegExp(`</${name}`, 'gi'),
  ]),
);
const SPACE = 32;
const DOUBLE_QUOTE = 34;
const SINGLE_QUOTE = 39;
const SLASH = 47;
const EQUALS = 61;
const GREATER = 62;
/** A name ends at white space, `/` or `=`. A value is quoted with `"`, with `'`, or not at all. */
const ATTRIBUTE =
  /([^\t\n\f\r /][^\t\n\f\r /=]*)(?:[\t\n\f\r ]*=[\t\n\f\r ]*(?:"([^"]*)"|'([^']*)'|([^\t\n\f\r ]*)))?/g;
/** Limit on a value before decoding: decoding 20 MB takes seconds. */
const ATTRIBUTE_CHARS_MAX = 32 * 1024;

/** Calls the reader for every text and tag, with names in lower case. */
export function scanHtml(html: string, reader: HtmlReader): void {
  let at = 0;
  for (let tags = 0; at < html.length && tags < TAGS_MAX; tags += 1) {
    const open = html.indexOf('<', at);
    if (open !== at) reader.text(html.slice(at, open === -1 ? html.length : open));
    if (open === -1) return;
    at = isLetter(html.charCodeAt(open + 1))
      ? readOpenTag(html, open + 1, reader)
      : readOther(html, open, reader);
  }
}

/** @returns the offset after the tag */
function readOpenTag(html: string, start: number, reader: HtmlReader): number {
  const nameEnd = endOfName(html, start);
  const name = nameAt(html, start, nameEnd);
  const end = endOfTag(html, nameEnd);
  if (end === -1) return html.length;
  reader.open(name, html.slice(nameEnd, end));
  const rawEnd = RAW_ENDS.get(name);
  if (rawEnd === undefined) return end + 1;
  rawEnd.lastIndex = end;
  const found = rawEnd.exec(html);
  return found === null ? html.length : found.index;
}

/** Reads a closing tag, a comment, a declaration, or a literal `<`. */
function readOther(html: string, open: number, reader: HtmlReader): number {
  const next = html[open + 1];
  if (next === '/' && isLetter(html.charCodeAt(open + 2))) {
    const nameEnd = endOfName(html, open + 2);
    const end = endOfTag(html, nameEnd);
    if (end === -1) return html.length;
    reader.close(nameAt(html, open + 2, nameEnd));
    return end + 1;
  }
  if (next !== '/' && next !== '!' && next !== '?') {
    reader.text('<');
    return open + 1;
  }
  // `<!-->` is a complete comment.
  const isComment = html.startsWith('--', open + 2);
  const end = isComment ? html.indexOf('-->', open + 2) : html.indexOf('>', open + 1);
  return end === -1 ? html.length : end + (isComment ? 3 : 1);
}

function isLetter(code: number): boolean {
  const lower = code | 32;
  return lower >= 97 && lower <= 122;
}

function endOfName(html: string, at: number): number {
  while (at < html.length) {
    const code = html.charCodeAt(at);
    if (code <= SPACE || code === SLASH || code === GREATER) break;
    at += 1;
  }
  return at;
}

/** Element names by first letter: slicing, lowercasing and hashing each name cost more than all other work. */
const NAMES: string[][] = [];
for (const name of (
  'a abbr address area article aside b base blockquote body br button caption center cite code col ' +
  'colgroup dd del details div dl dt em fieldset figcaption figure font footer form h1 h2 h3 h4 h5 ' +
  'h6 head header hr html i img input ins label li link main meta nav object ol option p pre q s ' +
  'script section select small span strike strong style sub summary sup svg table tbody td template ' +
  'textarea tfoot th thead time title tr u ul'
).split(' ')) {
  (NAMES[letterOf(name.charCodeAt(0))] ??= []).push(name);
}

function letterOf(code: number): number {
  return code & 31;
}

function nameAt(html: string, start: number, end: number): string {
  for (const name of NAMES[letterOf(html.charCodeAt(start))] ?? []) {
    if (name.length === end - start && isNameAt(html, start, name)) return name;
  }
  return html.slice(start, end).toLowerCase();
}

/** Compares case-insensitively. Setting this bit changes only capitals to their letters. */
function isNameAt(html: string, start: number, name: string): boolean {
  for (let at = 1; at < name.length; at += 1) {
    if ((html.charCodeAt(start + at) | 32) !== name.charCodeAt(at)) return false;
  }
  return true;
}

/** Returns the offset of the tag's `>`; -1 when there is none. A quote counts only after `=`. */
function endOfTag(html: string, at: number): number {
  let isValue = false;
  for (; at < html.length; at += 1) {
    const code = html.charCodeAt(at);
    if (code === GREATER) return at;
    if (isValue && (code === DOUBLE_QUOTE || code === SINGLE_QUOTE)) {
      at = html.indexOf(code === DOUBLE_QUOTE ? '"' : "'", at + 1);
      if (at === -1) return -1;
      isValue = false;
    } else if (code > SPACE) {
      isValue = code === EQUALS;
    }
  }
  return -1;
}

/**
 * Returns the decoded value of an attribute; '' without a value, null when the tag lacks it. The first of several
 * counts.
 * @param name the name in lower case
 */
export function attributeOf(attributes: string, name: string): string | null {
  if (attributes.length < name.length) return null;
  for (const [, rawName = '', double, single, bare] of attributes.matchAll(ATTRIBUTE)) {
    if (rawName.length !== name.length || rawName.toLowerCase() !== name) continue;
    const value = double ?? single ?? bare ?? '';
    return decodeHTMLAttribute(value.slice(0, ATTRIBUTE_CHARS_MAX));
  }
  return null;
}

/** Decodes references in text, where some need no semicolon (`&copy2024`). In attributes they do. */
export function decodeEntities(text: string): string {
  return text.includes('&') ? decodeHTML(text) : text;
}
