/**
 * A cache of the look-ups of one record type, by name, with their TTL. The size is limited, because senders choose
 * the names. Expired records are kept for DNS outages (RFC 8767). Errors are not stored.
 */
import { LRUCache } from 'lru-cache';
import type { DnsResult } from './dns-message.ts';
import { HOUR_MS, MIB, MINUTE_MS } from '../../lib/units.ts';

export type CacheLimits = {
  /** Minimum lifetime: a TTL of 0 must not cause a look-up per email. */
  minTtlMs: number;
  /** Maximum lifetime: a changed mail server is noticed within this time. */
  maxTtlMs: number;
  /** Lifetime of "no such record" and "no such name". */
  negativeTtlMs: number;
  /** Milliseconds after its TTL for which a result can replace a failed look-up. */
  staleMs: number;
  /** Approximate limit on all entries; the least recently used are evicted first. */
  maxBytes: number;
};

export const CACHE_DEFAULTS: CacheLimits = {
  minTtlMs: MINUTE_MS,
  maxTtlMs: HOUR_MS,
  negativeTtlMs: 5 * MINUTE_MS,
  staleMs: 6 * HOUR_MS,
  maxBytes: 8 * MIB,
};

type CacheEntry<T> = { result: DnsResult<T>; expiresMs: number };

/** Memory of the entry, its key and the objects around the records. */
const ENTRY_OVERHEAD_BYTES = 200;

export type DnsCache<T> = {
  getFresh(name: string): DnsResult<T> | null;
  /** Returns records after their TTL, up to `staleMs`. */
  getStale(name: string): DnsResult<T> | null;
  store(name: string, result: DnsResult<T>, ttlS: number): void;
  readonly sizeBytes: number;
};

/** @param nowMs a monotonic clock: a change of the wall clock must not extend a TTL */
export function createDnsCache<T>(limits: CacheLimits, nowMs: () => number): DnsCache<T> {
  const entries = new LRUCache<string, CacheEntry<T>>({
    maxSize: limits.maxBytes,
    sizeCalculation: ({ result }, name) =>
      ENTRY_OVERHEAD_BYTES + name.length + JSON.stringify(result).length,
  });
  return {
    getFresh(name) {
      const entry = entries.get(name);
      return entry !== undefined && nowMs() < entry.expiresMs ? entry.result : null;
    },
    getStale(name) {
      const entry = entries.get(name);
      if (entry === undefined || entry.result.kind !== 'records') return null;
      return nowMs() < entry.expiresMs + limits.staleMs ? entry.result : null;
    },
    store(name, result, ttlS) {
      if (result.kind === 'error') return;
      const hasRecords = result.kind === 'records';
      const ttlMs = hasRecords
        ? Math.min(Math.max(ttlS * 1000, limits.minTtlMs), limits.maxTtlMs)
        : limits.negativeTtlMs;
      entries.set(name, { result, expiresMs: nowMs() + ttlMs });
    },
    get sizeBytes() {
      return entries.calculatedSize;
    },
  };
}
