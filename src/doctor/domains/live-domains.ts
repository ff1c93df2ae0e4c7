/** Finds the sending domains to check: the one that the user of the doctor names, or the live ones of all projects. */
import { type AdviceFinding, adviseOn } from '../../domains/dns/advice.ts';
import type { StoredDomain } from '../../domains/domain-store.ts';
import type { CheckContext } from '../check-context.ts';
import { listLiveDomains } from '../doctor-store.ts';
import { type Finding, unknown } from '../finding.ts';

/** @property stored null: the database does not have it, or cannot be read */
export type CheckedDomain = { name: string; stored: StoredDomain | null };

const DOMAINS_MAX = 20;

/** Returns each name once. Empty when there is no live domain, or the database cannot be read. */
export async function findDomains({ database, domain }: CheckContext): Promise<CheckedDomain[]> {
  const isReadable = database.kind === 'open' && database.schema === database.schemaKnown;
  const rows = isReadable ? await listLiveDomains(database.db, domain, DOMAINS_MAX * 2) : [];
  const byName = new Map<string, CheckedDomain>();
  if (domain !== null) byName.set(domain, { name: domain, stored: rows[0] ?? null });
  for (const stored of rows) {
    if (!byName.has(stored.name)) byName.set(stored.name, { name: stored.name, stored });
  }
  return [...byName.values()];
}

/** Runs a check for each domain, and says which domains it left out. */
export async function forEachDomain(
  context: CheckContext,
  check: (domain: CheckedDomain) => Promise<readonly Finding[]>,
): Promise<readonly Finding[]> {
  const domains = await findDomains(context);
  if (domains.length === 0) return [withoutDomains(context)];
  const findings = await Promise.all(domains.slice(0, DOMAINS_MAX).map(check));
  const left = domains.slice(DOMAINS_MAX).map(({ name }) => name);
  if (left.length === 0) return findings.flat();
  const found = `Only the first ${DOMAINS_MAX} domains were checked, without ${left[0]} and others.`;
  return [...findings.flat(), unknown(found, { remedy: 'Name one: letterhaus doctor DOMAIN.' })];
}

function withoutDomains({ database }: CheckContext): Finding {
  if (database.kind !== 'open') {
    const remedy = 'Name the domain: letterhaus doctor DOMAIN.';
    return unknown(`The domains cannot be read: ${database.reason}`, { remedy });
  }
  return unknown('No live domain is verified yet.', {
    remedy: 'Add the domain of your From address.',
    command: 'letterhaus domains add yourdomain.com',
  });
}

const advices = new WeakMap<CheckContext, Map<string, Promise<AdviceFinding[]>>>();

/** Returns the advice of the check of domains (domains/dns/advice.ts), looked up once for each domain and run. */
export function adviceFor(context: CheckContext, name: string): Promise<AdviceFinding[]> {
  const known = advices.get(context) ?? new Map<string, Promise<AdviceFinding[]>>();
  advices.set(context, known);
  const { resolver: lookups, config } = context;
  const { hostname, sources } = config;
  const advice = known.get(name) ?? adviseOn({ name, hostname, sources, lookups });
  known.set(name, advice);
  return advice;
}

/** Makes a sentence of a clause, as the check of domains writes them. A domain that it begins with stays as it is. */
export function sentence(clause: string): string {
  const beginsWithName = /^[^\s:]*[._]/.test(clause);
  const start = beginsWithName ? clause : clause.slice(0, 1).toUpperCase() + clause.slice(1);
  return /[.?!]$/.test(start) ? start : `${start}.`;
}
