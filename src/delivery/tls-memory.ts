/**
 * What was learnt about TLS with mail servers, where nothing but opportunism asks for it: which need a
 * small ClientHello, which cannot do STARTTLS although they offer it, and with which it has worked.
 *
 * A handshake can be broken by anybody on the way. So a server that breaks it is spoken to in the clear for
 * minutes only, and one with which TLS has worked lately is held to it: until it has failed for an hour
 * without working once, its mail waits. It never decides whether a rule is kept (net/tls/policy.ts).
 * Of this worker; a restart forgets it.
 */
import type { World } from '../core/world.ts';

const REDUCED_FOR_MS = 3 * 24 * 3600_000;
const BROKEN_FOR_MS = 10 * 60_000;
const WORKED_FOR_MS = 3 * 24 * 3600_000;
/** A server that has really lost its TLS gets its mail so much later. */
const HELD_FOR_MS = 3600_000;
/** The ones that were heard of longest ago go first. */
const REMEMBERED_MAX = 10_000;

type Known = {
  reducedUntilMs: number;
  brokenUntilMs: number;
  workedUntilMs: number;
  /** Since when it fails where it had worked; null: it does not. */
  failingSinceMs: number | null;
};

const NOTHING: Known = {
  reducedUntilMs: -Infinity,
  brokenUntilMs: -Infinity,
  workedUntilMs: -Infinity,
  failingSinceMs: null,
};

export class TlsMemory {
  readonly #world: Pick<World, 'monotonicMs'>;
  readonly #hosts = new Map<string, Known>();

  constructor(world: Pick<World, 'monotonicMs'>) {
    this.#world = world;
  }

  /** @param reduced it took a small ClientHello */
  worked(host: string, { reduced }: { reduced: boolean }): void {
    const nowMs = this.#world.monotonicMs();
    const { reducedUntilMs } = this.#known(host);
    this.#keep(host, {
      reducedUntilMs: reduced ? nowMs + REDUCED_FOR_MS : reducedUntilMs,
      brokenUntilMs: -Infinity,
      workedUntilMs: nowMs + WORKED_FOR_MS,
      failingSinceMs: null,
    });
  }

  /** No handshake came about, or STARTTLS was not offered any more. */
  failed(host: string): void {
    const nowMs = this.#world.monotonicMs();
    const known = this.#known(host);
    if (!this.expectsTls(host)) {
      return this.#keep(host, { ...known, brokenUntilMs: nowMs + BROKEN_FOR_MS });
    }
    this.#keep(host, { ...known, failingSinceMs: known.failingSinceMs ?? nowMs });
  }

  /** A usual ClientHello is too much for it. */
  needsReduced(host: string): boolean {
    return this.#known(host).reducedUntilMs > this.#world.monotonicMs();
  }

  /** Asking for TLS is in vain. */
  isBroken(host: string): boolean {
    return this.#known(host).brokenUntilMs > this.#world.monotonicMs();
  }

  /** It has worked, so that nothing else will do: whoever breaks a handshake gains nothing by it. */
  expectsTls(host: string): boolean {
    const nowMs = this.#world.monotonicMs();
    const { workedUntilMs, failingSinceMs } = this.#known(host);
    return workedUntilMs > nowMs && nowMs - (failingSinceMs ?? nowMs) < HELD_FOR_MS;
  }

  #known(host: string): Known {
    return this.#hosts.get(host) ?? NOTHING;
  }

  #keep(host: string, known: Known): void {
    this.#hosts.delete(host);
    this.#hosts.set(host, known);
    if (this.#hosts.size <= REMEMBERED_MAX) return;
    const oldest = this.#hosts.keys().next();
    if (!oldest.done) this.#hosts.delete(oldest.value);
  }
}
