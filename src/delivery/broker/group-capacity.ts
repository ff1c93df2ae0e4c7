/**
 * The connections that all hosts of one registrable domain may have together, from one source. A hoster counts
 * connections to all of its servers.
 *
 * Anyone can create a name below such a domain, so every host may always have its first connection. The hosts share
 * only the connections beyond that.
 */
import { connectionGroup } from '../../net/providers.ts';

export class GroupCapacity {
  readonly #max: number;
  #used = 0;

  constructor(max: number) {
    this.#max = max;
  }

  limitOf(inUse: number): number {
    return Math.max(1, inUse) + Math.max(0, this.#max - 1 - this.#used);
  }

  recordChange(from: number, to: number): void {
    this.#used += Math.max(0, to - 1) - Math.max(0, from - 1);
  }
}

export class GroupCapacities {
  readonly #groups = new Map<string, { providers: number; bySource: Map<string, GroupCapacity> }>();

  /**
   * Adds a provider to its group.
   * @returns a function from a source to the capacity that the group shares there
   */
  addProvider(provider: string, connectionsMax: number): (source: string) => GroupCapacity {
    const name = connectionGroup(provider);
    const group = this.#groups.get(name) ?? {
      providers: 0,
      bySource: new Map<string, GroupCapacity>(),
    };
    this.#groups.set(name, group);
    group.providers += 1;
    return (source) => {
      const capacity = group.bySource.get(source) ?? new GroupCapacity(connectionsMax);
      group.bySource.set(source, capacity);
      return capacity;
    };
  }

  removeProvider(provider: string): void {
    const name = connectionGroup(provider);
    const group = this.#groups.get(name);
    if (group && (group.providers -= 1) === 0) this.#groups.delete(name);
  }
}
