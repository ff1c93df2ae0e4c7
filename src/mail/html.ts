/**
 * HTML as a sequence of texts and tags, in one pass without a tree, so that the cost is linear and nesting is
 * unlimited. Tags end where browsers end them: a `>` in a quoted value does not count, and comments and the
 * contents of scripts and styles are not markup. What follows TAGS_MAX tags is not read, which bounds the work.
 */

export type HtmlReader = {
  /** Text between two tags, with its character references. May be called several times in a row. */
  text(text: string): void;
  /** @param attributes as written: ` href="…" class=x` */
  open(name: string, attributes: string): void;
  close(name: string): void;
};

/** A hundred times as many as large newsletters have. */
export const TAGS_MAX = 200_000;

/** Elements whose content is not markup and is skipped, with their end. */
const RAW_ENDS = new Map(
  ['script', 'style', 'title', 'textarea', 'iframe', 'noembed', 'noframes', 'xmp'].map((name) => [
    name,
    new RegExp(`</${name}`, 'gi'),
  ]),
);

/** Names are in lower case. */
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

/** A closing tag, a comment, a declaration, or a literal `<`. */
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
 * Names of elements by their first letter. Comparing with these avoids slicing, lowercasing and hashing each
 * name, which cost more than all other work on a tag.
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

/** Compares case-insensitively: setting this bit maps only a letter's capital to the letter. */
function isNameAt(html: string, start: number, name: string): boolean {
  for (let at = 1; at < name.length; at += 1) {
    if ((html.charCodeAt(start + at) | 32) !== name.charCodeAt(at)) return false;
  }
  return true;
}

/** The offset of the tag's `>`; -1 when there is none. A quote counts only after `=`. */
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

/** U+00A0 to U+00FF, in order. */
const LATIN_1 =
  'nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn ' +
  'sup2 sup3 acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave ' +
  'Aacute Acirc Atilde Auml Aring AElig Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ' +
  'ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave Uacute Ucirc Uuml Yacute THORN ' +
  'szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml igrave iacute ' +
  'icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml ' +
  'yacute thorn yuml';

/** U+0391 to U+03A9 without the unassigned U+03A2. */
const GREEK_CAPITALS =
  'Alpha Beta Gamma Delta Epsilon Zeta Eta Theta Iota Kappa Lambda Mu Nu Xi Omicron Pi Rho - Sigma ' +
  'Tau Upsilon Phi Chi Psi Omega';

/** U+03B1 to U+03C9. */
const GREEK_LETTERS =
  'alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigmaf ' +
  'sigma tau upsilon phi chi psi omega';

/** Names and characters alternately. */
const OTHERS =
  'quot " amp & lt < gt > apos \' OElig Œ oelig œ Scaron Š scaron š Yuml Ÿ fnof ƒ circ ˆ tilde ˜ ' +
  'thetasym ϑ upsih ϒ piv ϖ ndash – mdash — lsquo ‘ rsquo ’ sbquo ‚ ldquo “ rdquo ” bdquo „ ' +
  'dagger † Dagger ‡ bull • hellip … permil ‰ prime ′ Prime ″ lsaquo ‹ rsaquo › oline ‾ frasl ⁄ ' +
  'euro € image ℑ weierp ℘ real ℜ trade ™ alefsym ℵ larr ← uarr ↑ rarr → darr ↓ harr ↔ crarr ↵ ' +
  'lArr ⇐ uArr ⇑ rArr ⇒ dArr ⇓ hArr ⇔ forall ∀ part ∂ exist ∃ empty ∅ nabla ∇ isin ∈ notin ∉ ni ∋ ' +
  'prod ∏ sum ∑ minus − lowast ∗ radic √ prop ∝ infin ∞ ang ∠ and ∧ or ∨ cap ∩ cup ∪ int ∫ ' +
  'there4 ∴ sim ∼ cong ≅ asymp ≈ ne ≠ equiv ≡ le ≤ ge ≥ sub ⊂ sup ⊃ nsub ⊄ sube ⊆ supe ⊇ oplus ⊕ ' +
  'otimes ⊗ perp ⊥ sdot ⋅ lceil ⌈ rceil ⌉ lfloor ⌊ rfloor ⌋ lang ⟨ rang ⟩ loz ◊ spades ♠ clubs ♣ ' +
  'hearts ♥ diams ♦ check ✓ star ☆ starf ★ ensp \u2002 emsp \u2003 thinsp \u2009 zwnj \u200c ' +
  'zwj \u200d lrm \u200e rlm \u200f';

/** Name → character. */
export const CHARACTERS = new Map<string, string>();
for (const [names, first] of [
  [LATIN_1, 0xa0],
  [GREEK_CAPITALS, 0x391],
  [GREEK_LETTERS, 0x3b1],
] as const) {
  for (const [index, name] of names.split(' ').entries()) {
    if (name !== '-') CHARACTERS.set(name, String.fromCodePoint(first + index));
  }
}
const others = OTHERS.split(' ');
for (let at = 0; at < others.length; at += 2) CHARACTERS.set(others[at]!, others[at + 1]!);

const REFERENCE = /&(?:#([0-9]{1,8}|[xX][0-9a-fA-F]{1,7})|([A-Za-z][A-Za-z0-9]{1,7}));/g;

/** Decodes `&euro;`, `&#8364;` and `&#x20ac;`. */
export function decodeEntities(text: string): string {
  if (!text.includes('&')) return text;
  return text.replace(REFERENCE, (written, number?: string, name?: string) => {
    if (number !== undefined) return characterOf(Number(`0${number}`));
    return CHARACTERS.get(name ?? '') ?? written;
  });
}

/** Numbers 128 to 159 are Windows-1252, as in all browsers; unassigned ones are not decoded. */
const WINDOWS_1252 = '€ ‚ƒ„…†‡ˆ‰Š‹Œ Ž  ‘’“”•–—˜™š›œ žŸ';

function characterOf(codePoint: number): string {
  if (codePoint >= 0x80 && codePoint <= 0x9f) return WINDOWS_1252[codePoint - 0x80]!;
  const isCharacter = codePoint > 0 && codePoint <= 0x10ffff && (codePoint & ~0x7ff) !== 0xd800;
  return isCharacter ? String.fromCodePoint(codePoint) : '\ufffd';
}
