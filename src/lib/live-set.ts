/**
 * A set of objects that come and go by the thousand, such as the deliveries under way.
 *
 * A JavaScript `Set` is a hash table that is replaced by a new one each time its entries are used up, deleted ones
 * included. In V8 a replaced table keeps its entries and leads to the table after it. Once one of these tables is in the
 * old generation, a collection of the young one takes all that followed it for live, with the objects in them, until the
 * next full collection (docs/decisions/0019-garbage-collection.md). The place of a deleted item here is overwritten.
 */
export class Members<Item extends object> implements Iterable<Item> {
  readonly #items: Item[] = [];
  /** The property of an item that has its index; outdated once it has been deleted. */
  readonly #index = Symbol('index');

  get size(): number {
    return this.#items.length;
  }

  has(item: Item): boolean {
    return this.#items[this.#indexOf(item)] === item;
  }

  add(item: Item): void {
    if (this.has(item)) return;
    this.#place(item, this.#items.length);
  }

  /** The last item takes its place. @returns whether it was a member */
  delete(item: Item): boolean {
    if (!this.has(item)) return false;
    const last = this.#items.pop()!;
    if (last !== item) this.#place(last, this.#indexOf(item));
    return true;
  }

  /** In no particular order. */
  [Symbol.iterator](): Iterator<Item> {
    return this.#items.values();
  }

  #indexOf(item: Item): number {
    return (item as { [index: symbol]: number })[this.#index] ?? -1;
  }

  #place(item: Item, index: number): void {
    this.#items[index] = item;
    (item as { [index: symbol]: number })[this.#index] = index;
  }
}
