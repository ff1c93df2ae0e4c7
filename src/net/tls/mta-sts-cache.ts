/**
 * Which MTA-STS policy holds for a domain now (RFC 8461 §3.3, §5.1).
 *
 *     memory ── looked at within 5 min ──> the answer, without waiting
 *        │
 *     stored policy  +  TXT record of _mta-sts.<domain>
 *        │   same id ──> the stored policy (fetched again in the background once a day)
 *        │   other id ─> fetched, stored; when that fails the stored one goes on
 *        │   no record, DNS away ──> the stored one goes on until it expires
 *        └── nothing stored ──> no policy
 *
 * Promises: an unexpired policy is never given up because DNS or HTTPS do not answer; a fetch that
 * failed is not tried again for five minutes, whichever worker it was; one look-up per domain at a
 * time; at most a few seconds, after which mail goes on as if there was no policy.
 */
import type { World } from '../../core/world.ts';
import type { Resolver } from '../dns/resolver.ts';
import { readStsRecord, type StsPolicy } from './mta-sts.ts';
import { type FetchOptions, fetchStsPolicy } from './mta-sts-fetch.ts';
import type { PolicyResult } from './policy.ts';

/** What is stored about a domain; shared by all workers of all machines. */
export type StoredSts = {
  /** Not expired. */
  known: { id: string; policy: StsPolicy; ageMs: number; remainingMs: number } | null;
  /** Since the last failed fetch, unless one has succeeded since. */
  failedAgoMs: number | null;
};

export type StsStore = {
  load(domain: string): Promise<StoredSts>;
  save(domain: string, id: string, policy: StsPolicy): Promise<void>;
  saveFailure(domain: string): Promise<void>;
};

export type StsCacheOptions = FetchOptions & {
  resolver: Pick<Resolver, 'txt'>;
  store: StsStore;
  world: Pick<World, 'monotonicMs'>;
  /** A policy that was announced could not be had. */
  onFailure: (domain: string, result: PolicyResult, message: string) => void;
};

type Entry = { policy: StsPolicy | null; expiresMs: number; lookAgainMs: number };

const LOOK_AGAIN_MS = 5 * 60_000;
/** After DNS did not answer, and between checks because of failed deliveries. */
const LOOK_SOON_MS = 60_000;
const REFETCH_AFTER_MS = 24 * 3600_000;
const FETCH_AGAIN_MS = 5 * 60_000;
const DNS_BUDGET_MS = 5_000;
/** Domains in memory; the oldest go first. */
const ENTRIES_MAX = 50_000;

export class StsCache {
  readonly #options: StsCacheOptions;
  readonly #entries = new Map<string, Entry>();
  readonly #underWay = new Map<string, Promise<StsPolicy | null>>();
  readonly #background = new Set<Promise<unknown>>();
  readonly #recheckedMs = new Map<string, number>();

  constructor(options: StsCacheOptions) {
    this.#options = options;
  }

  /** The policy that mail to the domain is held to or watched under; null: none. */
  of(domain: string): StsPolicy | null | Promise<StsPolicy | null> {
    const entry = this.#entries.get(domain);
    const nowMs = this.#options.world.monotonicMs();
    if (entry !== undefined && nowMs < entry.lookAgainMs) return holding(entry, nowMs);
    return this.#look(domain, {});
  }

  /**
   * The same, with the TXT record asked for anew: a policy must not fail mail for good before that
   * (§5.1). At most once a minute per domain.
   */
  recheck(domain: string): StsPolicy | null | Promise<StsPolicy | null> {
    const nowMs = this.#options.world.monotonicMs();
    if (nowMs < (this.#recheckedMs.get(domain) ?? -Infinity) + LOOK_SOON_MS) return this.of(domain);
    if (this.#recheckedMs.size > ENTRIES_MAX) this.#recheckedMs.clear();
    this.#recheckedMs.set(domain, nowMs);
    return this.#look(domain, { fresh: true });
  }

  /** Looks at the domain now and waits for the daily fetch as well. */
  async renew(domain: string): Promise<void> {
    await this.#look(domain, { fresh: true });
    await this.settled();
  }

  /** Resolves when no fetch is left in the background. */
  async settled(): Promise<void> {
    await Promise.all(this.#background);
  }

  #look(domain: string, how: { fresh?: boolean }): Promise<StsPolicy | null> {
    const key = `${domain} ${how.fresh === true ? 'fresh' : ''}`;
    let looking = this.#underWay.get(key);
    if (looking === undefined) {
      looking = this.#lookNow(domain, how).finally(() => this.#underWay.delete(key));
      this.#underWay.set(key, looking);
    }
    return looking;
  }

  async #lookNow(domain: string, { fresh = false }): Promise<StsPolicy | null> {
    const { store, resolver, world } = this.#options;
    const [stored, answer] = await Promise.all([
      store.load(domain),
      resolver.txt(`_mta-sts.${domain}`, { budgetMs: DNS_BUDGET_MS, fresh }),
    ]);
    const record = readStsRecord(answer.kind === 'records' ? answer.records : []);
    let known = stored.known;
    if (record.kind === 'id' && (stored.failedAgoMs ?? Infinity) > FETCH_AGAIN_MS) {
      if (known?.id !== record.id) known = (await this.#fetch(domain, record.id)) ?? known;
      else if (known.ageMs > REFETCH_AFTER_MS) this.#fetchLater(domain, record.id);
    }
    const nowMs = world.monotonicMs();
    const lookAgainMs = nowMs + (answer.kind === 'error' ? LOOK_SOON_MS : LOOK_AGAIN_MS);
    const entry = { policy: known?.policy ?? null, expiresMs: nowMs + (known?.remainingMs ?? 0) };
    this.#remember(domain, { ...entry, lookAgainMs });
    return holding({ ...entry, lookAgainMs }, nowMs);
  }

  async #fetch(domain: string, id: string): Promise<StoredSts['known']> {
    const { store, onFailure } = this.#options;
    const fetched = await fetchStsPolicy(domain, this.#options);
    if (fetched.kind === 'failed') {
      onFailure(domain, fetched.result, fetched.message);
      await store.saveFailure(domain);
      return null;
    }
    await store.save(domain, id, fetched.policy);
    return { id, policy: fetched.policy, ageMs: 0, remainingMs: fetched.policy.maxAgeS * 1000 };
  }

  #fetchLater(domain: string, id: string): void {
    const fetching = this.#fetch(domain, id)
      .catch(() => null) // the database is away: the next look fetches
      .finally(() => this.#background.delete(fetching));
    this.#background.add(fetching);
  }

  #remember(domain: string, entry: Entry): void {
    this.#entries.delete(domain);
    this.#entries.set(domain, entry);
    if (this.#entries.size <= ENTRIES_MAX) return;
    const oldest = this.#entries.keys().next();
    if (!oldest.done) this.#entries.delete(oldest.value);
  }
}

function holding({ policy, expiresMs }: Entry, nowMs: number): StsPolicy | null {
  return policy !== null && policy.mode !== 'none' && nowMs < expiresMs ? policy : null;
}
