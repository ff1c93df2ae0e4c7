/** Lists: `for await` reads all items, page after page; `page()` reads one page. */
export type Page<T> = { data: T[]; has_more: boolean };

export class Pages<T> implements AsyncIterable<T> {
  readonly #read: (after: string | undefined) => Promise<Page<T>>;
  readonly #positionOf: (item: T) => string;

  /** @param positionOf returns the value of `after` for the page behind an item */
  constructor(
    read: (after: string | undefined) => Promise<Page<T>>,
    positionOf: (item: T) => string,
  ) {
    this.#read = read;
    this.#positionOf = positionOf;
  }

  /** Reads the first page, or the page that `after` and `before` of the query select. */
  page(): Promise<Page<T>> {
    return this.#read(undefined);
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    let page = await this.page();
    while (true) {
      yield* page.data;
      const last = page.data.at(-1);
      if (!page.has_more || last === undefined) return;
      page = await this.#read(this.#positionOf(last));
    }
  }
}
