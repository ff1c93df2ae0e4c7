/**
 * The messages between workers and the broker of their machine (broker.ts).
 *
 * A permit is the right to have one connection from one of our addresses to one provider. Messages
 * between two running processes arrive in order and are not lost; the permits of a process that dies
 * become free. Times are durations, because two processes share no clock.
 */
import type { ProviderState } from '../shaping/provider-state.ts';

/** `source`: our address, `''` for the system's choice. */
export type PoolKey = { provider: string; source: string };

export type WorkerMessage =
  /** The number of connections needed changed by `count`; `urgent` of all are needed despite an outage. */
  | (PoolKey & { kind: 'want'; count: number; urgent: number })
  /** Connections were closed; `unused`: messages of their allowance that they did not carry. */
  | (PoolKey & { kind: 'free'; count: number; unused: number })
  /** Messages that the provider accepted while all connections were busy: the window may grow. */
  | (PoolKey & { kind: 'took'; count: number })
  /**
   * The receiver asked for fewer connections. `pace`: the message rate is limited, too. `openedForMs`: the age of
   * the connection that was refused; null: the reply came on an open session.
   */
  | (PoolKey & { kind: 'slow'; reason: string; pace: Pace | null; openedForMs: number | null })
  /** A server of the provider answered. */
  | { kind: 'reached'; provider: string; address: string }
  /** An attempt reached none of the provider's hosts. */
  | { kind: 'unreached'; provider: string; addresses: readonly string[]; reason: string }
  | (PromptMessage & { isPrompt: boolean })
  /** A server of the provider replied on an open session; sent now and then. */
  | { kind: 'answered'; provider: string }
  /** The servers of a domain could not be looked up; `provider`: its last known one, or the domain. */
  | { kind: 'unresolved'; provider: string }
  | HostMessage;

type Pace = { messagesPerMinute: number; forMs: number };

/** The address does not answer and is skipped for `deadForMs`; 0: it answers again. */
export type HostMessage = { kind: 'host'; address: string; deadForMs: number };

/** Attempts at these providers get a session at once, or do not any more. Sent when that changes for a worker. */
type PromptMessage = { kind: 'prompt'; providers: readonly string[] };

export type BrokerMessage =
  /** One connection may be opened; `messagesMax` null: no limit besides the usual. */
  | (PoolKey & { kind: 'grant'; messagesMax: number | null })
  /** `count` connections are to be closed as soon as their message is done. */
  | (PoolKey & { kind: 'yield'; count: number })
  /**
   * `share`: connections that this worker may count on; `window`: those of the machine. `othersWait`: other workers
   * wait for one, so idle ones are to be closed.
   */
  | (PoolKey & { kind: 'pool'; share: number; window: number; othersWait: boolean })
  | (ProviderStatus & { kind: 'provider' })
  /** Another worker got sessions at once. That they are slow, each worker finds out for itself. */
  | PromptMessage
  /** Our own uplink is down, or up again (delivery/outage/uplink.ts). `failedForMs`: how long no server had answered. */
  | { kind: 'uplink'; isDown: boolean; failedForMs: number }
  | HostMessage;

export type ProviderStatus = {
  provider: string;
  /** `suspended`: no server has answered since the first suspension. */
  state: ProviderState;
  /** About how long the provider stays slowed, or until the next probe; 0: it is open, or a probe is due. */
  forMs: number;
  /** How long no message may start: the provider is suspended, or limited to a message rate. */
  waitMs: number;
  /** Why it is suspended or slowed, one sentence. */
  reason: string | null;
};
