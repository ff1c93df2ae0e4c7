/** Finds keys that are limited to a domain that their project does not have. Such a key cannot send. */
import type { Scope } from '../../core/scope.ts';
import type { Queryable } from '../../database/database.ts';
import { findUnknownDomains } from '../../domains/domain-store.ts';
import { domainOfPattern } from '../../mail/address-patterns.ts';
import type { ApiKey } from './key-store.ts';

/** Returns the warnings by the id of the key. Keys without a domain and senders cause no query. */
export async function findKeyWarnings(
  db: Queryable,
  scope: Scope,
  keys: readonly ApiKey[],
): Promise<Map<string, string[]>> {
  const domains = new Map(keys.map((key) => [key.id, domainsOf(key)]));
  const names = new Set([...domains.values()].flat());
  if (names.size === 0) return new Map();
  const unknown = await findUnknownDomains(db, scope, [...names]);
  return new Map(
    [...domains].map(([id, own]) => [id, own.filter((name) => unknown.has(name)).map(warningOf)]),
  );
}

function domainsOf({ domain, allowedSenders }: ApiKey): string[] {
  const ofSenders = (allowedSenders ?? []).map(domainOfPattern);
  return [...new Set([...(domain === null ? [] : [domain]), ...ofSenders])];
}

function warningOf(name: string): string {
  return `${name} is not a domain of this project and environment, so the key sends nothing from it; add the domain, or change the key.`;
}
