/**
 * What one resolver remembers of one record type: answers with their time to live, bounded by size
 * because the names in it are chosen by strangers. An expired answer is kept a while longer for the
 * hour in which the DNS servers are away (RFC 8767). Errors are never stored.
 */
import type { DnsAnswer } from './resolver.ts';

export type CacheLimits = {
  /** A smaller TTL counts as this one: a TTL of 0 must not make a look-up per email. */
  minTtlMs: number;
  /** A larger TTL counts as this one: a moved mail server is noticed within the hour. */
  maxTtlMs: number;
  /** How long "no such record" and "no such name" are believed. */
  negativeTtlMs: number;
  /** How long past its TTL an answer may stand in for a failed look-up. */
  staleMs: number;
  /** All entries together, roughly; the least recently used go first. */
  maxBytes: number;
};

export const CACHE_DEFAULTS: CacheLimits = {
  minTtlMs: 60_000,
  maxTtlMs: 3_600_000,
  negativeTtlMs: 300_000,
  staleMs: 6 * 3_600_000,
  maxBytes: 8 * 1024 * 1024,
};

type Entry<T> = { answer: DnsAnswer<T>; expiresMs: number; sizeBytes: number };

/** The Map entry, the key and the objects around the records. */
const ENTRY_OVERHEAD_BYTES = 200;

export type DnsCache<T> = {
  /** The answer while its TTL lasts. */
  fresh(name: string): DnsAnswer<T> | null;
  /** Records whose TTL is over, but not for longer than `staleMs`. */
  stale(name: string): DnsAnswer<T> | null;
  store(name: string, answer: DnsAnswer<T>, ttlS: number): void;
  readonly sizeBytes: number;
};

/** @param nowMs a clock that never jumps, so that a corrected wall clock cannot keep answers */
export function createDnsCache<T>(limits: CacheLimits, nowMs: () => number): DnsCache<T> {
  const entries = new Map<string, Entry<T>>();
  let sizeBytes = 0;

  function remove(name: string): void {
    sizeBytes -= entries.get(name)?.sizeBytes ?? 0;
    entries.delete(name);
  }

  function touch(name: string): Entry<T> | null {
    const entry = entries.get(name);
    if (entry === undefined) return null;
    entries.delete(name);
    entries.set(name, entry);
    return entry;
  }

  return {
    fresh(name) {
      const entry = touch(name);
      return entry !== null && nowMs() < entry.expiresMs ? entry.answer : null;
    },
    stale(name) {
      const entry = touch(name);
      if (entry === null || entry.answer.kind !== 'records') return null;
      return nowMs() < entry.expiresMs + limits.staleMs ? entry.answer : null;
    },
    store(name, answer, ttlS) {
      if (answer.kind === 'error') return;
      const positive = answer.kind === 'records';
      const ttlMs = positive
        ? Math.min(Math.max(ttlS * 1000, limits.minTtlMs), limits.maxTtlMs)
        : limits.negativeTtlMs;
      const entrySize = ENTRY_OVERHEAD_BYTES + name.length + JSON.stringify(answer).length;
      remove(name);
      entries.set(name, { answer, expiresMs: nowMs() + ttlMs, sizeBytes: entrySize });
      sizeBytes += entrySize;
      for (const oldest of entries.keys()) {
        if (sizeBytes <= limits.maxBytes) break;
        remove(oldest);
      }
    },
    get sizeBytes() {
      return sizeBytes;
    },
  };
}
