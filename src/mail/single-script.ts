/**
 * Homographs: `аpple.com` with a Cyrillic а reads like another domain. A label may be written in
 * one script, or in one of the mixtures that languages use (UTS #39 §5.2, "highly restrictive").
 * Digits, hyphens and combining marks belong to every script. A label wholly in another script
 * that happens to look Latin passes: that is for the registry of its top-level domain.
 */

/** The scripts recommended for identifiers (UAX #31, table 5). */
const SCRIPTS = [
  'Latin',
  'Cyrillic',
  'Greek',
  'Arabic',
  'Armenian',
  'Bengali',
  'Devanagari',
  'Ethiopic',
  'Georgian',
  'Gujarati',
  'Gurmukhi',
  'Hebrew',
  'Kannada',
  'Khmer',
  'Lao',
  'Malayalam',
  'Myanmar',
  'Oriya',
  'Sinhala',
  'Tamil',
  'Telugu',
  'Thaana',
  'Thai',
  'Tibetan',
];

/** How Japanese, Chinese and Korean are written, with Latin between. */
const MIXTURES = [
  ['Latin', 'Han', 'Hiragana', 'Katakana'],
  ['Latin', 'Han', 'Bopomofo'],
  ['Latin', 'Han', 'Hangul'],
];

const ALLOWED = [...SCRIPTS.map((script) => [script]), ...MIXTURES].map((scripts) => {
  const classes = [...scripts, 'Common', 'Inherited'].map((script) => `\\p{scx=${script}}`);
  return new RegExp(`^[${classes.join('')}]*$`, 'u');
});

/** @param label one label of a domain name, in Unicode */
export function isSingleScript(label: string): boolean {
  return ALLOWED.some((pattern) => pattern.test(label));
}
