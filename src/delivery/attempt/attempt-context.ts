/**
 * The contract of three files: live-attempt.ts creates the context of an attempt, hosts.ts passes it on for each
 * address, and host-attempt.ts tries one address with it.
 *
 * route/tls-rules.ts sets the fields of `TlsForAttempt`. hosts.ts reads `ruleFor`, host-attempt.ts reads `tlsMemory`,
 * and both call `onTls`. live-attempt.ts sets all other fields.
 */
import type { Transaction, TransactionResult } from '../../net/smtp/client.ts';
import type { AttemptBlocks } from '../blocks/attempt-blocks.ts';
import type { TlsForAttempt } from '../route/tls-rules.ts';
import type { PhaseTimer } from './phase-timer.ts';
import type { Unavailable } from '../shaping/smtp-connections.ts';
import type { SlotUse } from '../memory/slots.ts';
import type { Via } from './outcome.ts';

export type Send = () => Promise<TransactionResult>;

export type AttemptContext = TlsForAttempt & {
  /** host-attempt.ts sends it. hosts.ts reads it to check blocks and to find idle sessions. */
  transaction: Transaction;
  /**
   * host-attempt.ts calls it when a server is ready. It loads a large message, calls `send`, and drops the message.
   * null: the message is in memory.
   */
  withMessage: ((send: Send) => Promise<TransactionResult | Unavailable>) | null;
  /**
   * Milliseconds until the message expires. hosts.ts still tries a host that is skipped for longer than this.
   * host-attempt.ts passes it to the connections.
   */
  untilExpiryMs: number;
  /**
   * live-attempt.ts sets `startedMs`, which `hasUplinkRecovered` reads. host-attempt.ts sets `server` before the
   * message is sent, because an attempt may be ended without a result. Then live-attempt.ts reads it.
   */
  progress: { startedMs: number; server: { via: Via; source: string } };
  /**
   * hosts.ts calls it before each server. It returns the block that forbids a try of the server, or null when there is
   * none.
   */
  checkServer: AttemptBlocks['checkServer'];
  /**
   * hosts.ts and host-attempt.ts read whether the attempt is given up. host-attempt.ts marks when a server has
   * greeted.
   */
  slot: SlotUse | undefined;
  /** live-attempt.ts times DNS, and the connections all other phases. */
  phases?: PhaseTimer | undefined;
};
