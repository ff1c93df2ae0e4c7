/**
 * The state shared by the handshake and the transactions of a session, its transcript, and the only
 * functions that write commands.
 */
import type { SmtpPhase, SmtpReply } from '../../mail/replies/smtp-reply.ts';
import type { SmtpTimeouts, SmtpTranscript, Transaction } from './types.ts';
import { type ReplyRead, isFailure, type SmtpWire } from './wire.ts';

export type Session = {
  wire: SmtpWire;
  transcript: Transcript;
  timeouts: SmtpTimeouts;
  extensions: SmtpExtensions;
  /** A transaction was not completed: RSET precedes the next one (RFC 5321 §4.1.1.5). */
  needsReset: boolean;
  /** The envelope of this transaction was sent with the dot of the previous one; its replies are due. */
  announced: Transaction | null;
};

/** Sends one command and reads its reply; the transcript has `shown` in place of a secret. */
export function sendCommand(
  session: Session,
  phase: SmtpPhase,
  { line, shown = line }: { line: string; shown?: string },
): Promise<ReplyRead> {
  session.transcript.client(shown);
  session.wire.write([`${line}\r\n`], 1);
  return readReply(session, phase);
}

/** Reads the next reply and adds it to the transcript. */
export async function readReply(
  session: Session,
  phase: SmtpPhase,
  timeoutMs = session.timeouts[phase],
): Promise<ReplyRead> {
  const read = await session.wire.nextReply(timeoutMs);
  if (!isFailure(read)) session.transcript.server(read);
  return read;
}

/** The extensions in a server's reply to EHLO (RFC 5321 §4.1.1.1). */
export type SmtpExtensions = {
  pipelining: boolean;
  startTls: boolean;
  smtpUtf8: boolean;
  /** 8BITMIME (RFC 6152). */
  eightBitMime: boolean;
  /** `sizeBytesMax` 0: the server supports SIZE without a limit (RFC 1870). */
  size: { sizeBytesMax: number } | null;
  authMechanisms: readonly string[];
};

/** For a server that supports HELO only. */
export const NO_EXTENSIONS: SmtpExtensions = {
  pipelining: false,
  startTls: false,
  smtpUtf8: false,
  eightBitMime: false,
  size: null,
  authMechanisms: [],
};

export function extensionsOf(reply: SmtpReply): SmtpExtensions {
  const offered = new Map<string, readonly string[]>();
  // The first line is a greeting. Some servers write `AUTH=LOGIN`, as before RFC 2554.
  for (const line of reply.message.toUpperCase().split('\n').slice(1)) {
    const [keyword = '', ...parameters] = line.split(/[ =]+/);
    offered.set(keyword, [...(offered.get(keyword) ?? []), ...parameters]);
  }
  const size = offered.get('SIZE');
  return {
    pipelining: offered.has('PIPELINING'),
    startTls: offered.has('STARTTLS'),
    smtpUtf8: offered.has('SMTPUTF8'),
    eightBitMime: offered.has('8BITMIME'),
    size: size === undefined ? null : { sizeBytesMax: sizeOf(size[0]) },
    authMechanisms: offered.get('AUTH') ?? [],
  };
}

function sizeOf(text: string | undefined): number {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : 0;
}

/*
 * An address that contains a bracket or a line end could inject a command (GHSA-c7w3-x93f-qmm8,
 * GHSA-vvjj-xcjg-gr5g). All text in commands passes `pathCommand` or `plainCommand`, which throw on such
 * text, because callers have to check it before.
 */
const ASCII_PATH = /^[^\0-\x1f\x7f-\uffff<>]*$/;
const UTF8_PATH = /^[^\0-\x1f\x7f-\x9f\u2028\u2029<>]*$/;
const ARGUMENT = /^[!-~]+( [!-~]+)*$/;

/** Whether an address can be written between `<` and `>` in MAIL FROM and RCPT TO. */
export function isWritablePath(address: string, smtpUtf8: boolean): boolean {
  if (ASCII_PATH.test(address)) return true;
  return smtpUtf8 && UTF8_PATH.test(address) && address.isWellFormed();
}

/** `MAIL FROM:<address>` or `RCPT TO:<address>` without the line end. */
export function pathCommand(
  verb: 'MAIL FROM' | 'RCPT TO',
  address: string,
  smtpUtf8: boolean,
): string {
  if (!isWritablePath(address, smtpUtf8)) {
    throw new Error(`An address that cannot be written in SMTP: ${JSON.stringify(address)}`);
  }
  return `${verb}:<${address}>`;
}

/** A command with printable ASCII arguments without the line end: `EHLO mail.acme.com`. */
export function plainCommand(verb: string, argument: string): string {
  if (!ARGUMENT.test(argument)) {
    throw new Error(`An argument that cannot be written in SMTP: ${JSON.stringify(argument)}`);
  }
  return `${verb} ${argument}`;
}

const CHARACTERS_MAX = 8000;

/**
 * The dialogue of one attempt, as the API shows it. Its size is limited. Lines are collected without
 * joining, since a transcript is kept for every message.
 */
export class Transcript {
  #lines: string[] = [];
  #room = CHARACTERS_MAX;

  client(line: string): void {
    this.#add(`C: ${line}`);
  }

  server(reply: SmtpReply): void {
    const { code, enhancedCode, message } = reply;
    const prefix = enhancedCode === null ? '' : `${enhancedCode} `;
    if (!message.includes('\n')) {
      this.#add(`S: ${code} ${prefix}${message}`);
      return;
    }
    const lines = message.split('\n');
    const last = lines.length - 1;
    lines.forEach((line, i) => this.#add(`S: ${code}${i < last ? '-' : ' '}${prefix}${line}`));
  }

  /** Adds an event of the connection that is neither a command nor a reply. */
  note(text: string): void {
    this.#add(`(${text})`);
  }

  /** Returns the lines and starts a new transcript. */
  take(): SmtpTranscript {
    const lines = this.#lines;
    this.#lines = [];
    this.#room = CHARACTERS_MAX;
    return lines;
  }

  #add(line: string): void {
    if (this.#room <= 0) return;
    this.#room -= line.length + 1;
    this.#lines.push(this.#room > 0 ? line : '(the rest is left out)');
  }
}
