/**
 * One session with a mail server, from the permit for its connection until the connection is closed.
 *
 * SESSION_TRANSITIONS lists the events that each state allows. Any other event is a bug and throws. docs/delivery.md
 * draws the table. At most one delivery uses a session, plus a second one while its message is announced.
 *
 * The pool chooses the next message on a session. Right before the final dot of the current message, the request for it
 * goes up:
 *
 *     net/smtp/client-transaction.ts   asks if the server pipelines, and says which messages it would take
 *     net/smtp/client-connection.ts    passes the request on
 *     this session (`send`)            asks its owner with `takeAnnounced`, and counts the second user
 *     session-pool.ts                  takes the first waiting message for the server that may follow
 */
import type { SmtpConnection } from '../../net/smtp/client-connection.ts';
import type { Transaction, TransactionResult } from '../../net/smtp/client-session.ts';
import { nextState, type Transitions } from '../../lib/state-machine.ts';

export type SessionState =
  | 'connecting'
  | 'greeted'
  | 'idle'
  | 'busy'
  | 'announced'
  | 'closing'
  | 'closed';
type SessionEvent =
  | 'greeted'
  | 'failed'
  | 'sent'
  | 'announced'
  | 'kept'
  | 'taken'
  | 'ended'
  | 'closed';

export const SESSION_TRANSITIONS: Transitions<SessionState, SessionEvent> = {
  connecting: { greeted: 'greeted', failed: 'closed' },
  greeted: { sent: 'busy', kept: 'idle', ended: 'closing' },
  idle: { taken: 'greeted', ended: 'closing' },
  busy: { announced: 'announced', kept: 'idle', ended: 'closing' },
  // The envelope of the next message is sent with the final dot of the current one (decision 0015).
  announced: { sent: 'busy', ended: 'closing' },
  // The permit is in use until the server has replied to QUIT, because the provider counts the connection until then.
  closing: { closed: 'closed' },
  closed: {},
};

export type SessionOwner = {
  readonly source: string;
  /** Returns a waiting message that follows the current one, or null when none does. */
  takeAnnounced(
    session: SmtpSession,
    mayFollow: (next: Transaction) => boolean,
  ): Transaction | null;
  /** Called when a delivery has its result. Others may still use the session. */
  onReleased(session: SmtpSession, isUsable: boolean): void;
  onServerClosed(session: SmtpSession): void;
  onClosed(session: SmtpSession): void;
};

type SessionLimits = {
  messagesMax: number;
  /** Messages that the permit allows while the provider is paced, or null without such a limit. */
  allowance: number | null;
};

export class SmtpSession {
  /** Server and TLS rule. Only messages with the same key may use the session. */
  readonly key: string;
  readonly limits: SessionLimits;
  idleSinceMs = 0;
  readonly #owner: SessionOwner;
  #state: SessionState = 'connecting';
  #connection: SmtpConnection | null = null;
  #users = 1;

  constructor(key: string, { owner, limits }: { owner: SessionOwner; limits: SessionLimits }) {
    this.key = key;
    this.limits = limits;
    this.#owner = owner;
  }

  get state(): SessionState {
    return this.#state;
  }

  get source(): string {
    return this.#owner.source;
  }

  get isInUse(): boolean {
    return this.#users > 0;
  }

  get isOpen(): boolean {
    return this.#connection !== null && this.#state !== 'closing' && this.#state !== 'closed';
  }

  get tls(): SmtpConnection['tls'] {
    return this.#connection?.tls ?? null;
  }

  get host(): string {
    return this.#connection!.server.host;
  }

  get hasPipelining(): boolean {
    return this.isOpen && this.#connection!.hasPipelining;
  }

  get isReusable(): boolean {
    return this.#connection?.isReusable === true;
  }

  get messagesLeft(): number {
    return this.limits.messagesMax - this.#messagesSent;
  }

  get allowanceLeft(): number | null {
    const { allowance } = this.limits;
    return allowance && Math.max(0, allowance - this.#messagesSent);
  }

  markGreeted(connection: SmtpConnection): void {
    this.#applyEvent('greeted');
    this.#connection = connection;
    connection.onIdleClose = () => {
      if (this.#state === 'idle') this.#owner.onServerClosed(this);
    };
  }

  markFailed(): void {
    this.#applyEvent('failed');
    this.#owner.onClosed(this);
  }

  reuse(): this {
    this.#applyEvent('taken');
    this.#users = 1;
    return this;
  }

  /** Sends the message of the delivery that uses the session. Waiting messages may be announced behind it. */
  async send(transaction: Transaction): Promise<TransactionResult> {
    this.#applyEvent('sent');
    return this.#connection!.send(transaction, (mayFollow) => {
      const next = this.#owner.takeAnnounced(this, mayFollow);
      if (next === null) return null;
      this.#applyEvent('announced');
      this.#users += 1;
      return next;
    });
  }

  /**
   * Ends the use by a delivery that has its result.
   * @param isUsable whether the session may carry another message
   */
  release(isUsable = true): void {
    this.#users -= 1;
    this.#owner.onReleased(this, isUsable);
  }

  keep(nowMs: number): void {
    this.#applyEvent('kept');
    this.idleSinceMs = nowMs;
  }

  /** Sends QUIT and closes the connection. Never rejects. */
  async end(): Promise<void> {
    this.#applyEvent('ended');
    await this.#connection!.close();
    this.#applyEvent('closed');
    this.#owner.onClosed(this);
  }

  get #messagesSent(): number {
    return this.#connection?.messagesSent ?? 0;
  }

  #applyEvent(event: SessionEvent): void {
    this.#state = nextState(SESSION_TRANSITIONS, this.#state, event);
  }
}
