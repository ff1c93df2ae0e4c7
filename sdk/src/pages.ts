/** Lists: `for await` reads all of them, page after page; `page()` reads one. */
export type Page<T> = { data: T[]; has_more: boolean };

export class Pages<T> implements AsyncIterable<T> {
  readonly #read: (after: string | undefined) => Promise<Page<T>>;
  readonly #positionOf: (item: T) => string;

  /** @param positionOf what the next page comes after */
  constructor(
    read: (after: string | undefined) => Promise<Page<T>>,
    positionOf: (item: T) => string,
  ) {
    this.#read = read;
    this.#positionOf = positionOf;
  }

  /** The first page, or the one that the query's `after` and `before` ask for. */
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
