/**
 * Limits the look-ups of dry runs and diagnoses, so that an API key cannot be used to flood name servers, or to
 * occupy this service with unresponsive ones.
 *
 * A look-up concerns one domain: its mail servers with addresses and TLS policy, or the records of a sender. There
 * are limits on look-ups per purpose of a request, on those per minute and at a time for each project and
 * environment, and on the time of the whole request. Beyond a limit the result is `unknown` with the reason. A
 * look-up that exceeds the time is not aborted, because deliveries share it; it counts until it ends.
 */
import type { Scope } from '../../core/scope.ts';
import type { World } from '../../lib/world.ts';

export type Looked<T> = { kind: 'known'; value: T } | { kind: 'unknown'; reason: string };

/** Look-ups of one request for one purpose. Rejects with the error of `look`. */
export type BoundedLook = <T>(domain: string, look: () => T | Promise<T>) => Promise<Looked<T>>;

export type LookupBounds = {
  perRequestMax: number;
  /** For each project and environment, in this process. */
  perMinuteMax: number;
  atOnceMax: number;
  withinMs: number;
};

const DEFAULT_BOUNDS: LookupBounds = {
  perRequestMax: 10,
  perMinuteMax: 120,
  atOnceMax: 22,
  withinMs: 3_000,
};
const MINUTE_MS = 60_000;

/** A domain that is looked up again within the minute counts once, because its answers are cached. */
type Used = { inMinute: Set<string>; atOnce: number };

export class LookupAllowance {
  readonly #world: Pick<World, 'monotonicMs'>;
  readonly #bounds: LookupBounds;
  /** Uses by project and environment. Every minute, those without running look-ups are dropped. */
  readonly #used = new Map<string, Used>();
  #minuteBeganMs = -Infinity;

  constructor(world: Pick<World, 'monotonicMs'>, bounds: Partial<LookupBounds> = {}) {
    this.#world = world;
    this.#bounds = { ...DEFAULT_BOUNDS, ...bounds };
  }

  forRequest({ projectId, environment }: Scope): BoundedLook {
    const { perRequestMax, withinMs } = this.#bounds;
    const timeUp = AbortSignal.timeout(withinMs);
    let left = perRequestMax;
    return async (domain, look) => {
      if (left === 0) return unknown(`one request looks up at most ${perRequestMax} domains`);
      left -= 1;
      const used = this.#usedBy(`${projectId} ${environment}`);
      const bound = this.#boundReached(used, domain);
      if (bound !== null) return unknown(bound);
      used.inMinute.add(domain);
      used.atOnce += 1;
      const looking = (async () => look())().finally(() => (used.atOnce -= 1));
      return Promise.race([
        looking.then((value) => ({ kind: 'known', value }) as const),
        whenAborted(timeUp).then(() => unknown(`DNS gave no answer within ${withinMs / 1000} s`)),
      ]);
    };
  }

  #boundReached({ inMinute, atOnce }: Used, domain: string): string | null {
    const { perMinuteMax, atOnceMax } = this.#bounds;
    if (inMinute.size >= perMinuteMax && !inMinute.has(domain)) {
      return `dry runs and diagnoses of this project have looked up ${perMinuteMax} domains within a minute; try again in a minute`;
    }
    if (atOnce < atOnceMax) return null;
    return `${atOnceMax} look-ups of this project wait for name servers that do not answer; try again in half a minute`;
  }

  #usedBy(who: string): Used {
    const nowMs = this.#world.monotonicMs();
    if (nowMs - this.#minuteBeganMs >= MINUTE_MS) {
      this.#minuteBeganMs = nowMs;
      for (const [key, used] of this.#used) {
        used.inMinute.clear();
        if (used.atOnce === 0) this.#used.delete(key);
      }
    }
    const used = this.#used.get(who) ?? { inMinute: new Set<string>(), atOnce: 0 };
    this.#used.set(who, used);
    return used;
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
