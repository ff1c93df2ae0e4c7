/**
 * One session with one mail server, ready for messages: made by smtp-client.ts, kept by the pool.
 * One message at a time, and at most one more announced behind it. After a message it can be used
 * again unless the server said or did something that leaves doubt; `reusable` knows.
 */
import { say, type Session } from './session.ts';
import { runTransaction } from './transaction.ts';
import type { Follower, SmtpTlsFacts, Transaction, TransactionResult } from './types.ts';

/** How long an announced message waits for the one before it; then it goes another way. */
const PATIENCE_MS = 5_000;

export class SmtpConnection {
  /** The server's name and the address it was reached at. */
  readonly facts: { host: string; address: string };
  /** Null: plain text. */
  readonly tls: SmtpTlsFacts | null;
  /** Transactions that reached the wire, whatever came of them. */
  messagesSent = 0;
  /** Called once when an idle connection ends: the server closed it, said 421 or spoke unasked. */
  onIdleClose: (() => void) | null = null;

  readonly #session: Session;
  #busy = false;
  /** Told when the message before an announced one has its result. */
  #onTurn: (() => void) | null = null;
  /** What was announced went another way: nothing more can be sent here. */
  #isSpent = false;

  constructor(
    session: Session,
    facts: { host: string; address: string },
    tls: SmtpTlsFacts | null,
  ) {
    this.#session = session;
    this.facts = facts;
    this.tls = tls;
    session.wire.onEnd = () => {
      if (!this.#busy) this.onIdleClose?.();
    };
  }

  /** Whether another message may be sent. False while one is on its way or announced. */
  get reusable(): boolean {
    const { wire, announced } = this.#session;
    return !this.#busy && !this.#isSpent && announced === null && wire.failure === null;
  }

  get isBusy(): boolean {
    return this.#busy;
  }

  /** Whether a message may be announced behind the one on its way. */
  get hasPipelining(): boolean {
    return this.#session.extensions.pipelining;
  }

  /** Whether a message was announced that has not begun: the connection is kept for it. */
  get hasAnnounced(): boolean {
    return this.#session.announced !== null;
  }

  /**
   * Sends one message to one recipient. Never rejects because of what the server does. Call only
   * when `reusable`, or with the transaction that was announced. An announced one whose turn does
   * not come within seconds fails in the phase `mail`: nothing of it was sent.
   * @param follower what may be announced behind it
   */
  async send(
    transaction: Transaction,
    follower: Follower | null = null,
  ): Promise<TransactionResult> {
    const { announced } = this.#session;
    if ((this.#busy || announced !== null) && announced !== transaction) {
      throw new Error('This connection is busy with another message.');
    }
    if (this.#busy && !(await this.#turn())) return this.#withdraw();
    this.#busy = true;
    try {
      const result = await runTransaction(this.#session, transaction, follower);
      if (!('local' in result)) this.messagesSent++;
      return result;
    } finally {
      this.#busy = false;
      if (this.#isSpent) this.destroy();
      this.#onTurn?.();
    }
  }

  /** @returns false when the message before takes too long */
  #turn(): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(
        () => {
          this.#onTurn = null;
          resolve(false);
        },
        Math.min(PATIENCE_MS, this.#session.timeouts.mail),
      );
      this.#onTurn = () => {
        clearTimeout(timer);
        this.#onTurn = null;
        resolve(true);
      };
    });
  }

  /** The server has its envelope and would take what comes next for it: the session ends. */
  #withdraw(): TransactionResult {
    this.#isSpent = true;
    this.#session.announced = null;
    const message = 'The message before it on this connection took too long.';
    const facts = { phase: 'mail', cause: 'closed', message } as const;
    return { kind: 'failed', ...facts, inDoubt: false, transcript: [`(${message})`] };
  }

  /** Says QUIT, waits a few seconds at most and closes. Never rejects. */
  async close(): Promise<void> {
    this.onIdleClose = null;
    if (this.reusable) {
      this.#busy = true;
      await say(this.#session, 'quit', { line: 'QUIT' });
    }
    this.destroy();
  }

  /** Drops the connection at once; a message on its way ends as failed. */
  destroy(): void {
    this.onIdleClose = null;
    this.#session.wire.fail('closed', 'The connection was dropped by us.');
  }
}
