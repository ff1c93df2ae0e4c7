/**
 * Terms of a text: each three characters in a row, in small letters, as a number of 32 bits. A text that contains a
 * part has all terms of the part. The reverse does not hold, so whoever finds a text by its terms compares the text.
 *
 * Project and environment are part of the number, so one index serves all projects and finds nothing of another.
 */
import type { Scope } from '../../core/scope.ts';

const LENGTH = 3;
/** More terms of one search narrow it little, and each costs a look into the index. */
export const TERMS_MAX = 32;

/** Returns terms of the parts, at most TERMS_MAX; none when every part is shorter than a term. */
export function termsOf(scope: Scope, parts: readonly string[]): number[] {
  const terms = new Set<number>();
  const seed = seedOf(scope);
  for (const part of parts) addTerms(terms, seed, part);
  return [...terms].slice(0, TERMS_MAX);
}

/** Returns all terms of the texts. */
export function allTermsOf(scope: Scope, texts: Iterable<string>): number[] {
  const terms = new Set<number>();
  const seed = seedOf(scope);
  for (const text of texts) addTerms(terms, seed, text);
  return [...terms];
}

function seedOf({ projectId, environment }: Pick<Scope, 'projectId' | 'environment'>): number {
  return [...`${projectId} ${environment}`].reduce(
    (seed, character) => mixed(seed, character.charCodeAt(0)),
    FNV_OFFSET,
  );
}

function addTerms(terms: Set<number>, seed: number, text: string): void {
  // A capital sigma becomes one of two small ones, by its place in the word.
  const small = text.toLowerCase().replaceAll('ς', 'σ');
  for (let at = 0; at + LENGTH <= small.length; at += 1) {
    let term = seed;
    let isOneLine = true;
    for (let offset = 0; offset < LENGTH; offset += 1) {
      const code = small.charCodeAt(at + offset);
      isOneLine &&= code !== LINE_FEED;
      term = mixed(term, code);
    }
    // Texts are stored without what joins them to lines.
    if (isOneLine) terms.add(finished(term));
  }
}

const LINE_FEED = 10;
const FNV_OFFSET = 0x811c9dc5;
const FNV_PRIME = 0x01000193;

/** FNV-1a, by characters of 16 bits. */
function mixed(hash: number, code: number): number {
  return Math.imul(hash ^ code, FNV_PRIME);
}

/** Spreads the differences of similar texts over all bits (the last steps of MurmurHash3). */
function finished(hash: number): number {
  let spread = hash ^ (hash >>> 16);
  spread = Math.imul(spread, 0x85ebca6b);
  spread ^= spread >>> 13;
  spread = Math.imul(spread, 0xc2b2ae35);
  return spread ^ (spread >>> 16);
}
