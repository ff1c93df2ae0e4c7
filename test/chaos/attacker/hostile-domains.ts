/**
 * The recipient domains of the attacker (attacker.ts), who controls their DNS and their mail servers. Each domain fails
 * from the start until `settle`. After that it accepts everything, so that all mail to it ends.
 */
import { COMPLAINT } from '../../support/hostile-shapes.ts';
import type { FakeDns } from '../../support/fake-dns.ts';
import type { FakeMx, MxBehaviour } from '../../support/fake-mx.ts';
import { SILENT_ADDRESS } from '../receivers/domains.ts';

const ZONE = 'hostile.example';
const named = (kind: string, count: number): string[] =>
  Array.from({ length: count }, (_, n) => `${kind}-${n}.${ZONE}`);

/** Hostile domains, by their failure. */
export const HOSTILE_DOMAINS = {
  /** Domains whose servers accept connections and never greet. Several domains share an address. */
  silent: named('silent', 120),
  /** Domains whose servers do not respond to a SYN. */
  dropping: named('dropping', 6),
  /** Domains at an address where no server listens. */
  dead: named('dead', 20),
  /** Domains whose servers blame the reputation of every client. */
  complaining: named('complaining', 4),
  /** Domains whose name servers never answer. */
  unresolvable: named('unresolvable', 12),
  /** Domains that do not exist. */
  unknown: named('unknown', 8),
} as const satisfies Record<string, readonly string[]>;

type Kind = keyof typeof HOSTILE_DOMAINS;

const SILENT_SERVERS = 6;
const DEAD_ADDRESS = '127.0.5.1';
const SILENT: MxBehaviour = { phases: { greeting: {} } };

/** Returns the allowed final statuses of mail to a hostile domain; null: the domain is not hostile. */
export function hostileEndsOf(domain: string): readonly string[] | null {
  const [kind] = Object.entries(HOSTILE_DOMAINS).find(([, names]) => names.includes(domain)) ?? [];
  if (kind === undefined) return null;
  return kind === 'unknown' ? ['bounced'] : ['delivered'];
}

export type HostileDomains = {
  /** Returns the kinds of domains that have met no mail yet. */
  unexercised(): string[];
  settle(): void;
};

type HostileDomainsContext = {
  dns: FakeDns;
  serve: (behaviour: MxBehaviour) => Promise<FakeMx>;
  /** Returns the names in all DNS queries so far. */
  askedFor: () => ReadonlySet<string>;
  working: MxBehaviour;
  /** Address of a server that always accepts. */
  accepting: string;
};

export async function startHostileDomains({
  dns,
  serve,
  askedFor,
  working,
  accepting,
}: HostileDomainsContext): Promise<HostileDomains> {
  const silent: FakeMx[] = [];
  while (silent.length < SILENT_SERVERS) silent.push(await serve(SILENT));
  const complaining = await serve({ phases: { mail: COMPLAINT } });
  const servers: Partial<Record<Kind, FakeMx[]>> = { silent, complaining: [complaining] };
  const addressOf = (kind: Kind, index: number): string => {
    const own = servers[kind];
    if (own !== undefined) return own[index % own.length]!.address;
    return { dropping: SILENT_ADDRESS, dead: DEAD_ADDRESS }[kind as string] ?? accepting;
  };
  const publish = (domain: string, address: string): void => {
    dns.set(domain, 'MX', [`10 mx.${domain}`]);
    dns.set(`mx.${domain}`, 'A', [address]);
  };
  const { unknown: _, ...known } = HOSTILE_DOMAINS;
  for (const [kind, domains] of Object.entries(known)) {
    for (const [index, domain] of domains.entries())
      publish(domain, addressOf(kind as Kind, index));
  }
  for (const domain of known.unresolvable) dns.setFailure(domain, 'timeout');
  const isExercised = (kind: Kind): boolean =>
    servers[kind]?.some(({ connections }) => connections > 0) ??
    HOSTILE_DOMAINS[kind].some((domain) => askedFor().has(domain));
  return {
    unexercised: () =>
      (Object.keys(HOSTILE_DOMAINS) as Kind[])
        .filter((kind) => !isExercised(kind))
        .map((kind) => `${kind} domains of the attacker`),
    settle() {
      for (const domain of known.unresolvable) dns.setFailure(domain, null);
      for (const mx of [...silent, complaining]) mx.set(working);
      for (const domain of [...known.dropping, ...known.dead]) publish(domain, accepting);
    },
  };
}
