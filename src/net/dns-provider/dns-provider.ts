/**
 * The port to the DNS provider of a zone: finds the zone, lists records, adds and removes single values.
 * providers.ts lists the providers, and each has a file of its own.
 *
 * Guarantees:
 * - `upsert` and `remove` concern one value. Other values of the same name and type stay as they are, so records of
 *   others are never replaced. `upsert` of a value that exists and `remove` of one that does not change nothing.
 * - A failure throws a DnsProviderProblem: one sentence for the operator that never contains the token.
 * - When a response is lost, the records are read again, so a change that was made is not reported as failed.
 */
import { type DnsRecord, isSameRecord } from './record-text.ts';

/** @property id how the provider names the zone @property ttlMinS the provider refuses shorter times */
export type DnsZone = { id: string; name: string; ttlMinS: number };

export interface DnsProvider {
  /** The name of the provider in sentences. */
  readonly name: string;
  /** Returns the zone in the account of the token that contains the name, the longest one; null without one. */
  findZone(name: string): Promise<DnsZone | null>;
  /** Lists the records of one name. Types that this port does not know are left out. */
  listRecords(zone: DnsZone, name: string): Promise<DnsRecord[]>;
  upsert(zone: DnsZone, record: DnsRecord): Promise<void>;
  remove(zone: DnsZone, record: Omit<DnsRecord, 'ttlS'>): Promise<void>;
}

/**
 * - `token`: the provider refuses the token for this request
 * - `refused`: the provider refuses the request itself
 * - `unavailable`: it cannot be reached, fails, or asks to come back later
 */
export type ProblemKind = 'token' | 'refused' | 'unavailable';

export class DnsProviderProblem extends Error {
  readonly kind: ProblemKind;

  constructor(kind: ProblemKind, message: string) {
    super(message);
    this.name = 'DnsProviderProblem';
    this.kind = kind;
  }
}

/** A record as the provider has it. @property raw the value in its form @property id null where sets have no ids */
export type StoredRecord = DnsRecord & { raw: string; id: string | null };

/**
 * The part of a provider that differs from the others.
 * @property add is called only when the value is not there; `set` are the other values of this name and type
 * @property remove `set` contains the record
 */
export type ZoneApi = {
  name: string;
  findZone(name: string): Promise<DnsZone | null>;
  list(zone: DnsZone, name: string): Promise<StoredRecord[]>;
  add(zone: DnsZone, record: DnsRecord, set: readonly StoredRecord[]): Promise<void>;
  remove(zone: DnsZone, record: StoredRecord, set: readonly StoredRecord[]): Promise<void>;
};

const TRIES_MAX = 5;

export function createDnsProvider(api: ZoneApi): DnsProvider {
  const setOf = async (zone: DnsZone, { name, type }: Pick<DnsRecord, 'name' | 'type'>) =>
    (await api.list(zone, name)).filter((one) => one.type === type);

  /** Makes a change, unless `isDone`. A change that is there after a failure was made by us or by somebody else. */
  const change = async (
    zone: DnsZone,
    record: Omit<DnsRecord, 'ttlS'>,
    steps: {
      isDone: (found: StoredRecord | undefined) => boolean;
      make: (found: StoredRecord | undefined, set: StoredRecord[]) => Promise<void>;
    },
  ) => {
    const find = (set: StoredRecord[]) => set.find((one) => isSameRecord(one, record));
    let set = await setOf(zone, record);
    for (let tries = 1; !steps.isDone(find(set)); tries += 1) {
      try {
        return await steps.make(find(set), set);
      } catch (error) {
        if (!(error instanceof DnsProviderProblem) || error.kind === 'token') throw error;
        const before = set;
        set = await setOf(zone, record);
        // A set that somebody else changed meanwhile is read, and changed again.
        const isOthers = error.kind === 'refused' && tries < TRIES_MAX && !isSameSet(before, set);
        if (!steps.isDone(find(set)) && !isOthers) throw error;
      }
    }
  };

  return {
    name: api.name,
    findZone: (name) => api.findZone(name.toLowerCase()),
    listRecords: async (zone, name) => {
      const stored = await api.list(zone, name.toLowerCase());
      return stored.map(({ name: owner, type, value, ttlS }) => ({
        name: owner,
        type,
        value,
        ttlS,
      }));
    },
    upsert: (zone, record) =>
      change(zone, record, {
        isDone: (found) => found !== undefined,
        make: (_, set) =>
          api.add(zone, { ...record, ttlS: Math.max(record.ttlS, zone.ttlMinS) }, set),
      }),
    remove: (zone, record) =>
      change(zone, record, {
        isDone: (found) => found === undefined,
        make: (found, set) => api.remove(zone, found!, set),
      }),
  };
}

function isSameSet(a: readonly StoredRecord[], b: readonly StoredRecord[]): boolean {
  return a.length === b.length && a.every(({ raw }, index) => raw === b[index]?.raw);
}

/** The name and its parents with at least two labels, the longest first: names that a zone may have. */
export function possibleZones(name: string): string[] {
  const labels = name.split('.');
  return labels.slice(0, -1).map((_, index) => labels.slice(index).join('.'));
}

/** The name below the zone, as most providers write it. @param apex the provider's word for the zone itself */
export function nameInZone(name: string, zone: DnsZone, apex = '@'): string {
  return name === zone.name ? apex : name.slice(0, -(zone.name.length + 1));
}
