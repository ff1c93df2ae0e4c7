/**
 * Types of the SMTP client: options, timeouts and results.
 *
 * There are two kinds of failures. `replied`: the server refused, and its reply decides. `failed`: there
 * was no usable reply (timeout, reset, garbage, a bad certificate), and the phase decides whether the
 * message may have been delivered.
 */
import type { SmtpFailureCause, SmtpPhase, SmtpReply } from '../../mail/replies/smtp-reply.ts';
import type { DaneExpectation } from '../tls/dane.ts';

export type { SmtpFailureCause } from '../../mail/replies/smtp-reply.ts';

/** Lines `S: …` and `C: …` of one attempt, at most 8 KB, without message content or passwords. */
export type SmtpTranscript = readonly string[];

/** The timeout of each phase in milliseconds. */
export type SmtpTimeouts = Readonly<Record<SmtpPhase, number>>;

/** RFC 5321 §4.5.3.2, with Postfix's 30 s for connecting. `body` is per block of the message. */
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

/** SMTP_TIMEOUTS_MS with at most `maxMs` per phase. */
export function timeoutsWithin(maxMs: number): SmtpTimeouts {
  const phases = Object.entries(SMTP_TIMEOUTS_MS) as [SmtpPhase, number][];
  const bounded = phases.map(([phase, ms]) => [phase, Math.min(ms, maxMs)] as const);
  return Object.fromEntries(bounded) as SmtpTimeouts;
}

/**
 * The required protection. `opportunistic`: STARTTLS if offered, any certificate. `required`: TLS, any
 * certificate. `enforced`: a certificate that is valid for `host`. `dane`: one that matches `dane`. The
 * last three send nothing otherwise. `off`: plain text, also for the retry after a failed handshake.
 */
export type SmtpTlsMode = 'off' | 'opportunistic' | 'required' | 'enforced' | 'dane';

/** The result types of TLS reports (RFC 8460 §4.3); null: success. */
export type TlsResult =
  | 'starttls-not-supported'
  | 'certificate-host-mismatch'
  | 'certificate-expired'
  | 'certificate-not-trusted'
  | 'validation-failure'
  | null;

export type SmtpOptions = {
  /** The MX's name (not the recipient's domain), for SNI and the certificate. */
  host: string;
  /** The IP address to connect to, already checked by the guard. */
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
  /** Uses a small ClientHello, for servers that fail on the usual one. */
  reducedHello?: boolean | undefined;
  /** For PLAIN or LOGIN; not sent in plain text unless the address is loopback. */
  auth?: { user: string; pass: string } | undefined;
  timeouts?: Partial<SmtpTimeouts>;
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
  ourProblem?: true;
  transcript: SmtpTranscript;
};

/**
 * The protection of a connection. `verified`: the certificate's chain and name are valid, or it matches
 * DANE. `problem`: why it is not verified, a sentence. `result`: the same for TLS reports.
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
  /** With CRLF line ends, not dot-stuffed; several pieces when they are shared between messages. */
  message: Buffer | readonly Buffer[];
  /** The message or an address needs SMTPUTF8 (RFC 6531). */
  smtpUtf8: boolean;
  /** The message has octets above 127, declared where 8BITMIME is offered (RFC 6152). */
  is8Bit?: boolean | undefined;
  /**
   * Called before DATA and before the final dot. `false` closes the connection without the dot, so that
   * the server discards the message. The dialogue waits while a promise is pending; servers allow minutes
   * (RFC 5321 §4.5.3.2.7).
   */
  mayProceed: (step: 'data_command' | 'data') => boolean | Promise<boolean>;
};

/**
 * Called right before the dot. Returns the next message for the same session, whose envelope is then
 * written with the dot (RFC 2920 §3.1); null: none.
 * @param mayFollow whether the server supports such a message and it may be sent
 */
export type Follower = (mayFollow: (next: Transaction) => boolean) => Transaction | null;

export type TransactionResult =
  | {
      kind: 'replied';
      phase: 'mail' | 'rcpt' | 'data_command' | 'data';
      reply: SmtpReply;
      transcript: SmtpTranscript;
      /** Refused here because of the server's extensions; nothing was sent. */
      local?: true;
    }
  | (SmtpFailure & {
      /** The dot was written but no reply came: the message may have been delivered. */
      inDoubt: boolean;
    });
