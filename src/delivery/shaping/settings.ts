/**
 * Limits per provider: the defaults as data, and the look-up in defaults and operator's file (settings-file.ts).
 *
 * net/providers.ts derives the key of a provider from the names of its mail servers. A provider without an entry gets
 * DEFAULT_PROVIDER_LIMITS. The numbers are from KumoMTA's shipped shaping rules, which large senders measured; no
 * provider publishes all of its own. The supervisor sends the settings to workers, so they must survive JSON.
 */
import type { BlockRules } from '../blocks/block-store.ts';
import { HOUR_MS } from '../../lib/units.ts';

/** Limits for one source and one provider, over all workers of this machine. */
export type ProviderLimits = {
  /** Limit on open connections. The first are START_CONNECTIONS. */
  connections: number;
  messagesPerConnection: number;
  idleMs: number;
  /** null: no limit besides the others. */
  newConnectionsPerMinute: number | null;
  messagesPerMinute: number | null;
};

/** Connections to a provider that has not been contacted before. */
export const START_CONNECTIONS = 2;

/**
 * Limits without an entry. 20 is Postfix's limit, too: 500 messages/s to a server 20 ms away need about that many.
 * Idle sessions use memory of the server, so they are closed after 10 s.
 */
export const DEFAULT_PROVIDER_LIMITS: ProviderLimits = {
  connections: 20,
  messagesPerConnection: 100,
  idleMs: 10_000,
  newConnectionsPerMinute: null,
  messagesPerMinute: null,
};

export const PROVIDER_LIMITS: Readonly<Record<string, Partial<ProviderLimits>>> = {
  google: { connections: 5, messagesPerConnection: 50, newConnectionsPerMinute: 100 },
  // Microsoft has three: consumers, tenants, and tenants on the newer names. Each counts separately.
  outlook: { connections: 5, messagesPerConnection: 50, newConnectionsPerMinute: 100 },
  office365: { connections: 5, messagesPerConnection: 50, newConnectionsPerMinute: 100 },
  microsoft: { connections: 5, messagesPerConnection: 50, newConnectionsPerMinute: 100 },
  yahoo: { connections: 10, messagesPerConnection: 20, newConnectionsPerMinute: 100 },
  // Its servers close a session after a few messages.
  apple: { connections: 10, messagesPerConnection: 5, newConnectionsPerMinute: 100 },
  orange: { connections: 2, newConnectionsPerMinute: 100 },
  // Counts connections per site, which is a region of its customers.
  mimecast: { connections: 10, newConnectionsPerMinute: 100 },
  comcast: { connections: 25, messagesPerConnection: 1000, newConnectionsPerMinute: 100 },
};

/** A reply that limits all mail from our address. One connection and a message rate are allowed afterwards. */
type Slowdown = {
  /** In lower case; searched anywhere in a temporary reply. */
  text: string;
  provider: string | null;
  messagesPerMinute: number;
  forMs: number;
};

const SLOWDOWNS: readonly Slowdown[] = [
  // Yahoo "[TSS04] Messages from x.x.x.x temporarily deferred due to user complaints".
  { text: '[tss04]', provider: 'yahoo', messagesPerMinute: 1, forMs: 2 * HOUR_MS },
  // Comcast "421 ... RL000001": our address is over its rate.
  { text: ' rl0000', provider: 'comcast', messagesPerMinute: 1, forMs: 2 * HOUR_MS },
  // Outlook "4.7.650 The mail server [x.x.x.x] has been temporarily rate limited due to IP reputation".
  {
    text: 'rate limited due to ip reputation',
    provider: null,
    messagesPerMinute: 1,
    forMs: 1.5 * HOUR_MS,
  },
  {
    text: 'temporarily deferred due to ip reputation',
    provider: null,
    messagesPerMinute: 1,
    forMs: 1.5 * HOUR_MS,
  },
  // Gmail "421-4.7.28 Gmail has detected an unusual rate of unsolicited mail originating from your IP
  // address. To protect our users from spam, mail sent from your IP address has been temporarily rate limited".
  {
    text: 'sent from your ip address has been temporarily rate limited',
    provider: 'google',
    messagesPerMinute: 1,
    forMs: 1.5 * HOUR_MS,
  },
];

const SUSPENSION_RULES = {
  afterFailures: 2,
  /** Milliseconds of the first suspension. Each further one is twice as long. */
  firstMs: 60_000,
  longestMs: 15 * 60_000,
};
export type SuspensionRules = typeof SUSPENSION_RULES;

const RECOVERY_RULES = {
  /** Milliseconds without growth after a slowdown. */
  holdDownMs: 60_000,
  /** Milliseconds between further connections after that. */
  stepMs: 10_000,
  /** Milliseconds until the number that was too many is tried again; doubles each time. */
  tryAgainAfterMs: 10 * 60_000,
};
export type RecoveryRules = typeof RECOVERY_RULES;

const UPLINK_RULES = {
  noAnswerMs: 15_000,
  /** Minimum milliseconds of suspensions and retries while it is down. */
  retryMs: 15_000,
};
export type UplinkRules = typeof UPLINK_RULES;

const BLOCK_RULES: BlockRules = { afterRefusals: 3, firstMs: 60_000, longestMs: HOUR_MS };

export type ShapingSettings = {
  default: Partial<ProviderLimits>;
  providers: Readonly<Record<string, Partial<ProviderLimits>>>;
  /** Pairs of host name suffix and provider, which precede net/providers.ts. The operator vouches for the hosts. */
  suffixes: readonly (readonly [string, string])[];
  suspension: SuspensionRules;
  recovery: RecoveryRules;
  uplink: UplinkRules;
  block: BlockRules;
};

export const DEFAULT_SHAPING: ShapingSettings = {
  default: {},
  providers: {},
  suffixes: [],
  suspension: SUSPENSION_RULES,
  recovery: RECOVERY_RULES,
  uplink: UPLINK_RULES,
  block: BLOCK_RULES,
};

export function limitsOf(settings: ShapingSettings, provider: string): ProviderLimits {
  const limits = Object.entries(explainLimits(settings, provider));
  return Object.fromEntries(limits.map(([name, { value }]) => [name, value])) as ProviderLimits;
}

export const LIMIT_SOURCES = ['built_in', 'built_in_provider', 'file', 'file_provider'] as const;

/** A limit in effect, and where it is set: as default or for the provider, built in or in the operator's file. */
export type ExplainedLimit = {
  value: number | null;
  source: (typeof LIMIT_SOURCES)[number];
  /** Key in the built-in table or the file's `providers`, or null for the default for all providers. */
  key: string | null;
};

/**
 * Returns the limits of a provider and where each is set. For a provider of several operators (`a.com+b.com`) each
 * limit is the strictest of theirs. The file names a relay `relay`.
 */
export function explainLimits(
  settings: ShapingSettings,
  provider: string,
): Record<keyof ProviderLimits, ExplainedLimit> {
  const keys = provider.startsWith('relay ') ? ['relay'] : provider.split('+');
  const names = Object.keys(DEFAULT_PROVIDER_LIMITS) as (keyof ProviderLimits)[];
  const explained = names.map((name) => {
    const [first, ...others] = keys.map((key) => explainLimit(settings, key, name));
    const isStricter = (limit: ExplainedLimit, than: ExplainedLimit): boolean =>
      (limit.value ?? Infinity) < (than.value ?? Infinity);
    return [
      name,
      others.reduce(
        (strictest, limit) => (isStricter(limit, strictest) ? limit : strictest),
        first!,
      ),
    ] as const;
  });
  return Object.fromEntries(explained) as Record<keyof ProviderLimits, ExplainedLimit>;
}

function explainLimit(
  settings: ShapingSettings,
  key: string,
  name: keyof ProviderLimits,
): ExplainedLimit {
  const sources = [
    ['file_provider', settings.providers[key], key],
    ['built_in_provider', PROVIDER_LIMITS[key], key],
    ['file', settings.default, null],
    ['built_in', DEFAULT_PROVIDER_LIMITS, null],
  ] as const;
  for (const [source, limits, sourceKey] of sources) {
    const value = limits?.[name];
    if (value !== undefined) return { value, source, key: sourceKey };
  }
  throw new Error(`there is no default of ${name}`);
}

/**
 * Returns the message rate that a temporary reply asks for, for all mail to the provider, or null when there is none.
 */
export function findSlowdown(provider: string, message: string): Slowdown | null {
  const reply = message.toLowerCase();
  const keys = provider.split('+');
  const slowdown = SLOWDOWNS.find(
    ({ text, provider: only }) => reply.includes(text) && (only === null || keys.includes(only)),
  );
  return slowdown ?? null;
}
