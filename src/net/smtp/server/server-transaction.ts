/**
 * One message at an SMTP server: MAIL, RCPT, DATA. Each step is checked against the limits and the handlers, and
 * returns the reply to send. server-content.ts receives the content.
 */
import type { RcptDsn } from '../../../mail/dsn-parameters.ts';
import { readMail, readRcpt } from './server-commands.ts';
import { receiveContent, type ReceiveResult } from './server-content.ts';
import type { AdmittedConnection, ContentBudget, MinuteCounts } from './server-limits.ts';
import {
  serverReply,
  closingReply,
  type ServerReply,
  type SmtpEnvelope,
  type SmtpServerLimits,
  type SmtpSessionOptions,
  type SmtpSession,
} from './server-types.ts';
import type { SmtpServerWire } from './server-wire.ts';

export type SessionContext<User> = {
  options: SmtpSessionOptions<User>;
  limits: SmtpServerLimits;
  connection: AdmittedConnection;
  content: ContentBudget;
  /** Messages per client, counted at MAIL. */
  messages: MinuteCounts;
  facts: SmtpSession<User>;
};

type OpenTransaction = {
  envelope: SmtpEnvelope & { recipients: string[]; recipientDsn?: Map<string, RcptDsn> };
  hasRefusedRecipient: boolean;
  recipientsOverLimit: number;
};

/**
 * A pipelining client sends all recipients before it reads that there are too many, and sends the refused ones with
 * another message (RFC 5321 §4.5.3.1.10). Only more of them than this count as errors.
 */
const EXCUSED_RECIPIENTS_MAX = 1_000;

export const HELLO_FIRST = serverReply(503, '5.5.1', 'Say EHLO first');
export const BARE_LINE_END = closingReply(
  500,
  '5.5.2',
  'A line must end with CRLF; a single CR or LF is not allowed',
);
const MAIL_FIRST = serverReply(503, '5.5.1', 'Say MAIL first');
const NO_CAPACITY = serverReply(452, '4.3.1', 'Too much is being received; try again in a moment');
const SENDER_OK = serverReply(250, '2.1.0', 'Ok');
const RECIPIENT_OK = serverReply(250, '2.1.5', 'Ok');

export class SmtpServerTransaction<User> {
  readonly #context: SessionContext<User>;
  readonly #wire: SmtpServerWire;
  #open: OpenTransaction | null = null;
  #messages = 0;

  constructor(wire: SmtpServerWire, context: SessionContext<User>) {
    this.#wire = wire;
    this.#context = context;
  }

  get isOpen(): boolean {
    return this.#open !== null;
  }

  reset(): void {
    this.#open = null;
  }

  async mail(argument: string): Promise<ServerReply> {
    const { options, facts, limits, content, messages } = this.#context;
    const refused = this.#mailRefusal();
    if (refused !== null) return refused;
    const mail = readMail(argument, { dsn: options.offersDsn === true });
    if ('refused' in mail) return mail.refused;
    const sizeBytes = mail.sizeBytes ?? 0;
    const { sizeBytesMax, keptBytesMax } = options;
    if (keptBytesMax === undefined && sizeBytes > sizeBytesMax) return this.#tooLargeReply();
    if (!content.canHold(Math.min(sizeBytes, keptBytesMax ?? sizeBytesMax))) return NO_CAPACITY;
    if (this.#messages >= limits.messagesPerSession) {
      return closingReply(421, '4.7.0', 'Too many messages in this session; open another');
    }
    if (!messages.countUpTo(facts.client, limits.messagesPerClientAndMinute)) {
      return serverReply(450, '4.7.1', 'Too many messages from your address; wait a minute');
    }
    const reply = (await options.handlers.onMail?.(facts, mail)) ?? null;
    if (reply !== null) return reply;
    this.#open = {
      envelope: { ...mail, recipients: [] },
      hasRefusedRecipient: false,
      recipientsOverLimit: 0,
    };
    return SENDER_OK;
  }

  #mailRefusal(): ServerReply | null {
    const { options, facts } = this.#context;
    if (facts.helo === '') return HELLO_FIRST;
    if (this.#open !== null) return serverReply(503, '5.5.1', 'A message is already open');
    if (options.logIn === undefined || facts.user !== null) return null;
    if (facts.tls === null) return serverReply(530, '5.7.0', 'Say STARTTLS first, then AUTH');
    return serverReply(530, '5.7.0', 'Say AUTH first: mail is accepted after log-in only');
  }

  #tooLargeReply(): ServerReply {
    const { sizeBytesMax } = this.#context.options;
    return serverReply(552, '5.3.4', `A message may have at most ${sizeBytesMax} bytes`);
  }

  async rcpt(argument: string): Promise<ServerReply> {
    const { options, facts, limits } = this.#context;
    const open = this.#open;
    if (open === null) return MAIL_FIRST;
    const reply = await this.#addRecipient(open, argument, { options, facts, limits });
    open.hasRefusedRecipient ||= reply !== null;
    return reply ?? RECIPIENT_OK;
  }

  async #addRecipient(
    open: OpenTransaction,
    argument: string,
    { options, facts, limits }: Pick<SessionContext<User>, 'options' | 'facts' | 'limits'>,
  ): Promise<ServerReply | null> {
    const { envelope } = open;
    const { smtpUtf8 } = envelope;
    const read = readRcpt(argument, { smtpUtf8, dsn: options.offersDsn === true });
    if ('refused' in read) return read.refused;
    const max = limits.recipientsPerMessage;
    if (envelope.recipients.length >= max) {
      open.recipientsOverLimit += 1;
      const text = `At most ${max} recipients for one message; send it to the others again`;
      return {
        ...serverReply(452, '4.5.3', text),
        isExcused: open.recipientsOverLimit <= EXCUSED_RECIPIENTS_MAX,
      };
    }
    const reply = await options.handlers.onRcpt(facts, read.address);
    if (reply !== null) return reply;
    if (read.dsn !== undefined && !envelope.recipients.includes(read.address)) {
      envelope.recipientDsn ??= new Map();
      envelope.recipientDsn.set(read.address, read.dsn);
    }
    envelope.recipients.push(read.address);
    return null;
  }

  /** Receives the message and has the handler accept it. Returns the reply, or why none can be sent. */
  async data(argument: string): Promise<ServerReply | { kind: 'disconnected' | 'timeout' }> {
    const { options, limits, content, facts } = this.#context;
    const open = this.#open;
    if (argument !== '') return serverReply(501, '5.5.4', 'DATA has no arguments');
    if (open === null) return MAIL_FIRST;
    if (open.envelope.recipients.length === 0) {
      if (open.hasRefusedRecipient) return serverReply(554, '5.5.1', 'No recipient was accepted');
      return serverReply(503, '5.5.1', 'Say RCPT first');
    }
    this.#open = null;
    this.#wire.reply(serverReply(354, null, 'Send the message, then a line with only a dot'));
    const { sizeBytesMax, keptBytesMax } = options;
    const received = await receiveContent(this.#wire, content, {
      client: facts.client,
      sizeBytesMax,
      keptBytesMax,
      intervalMs: limits.dataTimeoutMs,
      timeoutMs: limits.messageTimeoutMs,
    });
    return this.#replyTo(open.envelope, received);
  }

  #replyTo(
    envelope: SmtpEnvelope,
    received: ReceiveResult,
  ): ServerReply | { kind: 'disconnected' | 'timeout' } | Promise<ServerReply> {
    switch (received.kind) {
      case 'message':
        return this.#deliver(envelope, received);
      case 'too_large':
        return this.#tooLargeReply();
      case 'no_capacity':
        return NO_CAPACITY;
      case 'endless':
        return { ...this.#tooLargeReply(), closes: true };
      case 'bare':
        return { ...BARE_LINE_END, code: 550 };
      case 'disconnected':
      case 'timeout':
        return { kind: received.kind };
    }
  }

  async #deliver(
    envelope: SmtpEnvelope,
    { message, usedBytes }: Extract<ReceiveResult, { kind: 'message' }>,
  ): Promise<ServerReply> {
    const { options, facts, content, connection } = this.#context;
    this.#messages += 1;
    connection.recordMessage();
    try {
      return await options.handlers.onMessage(facts, envelope, message);
    } finally {
      content.release(usedBytes);
    }
  }
}
