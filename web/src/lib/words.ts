/** Formats texts of the service for a page. */

/**
 * Returns a text as a sentence: with a capital letter and a full stop. A name that it begins with, like a host, stays
 * as it is.
 */
export function asSentence(text: string): string {
  const trimmed = text.trim();
  const [first = ''] = trimmed.split(/\s/, 1);
  const isName = /[._@:/\d]/.test(first);
  const begun = isName ? trimmed : trimmed.charAt(0).toUpperCase() + trimmed.slice(1);
  return /[.!?…]$/.test(begun) ? begun : `${begun}.`;
}
