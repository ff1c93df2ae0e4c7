/**
 * The connections that all hosts of one registrable domain may have together, from one of our addresses:
 * a hoster counts those to all of its servers.
 *
 * Anybody can have a name below such a domain, so the room never keeps a host from its first connection:
 * what is shared are the connections beyond it.
 */
import { groupOf } from '../../net/providers.ts';

export class GroupRoom {
  readonly #max: number;
  /** Connections beyond the first of each host. */
  #used = 0;

  constructor(max: number) {
    this.#max = max;
  }

  /** How many connections a host may have that has `out` of them. */
  limitOf(out: number): number {
    return Math.max(1, out) + Math.max(0, this.#max - 1 - this.#used);
  }

  changed(from: number, to: number): void {
    this.#used += Math.max(0, to - 1) - Math.max(0, from - 1);
  }
}

export class GroupRooms {
  readonly #groups = new Map<string, { members: number; rooms: Map<string, GroupRoom> }>();

  /** Adds a provider to its group. @returns the rooms of the group, by our address */
  join(provider: string, connectionsMax: number): (source: string) => GroupRoom {
    const name = groupOf(provider);
    const group = this.#groups.get(name) ?? {
      members: 0,
      rooms: new Map<string, GroupRoom>(),
    };
    this.#groups.set(name, group);
    group.members += 1;
    return (source) => {
      const room = group.rooms.get(source) ?? new GroupRoom(connectionsMax);
      group.rooms.set(source, room);
      return room;
    };
  }

  /** The provider, without connections, is forgotten. */
  leave(provider: string): void {
    const name = groupOf(provider);
    const group = this.#groups.get(name);
    if (group && (group.members -= 1) === 0) this.#groups.delete(name);
  }
}
