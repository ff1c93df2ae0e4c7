/**
 * Character references of HTML: the numeric ones and the 252 names of HTML 4 (and four newer ones
 * that mail uses), with their semicolon. What is unknown stays as it was written, as `&copy=2` in a
 * URL must.
 */

/** U+00A0 to U+00FF, in order. */
const LATIN_1 =
  'nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn ' +
  'sup2 sup3 acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave ' +
  'Aacute Acirc Atilde Auml Aring AElig Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ' +
  'ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave Uacute Ucirc Uuml Yacute THORN ' +
  'szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml igrave iacute ' +
  'icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml ' +
  'yacute thorn yuml';

/** U+0391 to U+03A9 without U+03A2, which is no letter. */
const GREEK_CAPITALS =
  'Alpha Beta Gamma Delta Epsilon Zeta Eta Theta Iota Kappa Lambda Mu Nu Xi Omicron Pi Rho - Sigma ' +
  'Tau Upsilon Phi Chi Psi Omega';

/** U+03B1 to U+03C9. */
const GREEK_LETTERS =
  'alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho sigmaf ' +
  'sigma tau upsilon phi chi psi omega';

/** Name and character, by turns. */
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

/** `&euro;`, `&#8364;` and `&#x20ac;` as the character they stand for. */
export function decodeEntities(text: string): string {
  if (!text.includes('&')) return text;
  return text.replace(REFERENCE, (written, number?: string, name?: string) => {
    if (number !== undefined) return characterOf(Number(`0${number}`));
    return CHARACTERS.get(name ?? '') ?? written;
  });
}

/** Numbers 128 to 159 mean Windows-1252, as in all browsers; those without a character stay away. */
const WINDOWS_1252 = '€ ‚ƒ„…†‡ˆ‰Š‹Œ Ž  ‘’“”•–—˜™š›œ žŸ';

function characterOf(codePoint: number): string {
  if (codePoint >= 0x80 && codePoint <= 0x9f) return WINDOWS_1252[codePoint - 0x80]!;
  const isCharacter = codePoint > 0 && codePoint <= 0x10ffff && (codePoint & ~0x7ff) !== 0xd800;
  return isCharacter ? String.fromCodePoint(codePoint) : '\ufffd';
}
