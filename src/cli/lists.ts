/** Lists of the API in commands: up to --limit rows, over any number of pages. */
import { InvalidArgumentError } from 'commander';

/** Limit on the rows that the API returns at once. */
export const PAGE_MAX = 100;

export async function takeRows<Row>(
  pages: AsyncIterable<Row>,
  limit: number,
): Promise<{ rows: Row[]; hasMore: boolean }> {
  const rows: Row[] = [];
  for await (const row of pages) {
    if (rows.length === limit) return { rows, hasMore: true };
    rows.push(row);
  }
  return { rows, hasMore: false };
}

export const countUpTo =
  (max: number) =>
  (text: string): number => {
    const count = /^\d{1,5}$/.test(text) ? Number(text) : 0;
    if (count >= 1 && count <= max) return count;
    throw new InvalidArgumentError(`Write a number from 1 to ${max}.`);
  };
