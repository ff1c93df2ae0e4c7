/**
 * State that the handshake (client.ts) and the transactions (client-transaction.ts) of a session share: options,
 * timeouts, results, the transcript, and the only functions that write commands.
 *
 * Failures are of two kinds. `replied`: the server refused, and its reply decides. `failed`: there was no usable
 * reply (timeout, reset, garbage, a bad certificate). Then the phase decides whether the message may have been
 * delivered.
 */
import type { SmtpFailureCause, SmtpPhase, SmtpReply } from '../../mail/replies/smtp-reply.ts';
import type { DsnParameters } from '../../mail/dsn-parameters.ts';
import type { DaneExpectation } from '../tls/dane.ts';
import { type ReplyOrFailure, isFailure, type SmtpWire, type TlsResult } from './client-wire.ts';

/** Lines `S: …` and `C: …` of one attempt, at most 8 KB, without message content or passwords. */
export type SmtpTranscript = readonly string[];

export type SmtpTimeouts = Readonly<Record<SmtpPhase, number>>;

/** RFC 5321 §4.5.3.2, with Postfix's 30 s for connecting. `body` applies to each chunk of the message. */
export const SMTP_TIMEOUTS_MS: SmtpTimeouts = {
  connect: 30_000,
  greeting: 300_000,
  ehlo: 300_000,
  starttls: 120_000,
  tls: 30_000,
  auth: 120_000,
  mail: 300_000,
  rcpt: 300_000,
  data_command: 120_000,
  body: 180_000,
  data: 600_000,
  rset: 20_000,
  quit: 5_000,
};
export const NO_EXTENSIONS: SmtpExtensions = {
  pipelining: false,
  startTls: false,
  smtpUtf8: false,
  eightBitMime: false,
  dsn: false,
  size: null,
  authMechanisms: [],
};
/**
 * An address with a bracket outside of a quoted local part, or with a line end, could inject a command
 * (GHSA-c7w3-x93f-qmm8, GHSA-vvjj-xcjg-gr5g). All text in commands passes `pathCommand` or `plainCommand`. They throw
 * on such text, because the caller must have checked it.
 */
const ASCII_PATH = /^(?:"(?:[ !#-[\]-~]|\\[ -~])*"(?=@))?[^\0-\x1f\x7f-\uffff<>"]*$/;
const UTF8_PATH =
  /^(?:"(?:[ !#-[\]-~\xa0-\u2027\u202a-\uffff]|\\[ -~])*"(?=@))?[^\0-\x1f\x7f-\x9f\u2028\u2029<>"]*$/;
const ARGUMENT = /^[!-~]+( [!-~]+)*$/;
const TRANSCRIPT_CHARACTERS_MAX = 8_000;

/** Returns SMTP_TIMEOUTS_MS with at most `maxMs` per phase. */
export function timeoutsWithin(maxMs: number): SmtpTimeouts {
  const phases = Object.entries(SMTP_TIMEOUTS_MS) as [SmtpPhase, number][];
  const bounded = phases.map(([phase, ms]) => [phase, Math.min(ms, maxMs)] as const);
  return Object.fromEntries(bounded) as SmtpTimeouts;
}

/**
 * The required protection:
 * - `off`: plain text, also for the retry after a failed handshake.
 * - `opportunistic`: STARTTLS if offered, with any certificate.
 * - `required`: TLS, with any certificate.
 * - `enforced`: a certificate that is valid for `host`.
 * - `dane`: a certificate that matches `dane`.
 * The last three send nothing otherwise.
 */
export type SmtpTlsMode = 'off' | 'opportunistic' | 'required' | 'enforced' | 'dane';

/** The connection is open; the TLS handshake began, ended, successfully or not. */
export type SmtpOpeningStep = 'connected' | 'tls_begun' | 'tls_ended';

export type SmtpOptions = {
  /** The MX's name, not the recipient's domain, for SNI and the certificate. */
  host: string;
  /** The IP address to connect to, which the caller has checked. */
  address: string;
  port: number;
  localAddress?: string | undefined;
  /** The fully qualified name of this host. */
  heloName: string;
  /** TLS from the first byte (port 465). */
  implicitTls?: boolean;
  tls: SmtpTlsMode;
  /** Required for the mode `dane`. */
  dane?: DaneExpectation | undefined;
  /** Uses a small ClientHello, for servers that fail on OpenSSL's default. */
  reducedHello?: boolean | undefined;
  /** Credentials for PLAIN or LOGIN, sent in plain text only to a loopback address. */
  auth?: { user: string; pass: string } | undefined;
  timeouts?: Partial<SmtpTimeouts>;
  /** Limit on the phase `connect`. */
  connectMaxMs?: number | undefined;
  signal?: AbortSignal | undefined;
  /** Called at each step of opening the session that took place, so that the caller can time it. */
  onStep?: ((step: SmtpOpeningStep) => void) | undefined;
  /** PEM of the only trusted authority (tests). */
  ca?: string | undefined;
};

export type SmtpFailure = {
  kind: 'failed';
  phase: SmtpPhase;
  cause: SmtpFailureCause;
  /** One sentence for the operator. */
  message: string;
  /** For the cause `tls`. */
  tlsResult?: TlsResult;
  /** Our own address (`localAddress`) has no route; another one may have. */
  isSourceProblem?: true;
  transcript: SmtpTranscript;
};

/**
 * The protection of a connection. `verified`: the certificate has a valid chain and name, or matches DANE.
 * `problem`: why it is not verified, in a sentence. `result`: the same for TLS reports.
 */
export type SmtpTlsFacts = {
  version: string;
  cipher: string;
  verified: boolean;
  problem: string | null;
  result: TlsResult;
};

export type Transaction = {
  /** The return path; `''` is the null reverse-path. */
  envelopeFrom: string;
  recipient: string;
  /** The message with CRLF line ends, not dot-stuffed. Several pieces if messages share some of them. */
  message: Buffer | readonly Buffer[];
  /** The message or an address needs SMTPUTF8 (RFC 6531). */
  smtpUtf8: boolean;
  /** The message contains octets above 127, declared to servers with 8BITMIME (RFC 6152). */
  is8Bit?: boolean | undefined;
  /** Parameters for servers with DSN; absent: nothing was asked for. */
  dsn?: DsnParameters | undefined;
  /**
   * Called before DATA and before the final dot. `false` closes the connection without the dot, so that the server
   * discards the message. The dialogue waits for a pending promise. Servers allow minutes (RFC 5321 §4.5.3.2.7).
   */
  mayProceed: (step: 'data_command' | 'data') => boolean | Promise<boolean>;
};

/**
 * Called right before the dot. Returns the next message for this session, whose envelope is then written with the
 * dot (RFC 2920 §3.1), or null when there is none.
 * @param mayAnnounce returns whether the server supports that message and it may be sent
 */
export type PickNext = (mayAnnounce: (next: Transaction) => boolean) => Transaction | null;

export type TransactionResult =
  | {
      kind: 'replied';
      phase: 'mail' | 'rcpt' | 'data_command' | 'data';
      reply: SmtpReply;
      transcript: SmtpTranscript;
      /** Refused here because of the server's extensions; nothing was sent. */
      local?: true;
      /** The server has DSN and got the parameters. */
      hasDsn?: true;
    }
  | (SmtpFailure & {
      /** The dot was written but no reply came, so the message may have been delivered. */
      inDoubt: boolean;
    });

export type Session = {
  wire: SmtpWire;
  transcript: Transcript;
  timeouts: SmtpTimeouts;
  extensions: SmtpExtensions;
  /** A transaction was not completed, so RSET precedes the next one (RFC 5321 §4.1.1.5). */
  needsReset: boolean;
  /** The transaction whose envelope was sent with the previous dot. Its replies are due. */
  announced: Transaction | null;
};

/** Sends a command and reads its reply. The transcript shows `masked` instead of a line with a secret. */
export function sendCommand(
  session: Session,
  phase: SmtpPhase,
  { line, masked = line }: { line: string; masked?: string },
): Promise<ReplyOrFailure> {
  session.transcript.addCommand(masked);
  session.wire.write([`${line}\r\n`], 1);
  return readReply(session, phase);
}

export async function readReply(
  session: Session,
  phase: SmtpPhase,
  timeoutMs = session.timeouts[phase],
): Promise<ReplyOrFailure> {
  const reply = await session.wire.nextReply(timeoutMs);
  if (!isFailure(reply)) session.transcript.addReply(reply);
  return reply;
}

export type SmtpExtensions = {
  pipelining: boolean;
  startTls: boolean;
  smtpUtf8: boolean;
  eightBitMime: boolean;
  dsn: boolean;
  /** `sizeBytesMax` 0: the server supports SIZE without a limit (RFC 1870). */
  size: { sizeBytesMax: number } | null;
  authMechanisms: readonly string[];
};

export function parseExtensions(reply: SmtpReply): SmtpExtensions {
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
    dsn: offered.has('DSN'),
    size: size === undefined ? null : { sizeBytesMax: parseSize(size[0]) },
    authMechanisms: offered.get('AUTH') ?? [],
  };
}

function parseSize(text: string | undefined): number {
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : 0;
}

/** Returns whether MAIL FROM and RCPT TO can have the address between `<` and `>`. */
export function isWritablePath(address: string, smtpUtf8: boolean): boolean {
  if (ASCII_PATH.test(address)) return true;
  return smtpUtf8 && UTF8_PATH.test(address) && address.isWellFormed();
}

/** Returns `MAIL FROM:<address>` or `RCPT TO:<address>` without the line end. */
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

/** Returns a command with printable ASCII arguments and no line end: `EHLO mail.acme.com`. */
export function plainCommand(verb: string, argument: string): string {
  if (!ARGUMENT.test(argument)) {
    throw new Error(`An argument that cannot be written in SMTP: ${JSON.stringify(argument)}`);
  }
  return `${verb} ${argument}`;
}

/** The bounded dialogue of one attempt. Lines are not joined, because every message has a transcript. */
export class Transcript {
  #lines: string[] = [];
  #charactersLeft = TRANSCRIPT_CHARACTERS_MAX;

  addCommand(line: string): void {
    this.#add(`C: ${line}`);
  }

  addReply(reply: SmtpReply): void {
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
  addNote(text: string): void {
    this.#add(`(${text})`);
  }

  take(): SmtpTranscript {
    const lines = this.#lines;
    this.#lines = [];
    this.#charactersLeft = TRANSCRIPT_CHARACTERS_MAX;
    return lines;
  }

  #add(line: string): void {
    if (this.#charactersLeft <= 0) return;
    this.#charactersLeft -= line.length + 1;
    this.#lines.push(this.#charactersLeft > 0 ? line : '(the rest is left out)');
  }
}
