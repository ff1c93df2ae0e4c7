/** A session at a mail server that is ready for messages. The connection pool (delivery/shaping/) keeps it. */
import {
  type PickNext,
  sendCommand,
  type Session,
  type SmtpTlsFacts,
  type Transaction,
  type TransactionResult,
} from './client-session.ts';
import { runTransaction } from './client-transaction.ts';

/** Milliseconds that an announced message waits for the previous one. Then it needs another connection. */
const ANNOUNCED_WAIT_MS = 5_000;

/**
 * Sends one message at a time; one more can be announced. The connection can be reused unless the server left its state
 * uncertain.
 */
export class SmtpConnection {
  readonly server: { host: string; address: string };
  /** Null: plain text. */
  readonly tls: SmtpTlsFacts | null;
  messagesSent = 0;
  /** Called once when an idle connection ends: the server closed it, or sent an unrequested reply. */
  onIdleClose: (() => void) | null = null;

  readonly #session: Session;
  #isBusy = false;
  /** Called when the message before an announced one has a result. */
  #onTurn: (() => void) | null = null;
  /** The announced message was not sent in time, so the session cannot be used any more. */
  #isUnusable = false;

  constructor(
    session: Session,
    server: { host: string; address: string },
    tls: SmtpTlsFacts | null,
  ) {
    this.#session = session;
    this.server = server;
    this.tls = tls;
    session.wire.onEnd = () => {
      if (!this.#isBusy) this.onIdleClose?.();
    };
  }

  /** True while another message may be sent: none is being sent or announced. */
  get isReusable(): boolean {
    const { wire, announced } = this.#session;
    return !this.#isBusy && !this.#isUnusable && announced === null && wire.failure === null;
  }

  get isBusy(): boolean {
    return this.#isBusy;
  }

  /** True if a message may be announced while another is being sent. */
  get hasPipelining(): boolean {
    return this.#session.extensions.pipelining;
  }

  /** True while the connection is reserved for an announced message that has not begun. */
  get hasAnnounced(): boolean {
    return this.#session.announced !== null;
  }

  /**
   * Sends one message to one recipient. Never rejects because of the server. The connection must be `isReusable`, or
   * the transaction the announced one. An announced one that cannot begin within ANNOUNCED_WAIT_MS fails in the phase
   * `mail` and is not sent.
   * @param pickNext returns the transaction to announce after this one
   */
  async send(
    transaction: Transaction,
    pickNext: PickNext | null = null,
  ): Promise<TransactionResult> {
    const { announced } = this.#session;
    if ((this.#isBusy || announced !== null) && announced !== transaction) {
      throw new Error('This connection is busy with another message.');
    }
    if (this.#isBusy && !(await this.#waitForTurn())) return this.#failAnnounced();
    this.#isBusy = true;
    try {
      const result = await runTransaction(this.#session, transaction, pickNext);
      if (!('local' in result)) this.messagesSent += 1;
      return result;
    } finally {
      this.#isBusy = false;
      if (this.#isUnusable) this.destroy();
      this.#onTurn?.();
    }
  }

  /**
   * Waits for the end of the previous message.
   * @returns false when that takes longer than ANNOUNCED_WAIT_MS
   */
  #waitForTurn(): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(
        () => {
          this.#onTurn = null;
          resolve(false);
        },
        Math.min(ANNOUNCED_WAIT_MS, this.#session.timeouts.mail),
      );
      this.#onTurn = () => {
        clearTimeout(timer);
        this.#onTurn = null;
        resolve(true);
      };
    });
  }

  /** Ends the session: the server has the envelope, and would reply further content as its message. */
  #failAnnounced(): TransactionResult {
    this.#isUnusable = true;
    this.#session.announced = null;
    const message = 'The previous message on this connection took too long.';
    const ending = { phase: 'mail', cause: 'closed', message } as const;
    return { kind: 'failed', ...ending, inDoubt: false, transcript: [`(${message})`] };
  }

  /** Sends QUIT, waits up to 5 s, and closes. Never rejects. */
  async close(): Promise<void> {
    this.onIdleClose = null;
    if (this.isReusable) {
      this.#isBusy = true;
      await sendCommand(this.#session, 'quit', { line: 'QUIT' });
    }
    this.destroy();
  }

  /** Closes the connection at once; a message in progress fails. */
  destroy(): void {
    this.onIdleClose = null;
    this.#session.wire.fail('closed', 'We closed the connection.');
  }
}
