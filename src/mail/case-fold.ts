/**
 * Gives one form to texts that differ only in case or in the composition of letters: canonical caseless matching
 * (Unicode §3.13, D145) in NFC. It uses default case folding, which is full and the same in every language. So `ß`
 * becomes `ss`, a final sigma a sigma, and `İ` an `i` with a dot above, while `ı` does not change.
 *
 * Unicode never changes the form of assigned characters, so stored forms stay valid.
 */

/** Default case folding does not change it. Folding by its upper case would give `i`. */
const DOTLESS_I = 'ı';

/** Decomposes first, because U+0345 folds to a letter; composes at the end, because folding may decompose. */
export function foldCase(text: string): string {
  let folded = '';
  for (const character of text.normalize('NFD')) {
    folded += character === DOTLESS_I ? character : foldCharacter(character);
  }
  return folded.normalize('NFC');
}

/** Without context, so no rule for word ends applies. Lower case first: `ẞ` is its own upper case. */
function foldCharacter(character: string): string {
  return Array.from(character.toLowerCase().toUpperCase(), (each) => each.toLowerCase()).join('');
}
