/**
 * Limits per provider: the defaults, as data, and what the operator's file (settings-file.ts) replaces.
 *
 * A provider key is what net/providers.ts derives from the names of the mail servers; a provider that
 * is not listed gets DEFAULT_PROVIDER_LIMITS. The numbers are those that large senders measured and keep in
 * KumoMTA's shipped shaping rules; no provider publishes all of its own. Settings must survive JSON,
 * because workers get them from the supervisor.
 */
import type { BlockRules } from '../blocks/block-store.ts';

/** For one of our addresses and one provider, over all workers of this machine. */
export type ProviderLimits = {
  /** Open at once, at most; the first are START_CONNECTIONS. */
  connections: number;
  messagesPerConnection: number;
  /** A session without a message for this time is closed. */
  idleMs: number;
  /** null: as many as the other limits allow. */
  newConnectionsPerMinute: number | null;
  /** null: as fast as the connections go. */
  messagesPerMinute: number | null;
};

/** The first connections to a provider about which nothing is known. */
export const START_CONNECTIONS = 2;

/**
 * For all other providers. 20 is Postfix's limit, too: 500 messages/s to a server 20 ms away need about
 * that many. Idle sessions cost the receiver memory, so they are closed after 10 s.
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
  // Microsoft's three: consumers, tenants, tenants on the newer names. Each counts by itself.
  outlook: { connections: 5, messagesPerConnection: 50, newConnectionsPerMinute: 100 },
  office365: { connections: 5, messagesPerConnection: 50, newConnectionsPerMinute: 100 },
  microsoft: { connections: 5, messagesPerConnection: 50, newConnectionsPerMinute: 100 },
  yahoo: { connections: 10, messagesPerConnection: 20, newConnectionsPerMinute: 100 },
  // Its servers close a session after a few messages.
  apple: { connections: 10, messagesPerConnection: 5, newConnectionsPerMinute: 100 },
  orange: { connections: 2, newConnectionsPerMinute: 100 },
  // Counts per site; a site is a customer's region.
  mimecast: { connections: 10, newConnectionsPerMinute: 100 },
  comcast: { connections: 25, messagesPerConnection: 1000, newConnectionsPerMinute: 100 },
};

/** Replies that limit our address as a whole: one connection and a message rate follow. */
type Slowdown = {
  /** In lower case; found anywhere in a temporary reply. */
  words: string;
  provider: string | null;
  messagesPerMinute: number;
  forMs: number;
};

const HOUR_MS = 3600_000;

const SLOWDOWNS: readonly Slowdown[] = [
  // Yahoo "[TSS04] Messages from x.x.x.x temporarily deferred due to user complaints".
  { words: '[tss04]', provider: 'yahoo', messagesPerMinute: 1, forMs: 2 * HOUR_MS },
  // Comcast "421 ... RL000001": our address is over its rate.
  { words: ' rl0000', provider: 'comcast', messagesPerMinute: 1, forMs: 2 * HOUR_MS },
  // Outlook "4.7.650 The mail server [x.x.x.x] has been temporarily rate limited due to IP reputation".
  {
    words: 'rate limited due to ip reputation',
    provider: null,
    messagesPerMinute: 1,
    forMs: 1.5 * HOUR_MS,
  },
  {
    words: 'temporarily deferred due to ip reputation',
    provider: null,
    messagesPerMinute: 1,
    forMs: 1.5 * HOUR_MS,
  },
  // Gmail "421-4.7.28 Gmail has detected an unusual rate of unsolicited mail originating from your IP
  // address. To protect our users from spam, mail sent from your IP address has been temporarily rate limited".
  {
    words: 'sent from your ip address has been temporarily rate limited',
    provider: 'google',
    messagesPerMinute: 1,
    forMs: 1.5 * HOUR_MS,
  },
];

const SUSPENSION_RULES = {
  /** Attempts in a row that reached no host. */
  afterFailures: 2,
  /** The first suspension; each further one is twice as long. */
  firstMs: 60_000,
  longestMs: 15 * 60_000,
};
export type SuspensionRules = typeof SUSPENSION_RULES;

const RECOVERY_RULES = {
  /** No growth for this time. */
  holdDownMs: 60_000,
  /** Then one more connection after each interval of this length. */
  stepMs: 10_000,
  /** The number that was too many is tried again after this; twice as long each time. */
  tryAgainAfterMs: 10 * 60_000,
};
export type RecoveryRules = typeof RECOVERY_RULES;

/** When our own uplink counts as down (delivery/outage/uplink.ts). */
const UPLINK_RULES = {
  /** No server anywhere has answered for this time. */
  noAnswerMs: 15_000,
  /** Suspensions and retries while it is down, at least. */
  retryMs: 15_000,
};
export type UplinkRules = typeof UPLINK_RULES;

/** How often a block is looked for and probed (delivery/blocks/provider-blocks.ts). */
const BLOCK_RULES: BlockRules = { afterRefusals: 3, firstMs: 60_000, longestMs: HOUR_MS };

export type ShapingSettings = {
  default: Partial<ProviderLimits>;
  providers: Readonly<Record<string, Partial<ProviderLimits>>>;
  /** Host name suffix → provider, before the table of net/providers.ts. The operator vouches for all hosts. */
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

/** A limit in effect, and where it is set: by default or for the provider, here or in the operator's file. */
export type ExplainedLimit = {
  value: number | null;
  source: (typeof LIMIT_SOURCES)[number];
  /** The key of the table or of the file's `providers`; null: it is that for all others. */
  key: string | null;
};

/**
 * The limits of a provider, and where each is set. Where several operators' servers stand side by side (`a.com+b.com`), the
 * strictest of each. A relay is `relay` in the file.
 */
export function explainLimits(
  settings: ShapingSettings,
  provider: string,
): Record<keyof ProviderLimits, ExplainedLimit> {
  const keys = provider.startsWith('relay ') ? ['relay'] : provider.split('+');
  const names = Object.keys(DEFAULT_PROVIDER_LIMITS) as (keyof ProviderLimits)[];
  const explained = names.map((name) => {
    const [first, ...others] = keys.map((key) => explainLimit(settings, key, name));
    const isStricter = (one: ExplainedLimit, than: ExplainedLimit): boolean =>
      (one.value ?? Infinity) < (than.value ?? Infinity);
    return [name, others.reduce((a, b) => (isStricter(b, a) ? b : a), first!)] as const;
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
  for (const [source, limits, of] of sources) {
    const value = limits?.[name];
    if (value !== undefined) return { value, source, key: of };
  }
  throw new Error(`there is no default of ${name}`);
}

/** The rate that a temporary reply asks for, for all mail to the provider; null: none. */
export function slowdownFor(provider: string, message: string): Slowdown | null {
  const words = message.toLowerCase();
  const keys = provider.split('+');
  const found = SLOWDOWNS.find(
    (one) => words.includes(one.words) && (one.provider === null || keys.includes(one.provider)),
  );
  return found ?? null;
}
