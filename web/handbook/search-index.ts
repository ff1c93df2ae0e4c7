/** The index of the search: one entry for each heading of each page, and for each operation of the API. */
import MiniSearch from 'minisearch';
import { INDEX_OPTIONS, type Entry } from './client/index-options.ts';

/** Returns the index as JSON, which the browser loads at the first search. */
export function buildIndex(entries: readonly Omit<Entry, 'id'>[]): string {
  const index = new MiniSearch<Entry>(INDEX_OPTIONS);
  index.addAll(entries.map((entry, id) => ({ ...entry, id })));
  return JSON.stringify(index);
}
