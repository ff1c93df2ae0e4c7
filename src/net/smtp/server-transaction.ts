/**
 * One message at an SMTP server: MAIL, RCPT, DATA, each checked against the limits and the owner's
 * handlers. Every step gives the reply to be sent.
 */
import { readMail, readRcpt } from './server-commands.ts';
import { type Received, receiveContent } from './server-data.ts';
import type { Visit } from './server-admission.ts';
import type { ContentBudget, MinuteCounts } from './server-limits.ts';
import {
  answerOf,
  closing,
  type SmtpAnswer,
  type SmtpEnvelope,
  type SmtpServerLimits,
  type SmtpServerOptions,
  type SmtpSession,
} from './server-types.ts';
import type { SmtpServerWire } from './server-wire.ts';

export type SessionParts<User> = {
  options: SmtpServerOptions<User>;
  limits: SmtpServerLimits;
  visit: Visit;
  content: ContentBudget;
  /** Of each client, at MAIL. */
  messages: MinuteCounts;
  /** What the handlers see; the session keeps it up to date. */
  facts: SmtpSession<User>;
};

type Open = { envelope: SmtpEnvelope & { recipients: string[] }; wasRefused: boolean };

export const HELLO_FIRST = answerOf(503, '5.5.1', 'Say EHLO first');
export const BARE_LINE_END = closing(500, '5.5.2', 'A line ends with CR and LF, none stands alone');
const MAIL_FIRST = answerOf(503, '5.5.1', 'Say MAIL first');
const NO_ROOM = answerOf(452, '4.3.1', 'Too much is being received; try again in a moment');
const SENDER_OK = answerOf(250, '2.1.0', 'Ok');
const RECIPIENT_OK = answerOf(250, '2.1.5', 'Ok');

export class SmtpServerTransaction<User> {
  readonly #parts: SessionParts<User>;
  readonly #wire: SmtpServerWire;
  #open: Open | null = null;
  #messages = 0;

  constructor(wire: SmtpServerWire, parts: SessionParts<User>) {
    this.#wire = wire;
    this.#parts = parts;
  }

  get isOpen(): boolean {
    return this.#open !== null;
  }

  reset(): void {
    this.#open = null;
  }

  async mail(argument: string): Promise<SmtpAnswer> {
    const { options, facts, limits, content, messages } = this.#parts;
    const refused = this.#refusesMail();
    if (refused !== null) return refused;
    const mail = readMail(argument);
    if ('refused' in mail) return mail.refused;
    const sizeBytes = mail.sizeBytes ?? 0;
    const { sizeBytesMax, keptBytesMax } = options;
    if (keptBytesMax === undefined && sizeBytes > sizeBytesMax) return this.#tooLarge();
    if (!content.mayHold(Math.min(sizeBytes, keptBytesMax ?? sizeBytesMax))) return NO_ROOM;
    if (this.#messages >= limits.messagesPerSession) {
      return closing(421, '4.7.0', 'Enough messages for one session; open another');
    }
    if (!messages.add(facts.client, limits.messagesPerClientAndMinute)) {
      return answerOf(450, '4.7.1', 'Too many messages from your address; wait a minute');
    }
    const answer = (await options.handlers.onMail?.(facts, mail)) ?? null;
    if (answer !== null) return answer;
    this.#open = { envelope: { ...mail, recipients: [] }, wasRefused: false };
    return SENDER_OK;
  }

  #refusesMail(): SmtpAnswer | null {
    const { options, facts } = this.#parts;
    if (facts.helo === '') return HELLO_FIRST;
    if (this.#open !== null) return answerOf(503, '5.5.1', 'One message after the other');
    if (options.logIn === undefined || facts.user !== null) return null;
    if (facts.tls === null) return answerOf(530, '5.7.0', 'Say STARTTLS first, then AUTH');
    return answerOf(530, '5.7.0', 'Say AUTH first: mail is taken from who has logged in');
  }

  #tooLarge(): SmtpAnswer {
    const { sizeBytesMax } = this.#parts.options;
    return answerOf(552, '5.3.4', `A message may have at most ${sizeBytesMax} bytes`);
  }

  async rcpt(argument: string): Promise<SmtpAnswer> {
    const { options, facts, limits } = this.#parts;
    const open = this.#open;
    if (open === null) return MAIL_FIRST;
    const answer = await this.#refusesRecipient(open, argument, { options, facts, limits });
    open.wasRefused ||= answer !== null;
    return answer ?? RECIPIENT_OK;
  }

  async #refusesRecipient(
    { envelope }: Open,
    argument: string,
    { options, facts, limits }: Pick<SessionParts<User>, 'options' | 'facts' | 'limits'>,
  ): Promise<SmtpAnswer | null> {
    const read = readRcpt(argument, envelope.smtpUtf8);
    if ('refused' in read) return read.refused;
    if (envelope.recipients.length >= limits.recipientsPerMessage) {
      const max = limits.recipientsPerMessage;
      return answerOf(452, '4.5.3', `At most ${max} recipients for one message`);
    }
    const answer = await options.handlers.onRcpt(facts, read.address);
    if (answer === null) envelope.recipients.push(read.address);
    return answer;
  }

  /** @returns what is to be answered, or why nothing more can be */
  async data(argument: string): Promise<SmtpAnswer | { kind: 'over' | 'timeout' }> {
    const { options, limits, content, facts } = this.#parts;
    const open = this.#open;
    if (argument !== '') return answerOf(501, '5.5.4', 'DATA has no arguments');
    if (open === null) return MAIL_FIRST;
    if (open.envelope.recipients.length === 0) {
      if (open.wasRefused) return answerOf(554, '5.5.1', 'No recipient was taken');
      return answerOf(503, '5.5.1', 'Say RCPT first');
    }
    this.#open = null;
    this.#wire.reply(answerOf(354, null, 'Send the message, then a line with only a dot'));
    const { sizeBytesMax, keptBytesMax } = options;
    const received = await receiveContent(this.#wire, content, {
      client: facts.client,
      sizeBytesMax,
      keptBytesMax,
      spanMs: limits.dataTimeoutMs,
      timeoutMs: limits.messageTimeoutMs,
    });
    return this.#take(open.envelope, received);
  }

  #take(
    envelope: SmtpEnvelope,
    received: Received,
  ): SmtpAnswer | { kind: 'over' | 'timeout' } | Promise<SmtpAnswer> {
    switch (received.kind) {
      case 'message':
        return this.#handOver(envelope, received);
      case 'too_large':
        return this.#tooLarge();
      case 'no_room':
        return NO_ROOM;
      case 'endless':
        return { ...this.#tooLarge(), closes: true };
      case 'bare':
        return { ...BARE_LINE_END, code: 550 };
      case 'over':
      case 'timeout':
        return { kind: received.kind };
    }
  }

  async #handOver(
    envelope: SmtpEnvelope,
    { message, heldBytes }: Extract<Received, { kind: 'message' }>,
  ): Promise<SmtpAnswer> {
    const { options, facts, content, visit } = this.#parts;
    this.#messages += 1;
    visit.progressed();
    try {
      return await options.handlers.onMessage(facts, envelope, message);
    } finally {
      content.giveBack(heldBytes);
    }
  }
}
