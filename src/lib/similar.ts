/** "Did you mean …?": the known name that is nearest to a typed one. */

/** Returns the known name with the fewest edits; null when more than a third of the letters differ. */
export function mostSimilar(text: string, known: readonly string[]): string | null {
  let best: string | null = null;
  let bestDistance = Math.floor(text.length / 3) + 1;
  for (const name of known) {
    const distance = editDistance(text.toUpperCase(), name.toUpperCase());
    if (distance < bestDistance) [best, bestDistance] = [name, distance];
  }
  return best;
}

function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i += 1) {
    const next = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const replaced = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}
