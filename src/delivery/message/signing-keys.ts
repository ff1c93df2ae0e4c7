/**
 * The DKIM keys that sign messages: loads the keys of a domain, opens them, and caches them for some seconds. While
 * the database is unavailable, cached keys stay in use.
 */
import { createPrivateKey } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { DatabaseUnavailable, type Queryable } from '../../database/database.ts';
import { loadSigningKeys, type SealedKeys } from '../../domains/domain-store.ts';
import { cacheUpTo, type World } from '../../lib/world.ts';
import { type DkimKey, signingAlgorithms } from '../../mail/dkim.ts';
import type { SecretBox } from '../../secrets/secret-box.ts';

type KeyPair = { rsa: DkimKey; ed25519: DkimKey };

type DomainKeys = KeyPair & { sealed: SealedKeys };

type CachedKeys = { keys: Promise<DomainKeys>; loadedAtMs: number };

type DomainId = { projectId: string; domainId: string };

/** Milliseconds after which keys are read again. A check of DNS comes minutes after a change anyway. */
const KEYS_CACHED_FOR_MS = 10_000;

/** Limit on domains with cached keys, because decoding a PEM costs more than an RSA signature. */
const KEYS_MAX = 5_000;

export class SigningKeys {
  readonly #db: Queryable;
  readonly #secrets: SecretBox;
  readonly #world: Pick<World, 'monotonicMs'>;
  readonly #cache: LRUCache<string, CachedKeys>;

  constructor(
    db: Queryable,
    secrets: SecretBox,
    options: { world: Pick<World, 'monotonicMs'>; keysMax?: number },
  ) {
    this.#db = db;
    this.#secrets = secrets;
    this.#world = options.world;
    this.#cache = new LRUCache(cacheUpTo(options.keysMax ?? KEYS_MAX));
  }

  /**
   * Returns the keys that sign mail of this domain now. If DNS publishes only one of the two, only that one signs.
   * @throws SecretUnopenable
   */
  async current(domain: DomainId & { dualSigned: boolean }): Promise<DkimKey[]> {
    const { rsa, ed25519, sealed } = await this.#keysOf(domain);
    const ofAlgorithm = { 'rsa-sha256': rsa, 'ed25519-sha256': ed25519 };
    return signingAlgorithms(sealed, domain.dualSigned).map((algorithm) => ofAlgorithm[algorithm]);
  }

  /**
   * Returns all sets of keys that may have signed earlier mail of this domain, most likely first.
   * @throws SecretUnopenable
   */
  async possible(domain: DomainId): Promise<DkimKey[][]> {
    const keys = await this.#keysOf(domain);
    const previous = this.#previousKeys(keys.sealed, domain.domainId);
    const pairs = previous === null ? [keys] : [previous, keys];
    return pairs.flatMap(({ rsa, ed25519 }) => [[rsa], [rsa, ed25519], [ed25519]]);
  }

  #previousKeys(sealed: SealedKeys, domainId: string): KeyPair | null {
    const { domain, previousRsaSelector, previousRsaPrivateKey } = sealed;
    const { previousEd25519Selector, previousEd25519PrivateKey } = sealed;
    if (previousRsaSelector === null || previousRsaPrivateKey === null) return null;
    if (previousEd25519Selector === null || previousEd25519PrivateKey === null) return null;
    return {
      rsa: {
        domain,
        selector: previousRsaSelector,
        algorithm: 'rsa-sha256',
        privateKey: this.#openKey(previousRsaPrivateKey, domainId),
      },
      ed25519: {
        domain,
        selector: previousEd25519Selector,
        algorithm: 'ed25519-sha256',
        privateKey: this.#openKey(previousEd25519PrivateKey, domainId),
      },
    };
  }

  #keysOf({ projectId, domainId }: DomainId): Promise<DomainKeys> {
    const id = `${projectId} ${domainId}`;
    const nowMs = this.#world.monotonicMs();
    const cached = this.#cache.get(id);
    if (cached !== undefined && nowMs - cached.loadedAtMs < KEYS_CACHED_FOR_MS) return cached.keys;
    const keys = this.#loadKeys({ projectId, domainId }, cached?.keys);
    this.#cache.set(id, { keys, loadedAtMs: nowMs });
    keys.catch(() => this.#cache.delete(id));
    return keys;
  }

  async #loadKeys(
    { projectId, domainId }: DomainId,
    cached?: Promise<DomainKeys>,
  ): Promise<DomainKeys> {
    const loaded = await loadSigningKeys(this.#db, projectId, domainId).catch((error: unknown) => {
      if (cached !== undefined && error instanceof DatabaseUnavailable) return cached;
      throw error;
    });
    if (!loaded) throw new Error('the sending domain of a stored email has no keys');
    if ('sealed' in loaded) return loaded;
    return this.#openKeys(loaded, domainId, await cached?.catch(() => undefined));
  }

  /** Opens the keys. One that is the same as a cached one is not opened again. */
  #openKeys(sealed: SealedKeys, domainId: string, cached: DomainKeys | undefined): DomainKeys {
    const { domain, rsaSelector, rsaPrivateKey, ed25519Selector, ed25519PrivateKey } = sealed;
    const rsa = cached?.sealed.rsaPrivateKey.equals(rsaPrivateKey)
      ? cached.rsa.privateKey
      : this.#openKey(rsaPrivateKey, domainId);
    const ed25519 = cached?.sealed.ed25519PrivateKey.equals(ed25519PrivateKey)
      ? cached.ed25519.privateKey
      : this.#openKey(ed25519PrivateKey, domainId);
    return {
      sealed,
      rsa: { domain, selector: rsaSelector, algorithm: 'rsa-sha256', privateKey: rsa },
      ed25519: {
        domain,
        selector: ed25519Selector,
        algorithm: 'ed25519-sha256',
        privateKey: ed25519,
      },
    };
  }

  #openKey(sealedKey: Buffer, domainId: string): DkimKey['privateKey'] {
    return createPrivateKey(this.#secrets.open(sealedKey, domainId));
  }
}
