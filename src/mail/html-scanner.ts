/**
 * HTML as a row of texts and tags, in one pass without a tree: no nesting is too deep, and each
 * character is looked at once, whatever somebody sends. Tags end where browsers end them: a `>`
 * inside a quoted value does not count, comments and the insides of scripts and styles are not
 * markup.
 */

export type HtmlReader = {
  /** Text between two tags, with its character references. Several may follow one another. */
  text(text: string): void;
  /** @param attributes as written: ` href="…" class=x` */
  open(name: string, attributes: string): void;
  close(name: string): void;
};

/** Elements whose inside is not markup; it is passed over. Where they end: */
const RAW_ENDS = new Map(
  ['script', 'style', 'title', 'textarea', 'iframe', 'noembed', 'noframes', 'xmp'].map((name) => [
    name,
    new RegExp(`</${name}`, 'gi'),
  ]),
);

/** Names are in lower case. */
export function scanHtml(html: string, reader: HtmlReader): void {
  let at = 0;
  while (at < html.length) {
    const open = html.indexOf('<', at);
    if (open !== at) reader.text(html.slice(at, open === -1 ? html.length : open));
    if (open === -1) return;
    at = isLetter(html.charCodeAt(open + 1))
      ? readOpenTag(html, open + 1, reader)
      : readOther(html, open, reader);
  }
}

/** @returns where the text goes on */
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

/** A closing tag, a comment, a declaration, or a `<` that is just that. */
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
  // `<!-->` is a whole comment, too.
  const isComment = html.startsWith('--', open + 2);
  const end = isComment ? html.indexOf('-->', open + 2) : html.indexOf('>', open + 1);
  return end === -1 ? html.length : end + (isComment ? 3 : 1);
}

const SPACE = 32;
const DOUBLE_QUOTE = 34;
const SINGLE_QUOTE = 39;
const SLASH = 47;
const EQUALS = 61;
const GREATER = 62;

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

/**
 * Names of elements by their first letter. Cutting a name out of the html, folding and hashing it
 * cost more than everything else about a tag; a name found here is always the same string.
 */
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

/** In lower case. */
function nameAt(html: string, start: number, end: number): string {
  for (const name of NAMES[letterOf(html.charCodeAt(start))] ?? []) {
    if (name.length === end - start && isNameAt(html, start, name)) return name;
  }
  return html.slice(start, end).toLowerCase();
}

/** No character but a letter and its capital, or a digit, has the code of one with this bit. */
function isNameAt(html: string, start: number, name: string): boolean {
  for (let at = 1; at < name.length; at += 1) {
    if ((html.charCodeAt(start + at) | 32) !== name.charCodeAt(at)) return false;
  }
  return true;
}

/** Where the `>` of the tag is, -1 when it has none. Only behind a `=` a quote is one. */
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
