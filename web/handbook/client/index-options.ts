/** Defines what the search knows of an entry. The build and the browser must agree on it. */
import type { Options } from 'minisearch';

export type Entry = {
  id: number;
  url: string;
  page: string;
  /** Empty for what comes before the first heading of a page. */
  heading: string;
  text: string;
};

/** A word is found in each of its parts: `LETTERHAUS_PUBLIC_URL` by "public url", `email.bounced` by "bounced". */
function tokenize(text: string): string[] {
  const words = text
    .split(/[^\p{L}\p{N}_.-]+/u)
    .map((word) => word.replaceAll(/^[._-]+|[._-]+$/g, ''));
  return words.flatMap((word) => {
    const parts = word.split(/[._-]/);
    return parts.length > 1 ? [word, ...parts] : [word];
  });
}

export const INDEX_OPTIONS = {
  fields: ['page', 'heading', 'text'],
  storeFields: ['url', 'page', 'heading', 'text'],
  tokenize,
} satisfies Options<Entry>;
