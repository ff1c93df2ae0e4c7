/** What an attempt (attempt.ts) wants of the connections (connections.ts), and what it gets. */
import type { DaneExpectation } from '../net/tls/dane.ts';
import type { ConnectResult, SmtpTlsMode, Transaction } from '../net/smtp/client.ts';
import type { Slot } from './connection-pool.ts';

export type Target = {
  provider: string;
  /** MX host name. */
  host: string;
  address: string;
  tls: SmtpTlsMode;
  reducedHello?: boolean;
  /** TLS has worked there lately: where the mode says opportunistic, plain text is not for this attempt. */
  expectsTls?: boolean;
  /** With the mode `dane`; sessions of other keys were opened under other records. */
  dane?: DaneExpectation;
  daneKey?: string;
};

/** What went under a weaker rule never carries what goes under a stronger one. */
export function keyOf({ host, address, tls, daneKey = '' }: Target): string {
  return `${host} ${address} ${tls} ${daneKey}`;
}

/** Nobody was asked, and nobody is to be for so long. */
export type Postponed = { kind: 'postponed'; delayMs: number };
/**
 * `source`: our address; `''` for the system's choice. `isCrowded`: refused because we have others
 * open there, or so it says; one of them may carry the message. `announced`: the session is busy,
 * and the message goes right behind the one on it.
 */
export type Acquired =
  | (ConnectResult & {
      source: string;
      reused?: boolean;
      isCrowded?: boolean;
      announced?: boolean;
    })
  | Postponed;

export function usedAgain({ connection, pool }: Slot): Acquired & { kind: 'ready' } {
  return { kind: 'ready', connection, source: pool.source, reused: true };
}

/** The message to be sent, and how long it may wait. */
export type SendRequest = {
  transaction: Transaction;
  /** One that is in a hurry asks even there where nobody answered a moment ago. */
  patienceMs: number;
  /** It was announced before, in vain. */
  isAlone: boolean;
};

/** Nobody had anything to say: that is about the server, whatever the message. */
export function isSilence(result: { kind: string; phase?: string }): boolean {
  return result.kind === 'failed' && /^(?:connect|greeting|ehlo)$/.test(result.phase ?? '');
}
