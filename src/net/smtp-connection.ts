/**
 * One session with one mail server, ready for messages: made by smtp-client.ts, kept by the pool.
 * One message at a time. After a message it can be used again unless the server said or did
 * something that leaves doubt; `reusable` knows.
 *
 * Next: smtp-transaction.ts, the dialogue for one message.
 */
import { say, type Session } from './smtp-session.ts';
import { runTransaction } from './smtp-transaction.ts';
import type { SmtpTlsFacts, Transaction, TransactionResult } from './smtp-types.ts';

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

  /** Whether another message may be sent. False while one is on its way. */
  get reusable(): boolean {
    return !this.#busy && this.#session.wire.failure === null;
  }

  /**
   * Sends one message to one recipient. Never rejects because of what the server does. Call only
   * when `reusable`.
   */
  async send(transaction: Transaction): Promise<TransactionResult> {
    if (this.#busy) throw new Error('This connection is busy with another message.');
    this.#busy = true;
    try {
      const result = await runTransaction(this.#session, transaction);
      if (!('local' in result)) this.messagesSent++;
      return result;
    } finally {
      this.#busy = false;
    }
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
