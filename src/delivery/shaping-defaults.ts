/**
 * How much each provider takes, as data. A key is what net/providers.ts makes of the mail servers'
 * names; who is not listed gets DEFAULT_LIMITS. POSTHORN_SHAPING replaces single values.
 *
 * The numbers are those that large senders found out and keep in KumoMTA's shipped shaping rules;
 * no provider publishes all of its own.
 */

/** For one of our addresses and one provider, over all workers of this machine. */
export type ProviderLimits = {
  /** Open at once, at most; the first are START_CONNECTIONS. */
  connections: number;
  messagesPerConnection: number;
  /** A session without a message for so long is ended. */
  idleMs: number;
  /** null: as many as the other limits allow. */
  newConnectionsPerMinute: number | null;
  /** null: as fast as the connections go. */
  messagesPerMinute: number | null;
};

/** A receiver that is new to us is met by so many connections. */
export const START_CONNECTIONS = 2;

/**
 * For everybody else. 20 is Postfix's limit too: with a server 20 ms away 500 messages/s need about
 * that many. Idle sessions cost the receiver memory; after 10 s they are given up.
 */
export const DEFAULT_LIMITS: ProviderLimits = {
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
  // Ends a session after a few messages by itself.
  apple: { connections: 10, messagesPerConnection: 5, newConnectionsPerMinute: 100 },
  orange: { connections: 2, newConnectionsPerMinute: 100 },
  // Counts per site; a site is a customer's region.
  mimecast: { connections: 10, newConnectionsPerMinute: 100 },
  comcast: { connections: 25, messagesPerConnection: 1000, newConnectionsPerMinute: 100 },
};

/** Words about our address as a whole: then one connection, and one message from time to time. */
export type Slowdown = {
  /** In lower case; found anywhere in a temporary answer. */
  words: string;
  /** null: whoever says so. */
  provider: string | null;
  messagesPerMinute: number;
  forMs: number;
};

const HOUR_MS = 3600_000;

export const SLOWDOWNS: readonly Slowdown[] = [
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

/** When a provider rests as a whole, and for how long. */
export type SuspensionRules = {
  /** Attempts in a row that reached no host. */
  afterFailures: number;
  /** The first rest; each further one is twice as long. */
  firstMs: number;
  longestMs: number;
};

export const SUSPENSION_RULES: SuspensionRules = {
  afterFailures: 2,
  firstMs: 60_000,
  longestMs: 15 * 60_000,
};

/** How connections come back after a receiver wanted fewer. */
export type RecoveryRules = {
  /** No growth for so long. */
  holdDownMs: number;
  /** Then one more connection each time this much has passed. */
  stepMs: number;
  /** The number that was too many is tried again only after this; twice as long each time. */
  tryAgainAfterMs: number;
};

export const RECOVERY_RULES: RecoveryRules = {
  holdDownMs: 60_000,
  stepMs: 10_000,
  tryAgainAfterMs: 10 * 60_000,
};
