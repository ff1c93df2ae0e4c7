/**
 * Terms of a text: each three consecutive characters, in lower case, as a number of 32 bits. A text that contains a
 * part has all terms of the part. The reverse does not hold, so a search compares each text that it finds by terms.
 *
 * Project, environment and week are part of the number, so one index serves all projects and finds nothing of another,
 * and a search can ask it for one week.
 */
import type { Scope } from '../../core/scope.ts';
import { WEEK_MS } from '../../database/partitions.ts';

/** @property week the number of the week in which the last email of a block was sent (`weekOf`) */
export type TermScope = Pick<Scope, 'projectId' | 'environment'> & { week: number };

const LENGTH = 3;
/** More trigrams of one search narrow it little. */
export const TRIGRAMS_MAX = 32;

/** Returns the week of the time in an id. */
export function weekOf(id: string): number {
  return Math.floor(Number.parseInt(id.replace('-', '').slice(0, 12), 16) / WEEK_MS);
}

/** Returns trigrams of the parts, at most TRIGRAMS_MAX; none when every part is shorter. */
export function trigramsOf(parts: readonly string[]): string[] {
  const trigrams = new Set<string>();
  for (const part of parts) {
    const small = folded(part);
    for (let at = 0; at + LENGTH <= small.length; at += 1) {
      const trigram = small.slice(at, at + LENGTH);
      if (!trigram.includes('\n')) trigrams.add(trigram);
    }
  }
  return [...trigrams].slice(0, TRIGRAMS_MAX);
}

/** Returns the term of each trigram, in their order. */
export function termsOf(scope: TermScope, trigrams: readonly string[]): number[] {
  const seed = seedOf(scope);
  return trigrams.map((trigram) => {
    let term = seed;
    for (let at = 0; at < LENGTH; at += 1) term = mixed(term, trigram.charCodeAt(at));
    return finished(term);
  });
}

/** Returns all terms of the texts. */
export function allTermsOf(scope: TermScope, texts: Iterable<string>): number[] {
  const terms = new Set<number>();
  const seed = seedOf(scope);
  for (const text of texts) addTerms(terms, seed, text);
  return [...terms];
}

function seedOf({ projectId, environment, week }: TermScope): number {
  return [...`${projectId} ${environment} ${week}`].reduce(
    (seed, character) => mixed(seed, character.charCodeAt(0)),
    FNV_OFFSET,
  );
}

/** A capital sigma becomes one of two small ones, by its place in the word. */
const folded = (text: string): string => text.toLowerCase().replaceAll('ς', 'σ');

/** Does the same as `termsOf(trigramsOf(text))`, without a text for each trigram. */
function addTerms(terms: Set<number>, seed: number, text: string): void {
  const small = folded(text);
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
