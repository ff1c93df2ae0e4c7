/**
 * Remembers the TLS support of each mail server: which servers need a small ClientHello, which offer STARTTLS but fail
 * it, and which have used TLS successfully. One worker keeps it in memory.
 *
 * An attacker on the path can break a handshake. A server whose handshakes fail therefore gets plain text only for
 * minutes. Where TLS worked in the last 3 days it is required: mail waits until TLS has failed for an hour. This
 * never relaxes a rule of net/tls/tls-rule.ts.
 */
import { LRUCache } from 'lru-cache';
import { cacheUpTo, type World } from '../../lib/world.ts';
import { DAY_MS, HOUR_MS } from '../../lib/units.ts';

const REDUCED_FOR_MS = 3 * DAY_MS;
const BROKEN_FOR_MS = 10 * 60_000;
const WORKED_FOR_MS = 3 * DAY_MS;
const REQUIRED_WHILE_FAILING_MS = HOUR_MS;
const REMEMBERED_MAX = 10_000;

type HostTls = {
  reducedUntilMs: number;
  brokenUntilMs: number;
  workedUntilMs: number;
  /** When TLS began to fail after it had worked, or null when it does not fail. */
  failingSinceMs: number | null;
};

const NOTHING_KNOWN: HostTls = {
  reducedUntilMs: -Infinity,
  brokenUntilMs: -Infinity,
  workedUntilMs: -Infinity,
  failingSinceMs: null,
};

export class TlsMemory {
  readonly #world: Pick<World, 'monotonicMs'>;
  readonly #hosts = new LRUCache<string, HostTls>(cacheUpTo(REMEMBERED_MAX));

  constructor(world: Pick<World, 'monotonicMs'>) {
    this.#world = world;
  }

  /**
   * Records a session with TLS.
   * @param reduced the ClientHello was a small one
   */
  recordSuccess(host: string, { reduced }: { reduced: boolean }): void {
    const nowMs = this.#world.monotonicMs();
    const { reducedUntilMs } = this.#known(host);
    this.#hosts.set(host, {
      reducedUntilMs: reduced ? nowMs + REDUCED_FOR_MS : reducedUntilMs,
      brokenUntilMs: -Infinity,
      workedUntilMs: nowMs + WORKED_FOR_MS,
      failingSinceMs: null,
    });
  }

  /** Records a failed handshake, or that STARTTLS was no longer offered. */
  recordFailure(host: string): void {
    const nowMs = this.#world.monotonicMs();
    const known = this.#known(host);
    if (!this.expectsTls(host)) {
      return void this.#hosts.set(host, { ...known, brokenUntilMs: nowMs + BROKEN_FOR_MS });
    }
    this.#hosts.set(host, { ...known, failingSinceMs: known.failingSinceMs ?? nowMs });
  }

  /** Returns whether the server needs a small ClientHello. Some fail with one of normal size. */
  needsReduced(host: string): boolean {
    return this.#known(host).reducedUntilMs > this.#world.monotonicMs();
  }

  /** Returns whether TLS failed in the last 10 minutes. */
  isBroken(host: string): boolean {
    return this.#known(host).brokenUntilMs > this.#world.monotonicMs();
  }

  /** Returns whether TLS is required because it worked recently, so breaking it gains an attacker nothing. */
  expectsTls(host: string): boolean {
    const nowMs = this.#world.monotonicMs();
    const { workedUntilMs, failingSinceMs } = this.#known(host);
    return workedUntilMs > nowMs && nowMs - (failingSinceMs ?? nowMs) < REQUIRED_WHILE_FAILING_MS;
  }

  #known(host: string): HostTls {
    return this.#hosts.get(host) ?? NOTHING_KNOWN;
  }
}
