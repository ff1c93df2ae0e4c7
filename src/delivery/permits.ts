/**
 * What workers and the broker of their machine (broker.ts) say to each other. A permit is the right
 * to have one connection from one of our addresses to one provider. Messages never get lost between two
 * living processes and keep their order; a process that dies takes its permits back with it.
 * Times are lengths: two processes share no clock.
 */

/** `source`: our address, `''` for the system's choice. */
export type PoolKey = { provider: string; source: string };

export type WorkerMessage =
  /** So many more (or fewer) connections are waited for; `urgent` of all that wait may not rest. */
  | (PoolKey & { kind: 'want'; count: number; urgent: number })
  /** Connections that are closed now; `unused`: messages they were allowed and did not carry. */
  | (PoolKey & { kind: 'free'; count: number; unused: number })
  /** Messages that were taken while all connections were busy. */
  | (PoolKey & { kind: 'took'; count: number })
  /**
   * The receiver asked for less. `pace`: for so much less that the connection count is not enough.
   * `openedForMs`: it refused a connection that was begun so long ago; null: it said so later.
   */
  | (PoolKey & { kind: 'slow'; reason: string; pace: Pace | null; openedForMs: number | null })
  /** A session came about, or at least an answer. */
  | { kind: 'reached'; provider: string; address: string }
  /** An attempt reached none of its hosts. */
  | { kind: 'unreached'; provider: string; addresses: readonly string[]; reason: string }
  | HostMessage;

export type Pace = { messagesPerMinute: number; forMs: number };

/** The address does not answer and is left alone for so long; 0: it answers again. */
export type HostMessage = { kind: 'host'; address: string; deadForMs: number };

export type BrokerMessage =
  /** One connection may be opened; `messagesMax` null: no limit besides the usual. */
  | (PoolKey & { kind: 'grant'; messagesMax: number | null })
  /** So many are to be given back as soon as their message is done. */
  | (PoolKey & { kind: 'yield'; count: number })
  /** Whether another worker waits: then idle connections are given back. */
  | (PoolKey & { kind: 'wanted'; isWanted: boolean })
  /** `share`: connections that this worker may count on; `window`: those of the machine. */
  | (PoolKey & { kind: 'pool'; share: number; window: number })
  | (ProviderStatus & { kind: 'provider' })
  | HostMessage;

export type ProviderStatus = {
  provider: string;
  /** `trouble`: nobody answers there. `pace`: the next message has to wait. */
  suspension: { kind: 'outage' | 'pace'; forMs: number } | null;
  /** It asked for less, and has not got over it for about so long. */
  slowedForMs: number | null;
  /** Why it rests or is slowed, one sentence. */
  reason: string | null;
};
