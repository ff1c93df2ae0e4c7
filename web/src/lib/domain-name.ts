/**
 * Domains in the script that people read. The API and DNS have A-labels ("xn--bcher-kva.example"), which nobody
 * recognises; a name in another script may imitate one that somebody knows.
 *
 * So a label is decoded only if all its letters are of one script, or of scripts that one language mixes, and Cyrillic
 * and Greek, whose letters look like Latin ones, only below a top-level domain that is no Latin one either. Browsers
 * have rules of this kind (UTS 39, section 5).
 */
import { toASCII, toUnicode } from 'punycode/punycode.es6.js';

/** Letters, marks, digits and hyphens. Other characters may look like a dot or a slash. */
const OF_LETTERS = /^[\p{L}\p{M}\p{Nd}-]+$/u;

// Marks, which are inherited, would change a Latin letter into one that hardly differs.
const SCRIPTS = [
  'Latin Common',
  'Han Hiragana Katakana Common Inherited',
  'Han Hangul Common Inherited',
  'Han Bopomofo Common Inherited',
  'Arabic Common Inherited',
  'Armenian Common Inherited',
  'Bengali Common Inherited',
  'Devanagari Common Inherited',
  'Georgian Common Inherited',
  'Hebrew Common Inherited',
  'Tamil Common Inherited',
  'Telugu Common Inherited',
  'Thai Common Inherited',
].map(onlyOf);
const LIKE_LATIN = ['Cyrillic Common Inherited', 'Greek Common Inherited'].map(onlyOf);

function onlyOf(scripts: string): RegExp {
  return new RegExp(
    `^[${scripts.replaceAll(/\w+/g, String.raw`\p{Script=$&}`).replaceAll(' ', '')}]+$`,
    'u',
  );
}

/** Returns the domain with its labels in their own script, where that is safe. */
export function inOwnScript(domain: string): string {
  const labels = domain.split('.');
  const isBelowLatin = !labels.at(-1)!.startsWith('xn--');
  const scripts = isBelowLatin ? SCRIPTS : [...SCRIPTS, ...LIKE_LATIN];
  return labels.map((label) => decoded(label, scripts)).join('.');
}

function decoded(label: string, scripts: readonly RegExp[]): string {
  if (!label.startsWith('xn--')) return label;
  try {
    const text = toUnicode(label);
    const isSame = toASCII(text) === label && OF_LETTERS.test(text);
    return isSame && scripts.some((script) => script.test(text)) ? text : label;
  } catch {
    return label;
  }
}
