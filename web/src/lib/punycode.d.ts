/** The part of the library that is used, which has no types. */
declare module 'punycode/punycode.es6.js' {
  /** @throws RangeError for a label that is no valid A-label */
  export function toASCII(domain: string): string;
  export function toUnicode(domain: string): string;
}
