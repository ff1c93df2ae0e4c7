/**
 * Answers the challenge DNS-01 (RFC 8555 §8.4) by a TXT record at `_acme-challenge.<name>`. The DNS provider gets it,
 * and it is removed after the order.
 *
 * The authority is asked to validate only when the resolver of this machine sees the record, because a failed
 * validation counts. A record that a dead process has left is found by the next attempt: it has the same value.
 */
import { createHash } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import { AcmeError } from '../net/acme/acme-error.ts';
import type { Resolver } from '../net/dns/resolver.ts';
import {
  type DnsProvider,
  DnsProviderProblem,
  type DnsZone,
} from '../net/dns-provider/dns-provider.ts';

export type DnsChallengeOptions = {
  provider: DnsProvider;
  resolver: Pick<Resolver, 'close' | 'txt'>;
};

type Answer = { name: string; keyAuthorization: string };

const TTL_S = 60;
const POLL_FIRST_MS = 500;
const POLL_MAX_MS = 15_000;
/** Two thirds of the time for an order. */
const VISIBLE_WITHIN_MS = 200_000;

export class DnsChallenges {
  readonly #options: DnsChallengeOptions;

  constructor(options: DnsChallengeOptions) {
    this.#options = options;
  }

  /** Adds the record, and waits until DNS has it. @throws AcmeError */
  async publish(answer: Answer, signal: AbortSignal): Promise<void> {
    const { provider } = this.#options;
    const record = { ...recordOf(answer), ttlS: TTL_S };
    await asAcmeError(async () => provider.upsert(await this.#zoneOf(answer.name), record));
    await this.#waitUntilVisible(record, signal);
  }

  /** @throws AcmeError */
  async remove(answer: Answer): Promise<void> {
    const { provider } = this.#options;
    await asAcmeError(async () =>
      provider.remove(await this.#zoneOf(answer.name), recordOf(answer)),
    );
  }

  close(): void {
    this.#options.resolver.close();
  }

  async #zoneOf(name: string): Promise<DnsZone> {
    const { provider } = this.#options;
    const zone = await provider.findZone(name);
    if (zone !== null) return zone;
    const message = `${provider.name} has no zone for ${name} in the account of this token.`;
    throw new AcmeError('dnsProvider', message);
  }

  async #waitUntilVisible(
    { name, value }: { name: string; value: string },
    signal: AbortSignal,
  ): Promise<void> {
    let waitedMs = 0;
    for (let waitMs = POLL_FIRST_MS; ; waitMs = Math.min(waitMs * 2, POLL_MAX_MS)) {
      const found = await this.#options.resolver.txt(name, { fresh: true });
      if (found.kind === 'records' && found.records.includes(value)) return;
      if (waitedMs >= VISIBLE_WITHIN_MS || signal.aborted) {
        throw new AcmeError('dns', `DNS does not return the new TXT record of ${name}.`);
      }
      await pause(waitMs, null, { signal }).catch(() => {});
      waitedMs += waitMs;
    }
  }
}

function recordOf({ name, keyAuthorization }: Answer) {
  const value = createHash('sha256').update(keyAuthorization).digest('base64url');
  return { name: `_acme-challenge.${name}`, type: 'TXT', value } as const;
}

async function asAcmeError(run: () => Promise<void>): Promise<void> {
  try {
    await run();
  } catch (error) {
    if (!(error instanceof DnsProviderProblem)) throw error;
    throw new AcmeError('dnsProvider', error.message);
  }
}
