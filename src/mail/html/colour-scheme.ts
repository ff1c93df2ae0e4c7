/**
 * Html as a mail program with a light or a dark scheme shows it, whatever scheme the browser has that shows it:
 * browsers do not let a page choose that for a frame of another origin.
 */

export const COLOUR_SCHEMES = ['light', 'dark'] as const;
export type ColourScheme = (typeof COLOUR_SCHEMES)[number];

const QUERY = /\(\s{0,9}prefers-color-scheme\s{0,9}:\s{0,9}(light|dark)\s{0,9}\)/gi;

export function inScheme(html: string, scheme: ColourScheme): string {
  const decided = html.replaceAll(QUERY, (_query, wanted: string) =>
    // True and false in any combination with other conditions.
    wanted.toLowerCase() === scheme ? '(min-width: 0)' : '(max-width: 0)',
  );
  // At the end: before a doctype it would change how the rest is laid out.
  return `${decided}<style>:root{color-scheme:only ${scheme}!important}</style>`;
}
