/**
 * The messages between the workers and the broker of a machine (broker.ts).
 *
 * A permit allows one connection from one source to one provider. Messages between two running processes arrive in
 * order and are not lost. When a process dies, its permits become free. Times are durations, because the processes
 * share no clock.
 */
import type { ProviderState } from '../shaping/provider-state.ts';

/** `source` is a local address, or `''` for the system's choice. */
export type PoolKey = { provider: string; source: string };

export type WorkerMessage =
  /** The demand for connections changed by `count`. `urgent` of all are needed despite an outage. */
  | (PoolKey & { kind: 'want'; count: number; urgent: number })
  /** The worker closed `count` connections. `unused` is the part of their message allowance that they did not use. */
  | (PoolKey & { kind: 'free'; count: number; unused: number })
  /** The provider accepted `count` messages while all connections were busy, so the window may grow. */
  | (PoolKey & { kind: 'accepted'; count: number })
  /**
   * The provider asked for fewer connections. `pace` also limits the message rate. `openedForMs` is the age of the
   * connection that was refused, or null when the reply came on an open session.
   */
  | (PoolKey & {
      kind: 'slow';
      reason: string;
      pace: MessageRate | null;
      openedForMs: number | null;
    })
  | { kind: 'reached'; provider: string; address: string }
  | { kind: 'unreached'; provider: string; addresses: readonly string[]; reason: string }
  | (PromptMessage & { isPrompt: boolean })
  /** A server of the provider replied on an open session. Each worker sends at most one a second. */
  | { kind: 'replied'; provider: string }
  /** DNS did not resolve the mail servers of a domain. `provider` is its last known provider, or the domain. */
  | { kind: 'unresolved'; provider: string }
  | HostMessage;

type MessageRate = { messagesPerMinute: number; forMs: number };

/** The address does not answer, so workers skip it for `skippedForMs`; 0: it answers again. */
export type HostMessage = { kind: 'host'; address: string; skippedForMs: number };

/** Attempts at these providers get a session at once, or no longer do. A worker sends it when that changes. */
type PromptMessage = { kind: 'prompt'; providers: readonly string[] };

export type BrokerMessage =
  /** `messagesMax` null: no limit besides the configured one. */
  | (PoolKey & { kind: 'grant'; messagesMax: number | null })
  | (PoolKey & { kind: 'yield'; count: number })
  /**
   * `share` is the worker's fair part of the connections, and `window` the limit for the machine. `othersWait`: other
   * workers wait for a connection, so the worker closes idle ones.
   */
  | (PoolKey & { kind: 'pool'; share: number; window: number; othersWait: boolean })
  | (ProviderStatus & { kind: 'provider' })
  /** Another worker got sessions at once. Workers find out the opposite for themselves. */
  | PromptMessage
  /** The uplink changed (delivery/outage/uplink.ts). `failedForMs`: milliseconds without a reply. */
  | { kind: 'uplink'; isDown: boolean; failedForMs: number }
  | HostMessage;

export type ProviderStatus = {
  provider: string;
  /** `suspended` lasts until a server answers, through all probes. */
  state: ProviderState;
  /** Approximate milliseconds until the provider recovers or is probed; 0: it is open, or a probe is due. */
  forMs: number;
  /** Milliseconds for which no message may start, because the provider is suspended or limited to a message rate. */
  waitMs: number;
  /** Reason for the state, one sentence, or null when it is open. */
  reason: string | null;
};
