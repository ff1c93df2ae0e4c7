/**
 * Types of the SMTP client: options, timeouts and results.
 *
 * Results keep two failures apart. `replied`: the server refused, and its reply decides. `failed`: no
 * usable reply came (timeout, reset, garbage, a bad certificate), and the phase tells what may have
 * happened to the message.
 */
import type { SmtpFailureCause, SmtpPhase, SmtpReply } from '../../mail/replies/smtp-reply.ts';
import type { DaneExpectation } from '../tls/dane.ts';

export type { SmtpFailureCause } from '../../mail/replies/smtp-reply.ts';

/** Lines `S: …` and `C: …` of one attempt, at most 8 KB, without message content or secrets. */
export type SmtpTranscript = readonly string[];

/** Milliseconds of silence that end a phase. */
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

/** The same, but in no phase more than `maxMs`. */
export function timeoutsWithin(maxMs: number): SmtpTimeouts {
  const phases = Object.entries(SMTP_TIMEOUTS_MS) as [SmtpPhase, number][];
  const bounded = phases.map(([phase, ms]) => [phase, Math.min(ms, maxMs)] as const);
  return Object.fromEntries(bounded) as SmtpTimeouts;
}

/**
 * How much protection is asked for. `opportunistic`: STARTTLS when offered, any certificate.
 * `required`: TLS, any certificate. `enforced`: a certificate that is valid for `host`. `dane`: one
 * that `dane` accepts. In the last three, nothing is sent otherwise. `off`: plain text, also for
 * the retry after a handshake that failed.
 */
export type SmtpTlsMode = 'off' | 'opportunistic' | 'required' | 'enforced' | 'dane';

/** What came of a session, in the words of TLS reports (RFC 8460 §4.3); null: as it should be. */
export type TlsResult =
  | 'starttls-not-supported'
  | 'certificate-host-mismatch'
  | 'certificate-expired'
  | 'certificate-not-trusted'
  | 'validation-failure'
  | null;

export type SmtpOptions = {
  /** The server's name: the MX, not the recipient's domain. For SNI and the certificate. */
  host: string;
  /** The checked IP address to connect to. Nothing is resolved here. */
  address: string;
  port: number;
  localAddress?: string | undefined;
  /** Our name, fully qualified. */
  heloName: string;
  /** TLS from the first byte (port 465). */
  implicitTls?: boolean;
  tls: SmtpTlsMode;
  /** For the mode `dane`. */
  dane?: DaneExpectation | undefined;
  /** Offers little in the handshake, for servers that a usual one is too much for. */
  reducedHello?: boolean | undefined;
  /** PLAIN or LOGIN; refused over plain text unless the address is loopback. */
  auth?: { user: string; pass: string } | undefined;
  timeouts?: Partial<SmtpTimeouts>;
  /** PEM of the only authority to trust, in place of the usual ones (tests). */
  ca?: string | undefined;
};

export type SmtpFailure = {
  kind: 'failed';
  phase: SmtpPhase;
  cause: SmtpFailureCause;
  /** One sentence for the operator. */
  message: string;
  /** Of the cause `tls`. */
  tlsResult?: TlsResult;
  /** There is no way from our own address (`localAddress`); from another one there may be. */
  ourProblem?: true;
  transcript: SmtpTranscript;
};

/**
 * The protection of a connection. `verified`: chain and host name of the certificate hold, or DANE
 * says so. `problem`: why it is not verified, a sentence. `result`: the same for reports.
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
  /** The bytes with CRLF line ends, not dot-stuffed; in pieces when pieces are shared. */
  message: Buffer | readonly Buffer[];
  /** The message or an address needs SMTPUTF8 (RFC 6531). */
  smtpUtf8: boolean;
  /** The message has octets above 127, announced where 8BITMIME is offered (RFC 6152). */
  is8Bit?: boolean | undefined;
  /**
   * Asked before DATA and again before the final dot. `false` drops the connection without the dot, so
   * the server discards what it has. While a promise is pending the dialogue waits; servers allow that
   * for minutes (RFC 5321 §4.5.3.2.7).
   */
  mayProceed: (step: 'data_command' | 'data') => boolean | Promise<boolean>;
};

/**
 * Asked right before the dot: the message that follows at once on the same session, whose envelope
 * then travels with the dot (RFC 2920 §3.1). Null: none.
 * @param mayFollow whether this server would take such a message, and whether it may be sent
 */
export type Follower = (mayFollow: (next: Transaction) => boolean) => Transaction | null;

export type TransactionResult =
  | {
      kind: 'replied';
      phase: 'mail' | 'rcpt' | 'data_command' | 'data';
      reply: SmtpReply;
      transcript: SmtpTranscript;
      /** We answered for the server, which announced that it would refuse; nothing was sent. */
      local?: true;
    }
  | (SmtpFailure & {
      /** The dot was written and its answer never came: the message may have been delivered. */
      inDoubt: boolean;
    });
