/**
 * The states of a provider, and their effect on its mail. docs/delivery.md draws the transitions.
 *
 * The broker of a machine decides between `open`, `slowed` and `suspended`. A worker reports an open provider as `full`
 * when it has no free connections, or when its configured message rate is used up. Refusals are counted in the
 * database for all nodes (delivery/blocks/provider-blocks.ts).
 */
import type { Transitions } from '../../lib/state-machine.ts';

export type ProviderState = 'open' | 'full' | 'slowed' | 'suspended' | 'blocked';
export type ProviderEvent =
  | 'filled' // All permitted connections are in use, or all messages of the configured rate.
  | 'freed'
  | 'limited' // A reply asked for fewer connections or messages.
  | 'recovered' // No reply limits it any more.
  | 'silent' // No server of the provider opens a session.
  | 'answered'
  | 'refused' // The third refusal in a row because of our address or the sending domain.
  | 'accepted';

export const PROVIDER_TRANSITIONS: Transitions<ProviderState, ProviderEvent> = {
  open: { filled: 'full', limited: 'slowed', silent: 'suspended', refused: 'blocked' },
  full: { freed: 'open', limited: 'slowed', silent: 'suspended', refused: 'blocked' },
  slowed: { limited: 'slowed', recovered: 'open', silent: 'suspended', refused: 'blocked' },
  // A slowdown from before the suspension applies again when a server answers.
  suspended: { silent: 'suspended', limited: 'suspended', answered: 'open', refused: 'blocked' },
  blocked: { accepted: 'open' },
};

export const PROVIDER_LIMITS = ['suspension', 'rate', 'connections'] as const;

export type ProviderWait = { limit: (typeof PROVIDER_LIMITS)[number]; message: string };

type ProviderStateFacts = {
  state: ProviderState;
  /** Why it is in this state. It may quote a reply to the mail of another organization. */
  reason: string | null;
  /** Milliseconds until the state ends; in a block, until the next probe. `full`: until the next message, by a rate. */
  forMs: number | null;
  connectionsMax: number;
  connectionsOpen: number;
  isUplinkDown: boolean;
};

const MINUTE_S = 60;
const HOUR_S = 3_600;

/** Says up to two minutes in seconds, and up to two hours in minutes. */
function periodOf(seconds: number): string {
  if (seconds < 2 * MINUTE_S) return `${seconds} s`;
  if (seconds < 2 * HOUR_S) return `${Math.round(seconds / MINUTE_S)} min`;
  return `${Math.round(seconds / HOUR_S)} h`;
}

/** A server, and why it opened no session (delivery/attempt/hosts.ts). No mail is named before a session is open. */
const SERVER_FAILURE = /^\S+ \[[0-9a-f.:]+\]: ./i;
const REPLY_CODES = /^[45]\d\d(?: [45]\.\d{1,3}\.\d{1,3})?(?= |$)/;

/** Returns what the last server did instead of opening a session, as the reason of a suspension. */
function suspensionCause(reason: string | null): string {
  const cause = 'its servers open no session';
  if (reason === null || !SERVER_FAILURE.test(reason)) return cause;
  return `${cause} (${reason.replace(/\.$/, '')})`;
}

/** Quotes the codes of a reply. Its text may name the mail of another organization. */
function repliedWith(reason: string | null): string {
  const [codes] = REPLY_CODES.exec(reason ?? '') ?? [];
  return codes === undefined
    ? 'asked for slower sending'
    : `replied ${codes}, which asks for slower sending`;
}

/** Returns the limit of the provider that mail waits for, or null when it does not wait for the provider. */
export function explainProviderWait(
  name: string,
  { state, reason, forMs, connectionsMax, connectionsOpen, isUplinkDown }: ProviderStateFacts,
): ProviderWait | null {
  const forS = forMs === null ? null : Math.max(1, Math.round(forMs / 1000));
  const time = forS === null ? '' : ` for another ${periodOf(forS)}`;
  switch (state) {
    case 'blocked': {
      const next = forS === null ? 'at intervals' : `in ${periodOf(forS)}`;
      const message = `${name} refuses all mail from an IP address of this service. One message is tried ${next}.`;
      return { limit: 'suspension', message };
    }
    case 'suspended': {
      const why = isUplinkDown
        ? 'no mail server answers this service, so its own network connection is down'
        : suspensionCause(reason);
      const message = `Deliveries to ${name} are suspended${time}, because ${why}.`;
      return { limit: 'suspension', message };
    }
    case 'slowed': {
      const connections = connectionsMax === 1 ? '1 connection' : `${connectionsMax} connections`;
      const message = `${name} ${repliedWith(reason)}: at most ${connections}${time}.`;
      return { limit: 'rate', message };
    }
    case 'full': {
      if (forS !== null) {
        const message = `${name} has had as many messages in a minute as its settings permit. The next one may start in ${periodOf(forS)}.`;
        return { limit: 'rate', message };
      }
      const message =
        connectionsMax === 1
          ? `The only connection allowed to ${name} is in use.`
          : `All ${connectionsOpen} connections to ${name} are in use, of ${connectionsMax} allowed.`;
      return { limit: 'connections', message };
    }
    case 'open':
      return null;
  }
}

/** Returns the state as shown by the API and the command line, where a provider that blocks us is `suspended`. */
export function publicState(state: ProviderState): Exclude<ProviderState, 'blocked'> {
  return state === 'blocked' ? 'suspended' : state;
}
