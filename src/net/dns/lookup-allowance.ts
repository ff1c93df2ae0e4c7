/**
 * Limits the look-ups of dry runs and diagnoses, so that an API key cannot be used to flood name servers, or to
 * occupy this service with unresponsive ones.
 *
 * A look-up concerns one domain: its mail servers with addresses and TLS policy, or the records of a sender. There
 * are limits on look-ups per purpose of a request, on those per minute and at a time for each project and
 * environment, and on the time of the whole request. Beyond a limit the result is `unknown` with the reason. A
 * look-up that exceeds the time is not aborted, because deliveries share it; it counts until it ends.
 */
import { type Scope, scopeKey } from '../../core/scope.ts';
import type { World } from '../../lib/world.ts';
import { MINUTE_MS } from '../../lib/units.ts';

export type AllowedLookup<T> = { kind: 'known'; value: T } | { kind: 'unknown'; reason: string };

/** Look-ups of one request for one purpose. Rejects with the error of `lookUp`. */
export type BoundedLookup = <T>(
  domain: string,
  lookUp: () => T | Promise<T>,
) => Promise<AllowedLookup<T>>;

export type LookupBounds = {
  perRequestMax: number;
  /** For each project and environment, in this process. */
  perMinuteMax: number;
  atOnceMax: number;
  requestTimeoutMs: number;
};

const DEFAULT_BOUNDS: LookupBounds = {
  perRequestMax: 10,
  perMinuteMax: 120,
  atOnceMax: 22,
  requestTimeoutMs: 3_000,
};

/** A domain that is looked up again within the minute counts once, because its results are cached. */
type LookupUsage = { domainsInMinute: Set<string>; atOnce: number };

export class LookupAllowance {
  readonly #world: Pick<World, 'monotonicMs'>;
  readonly #bounds: LookupBounds;
  /** Uses by project and environment. Every minute, those without running look-ups are dropped. */
  readonly #usage = new Map<string, LookupUsage>();
  #minuteBeganMs = -Infinity;

  constructor(world: Pick<World, 'monotonicMs'>, bounds: Partial<LookupBounds> = {}) {
    this.#world = world;
    this.#bounds = { ...DEFAULT_BOUNDS, ...bounds };
  }

  forRequest(scope: Scope): BoundedLookup {
    const { perRequestMax, requestTimeoutMs } = this.#bounds;
    const timeout = AbortSignal.timeout(requestTimeoutMs);
    let left = perRequestMax;
    return async (domain, lookUp) => {
      if (left === 0) return unknown(`one request looks up at most ${perRequestMax} domains`);
      left -= 1;
      const usage = this.#usageOf(scopeKey(scope));
      const limitReached = this.#reachedLimit(usage, domain);
      if (limitReached !== null) return unknown(limitReached);
      usage.domainsInMinute.add(domain);
      usage.atOnce += 1;
      const lookup = (async () => lookUp())().finally(() => (usage.atOnce -= 1));
      return Promise.race([
        lookup.then((value) => ({ kind: 'known', value }) as const),
        whenAborted(timeout).then(() =>
          unknown(`DNS did not respond within ${requestTimeoutMs / 1000} s`),
        ),
      ]);
    };
  }

  #reachedLimit({ domainsInMinute, atOnce }: LookupUsage, domain: string): string | null {
    const { perMinuteMax, atOnceMax } = this.#bounds;
    if (domainsInMinute.size >= perMinuteMax && !domainsInMinute.has(domain)) {
      return `dry runs and diagnoses of this project have looked up ${perMinuteMax} domains within a minute; try again in a minute`;
    }
    if (atOnce < atOnceMax) return null;
    return `${atOnceMax} look-ups of this project wait for name servers that do not respond; try again in half a minute`;
  }

  #usageOf(tenant: string): LookupUsage {
    const nowMs = this.#world.monotonicMs();
    if (nowMs - this.#minuteBeganMs >= MINUTE_MS) {
      this.#minuteBeganMs = nowMs;
      for (const [key, usage] of this.#usage) {
        usage.domainsInMinute.clear();
        if (usage.atOnce === 0) this.#usage.delete(key);
      }
    }
    const usage = this.#usage.get(tenant) ?? { domainsInMinute: new Set<string>(), atOnce: 0 };
    this.#usage.set(tenant, usage);
    return usage;
  }
}

function unknown(reason: string): { kind: 'unknown'; reason: string } {
  return { kind: 'unknown', reason };
}

function whenAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}
