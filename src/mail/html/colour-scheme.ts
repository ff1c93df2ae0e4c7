/** Shows html in a light or dark scheme. Browsers do not let a page choose the scheme of a frame of another origin. */

export const COLOUR_SCHEMES = ['light', 'dark'] as const;
export type ColourScheme = (typeof COLOUR_SCHEMES)[number];

const QUERY = /\(\s{0,9}prefers-color-scheme\s{0,9}:\s{0,9}(light|dark)\s{0,9}\)/gi;

export function inScheme(html: string, scheme: ColourScheme): string {
  const resolved = html.replaceAll(QUERY, (_query, queried: string) =>
    // Conditions that are always true or false, in any combination with others.
    queried.toLowerCase() === scheme ? '(min-width: 0)' : '(max-width: 0)',
  );
  // At the end: before a doctype, it would change the layout of the rest.
  return `${resolved}<style>:root{color-scheme:only ${scheme}!important}</style>`;
}
