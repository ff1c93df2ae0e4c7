/**
 * A set of short-lived objects, such as the deliveries under way.
 *
 * A `Set` replaces its hash table when all entries are used up, deleted ones included. In V8 the old table keeps its
 * entries and a reference to the new one. Once an old table has moved to the old generation, collections of the young
 * generation keep every later table and its objects, until the next full collection
 * (docs/decisions/0019-garbage-collection.md). This set overwrites the place of a deleted item instead.
 */
export class LiveSet<Item extends object> implements Iterable<Item> {
  readonly #items: Item[] = [];
  /** Property that stores the index of an item. The index is stale after the item was deleted. */
  readonly #index = Symbol('index');

  get size(): number {
    return this.#items.length;
  }

  has(item: Item): boolean {
    return this.#items[this.#indexOf(item)] === item;
  }

  add(item: Item): void {
    if (this.has(item)) return;
    this.#storeAt(item, this.#items.length);
  }

  /** Deletes the item and moves the last item to its place. @returns whether the set had the item */
  delete(item: Item): boolean {
    if (!this.has(item)) return false;
    const last = this.#items.pop()!;
    if (last !== item) this.#storeAt(last, this.#indexOf(item));
    return true;
  }

  /** Iterates in no particular order. */
  [Symbol.iterator](): Iterator<Item> {
    return this.#items.values();
  }

  #indexOf(item: Item): number {
    return (item as { [index: symbol]: number })[this.#index] ?? -1;
  }

  #storeAt(item: Item, index: number): void {
    this.#items[index] = item;
    (item as { [index: symbol]: number })[this.#index] = index;
  }
}
