/**
 * Texts that differ only in case, or in how their letters are composed, have the same form here: canonical caseless
 * matching (Unicode §3.13, D145) in NFC. It is default case folding: full, and the same in every language. So `ß` is
 * `ss`, a final sigma is a sigma, `İ` is `i` with a dot above, and `ı` remains a letter of its own.
 *
 * Unicode keeps the form of a text stable once its characters are assigned, so that stored forms remain valid.
 */

/** Folded from its upper case it would become `i`, which default case folding keeps apart. */
const DOTLESS_I = 'ı';

/** Decomposed first, because U+0345 folds to a letter; composed at the end, because folding may decompose. */
export function foldCase(text: string): string {
  let folded = '';
  for (const character of text.normalize('NFD')) {
    folded += character === DOTLESS_I ? character : foldCharacter(character);
  }
  return folded.normalize('NFC');
}

/**
 * One character at a time, so that no rule for the end of a word applies. The lower case comes first for `ẞ`, which is
 * its own upper case.
 */
function foldCharacter(character: string): string {
  return Array.from(character.toLowerCase().toUpperCase(), (each) => each.toLowerCase()).join('');
}
