/** Splits the command line of an example like a shell: quotes, and an end at a pipe or a redirection. */
export function shellWords(line: string): string[] {
  const words: string[] = [];
  let word: string | null = null;
  for (const [piece] of line.matchAll(/'[^']*'|"[^"]*"|\s+|[|<>].*|[^\s'"|<>]+/g)) {
    if (/^[|<>]/.test(piece)) break;
    if (/^\s/.test(piece)) {
      if (word !== null) words.push(word);
      word = null;
    } else {
      word = (word ?? '') + piece.replace(/^(['"])(.*)\1$/s, '$2');
    }
  }
  return word === null ? words : [...words, word];
}
