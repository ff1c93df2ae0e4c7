/** Types of the SMTP server: options, limits, and the handlers for addresses, log-ins and messages. */
import type { SecureContext } from 'node:tls';
import type { World } from '../../../lib/world.ts';
import type { MailDsn, RcptDsn } from '../../../mail/dsn-parameters.ts';
import { MIB } from '../../../lib/units.ts';

/** A reply. `text` is converted to printable ASCII, in lines within the limit of SMTP. */
export type ServerReply = {
  code: number;
  /** RFC 3463; null where RFC 2034 defines none (greeting, EHLO, 334, 354). */
  enhanced: string | null;
  /** A line that precedes the text. */
  firstLine?: string;
  text: string;
  closes?: boolean;
  /** A refusal that does not count as an error of the client. */
  isExcused?: boolean;
};

export function serverReply(code: number, enhanced: string | null, text: string): ServerReply {
  return { code, enhanced, text };
}

export function closingReply(code: number, enhanced: string, text: string): ServerReply {
  return { code, enhanced, text, closes: true };
}

/** State of a session for handlers. `User` is the result of the log-in handler. */
export type SmtpSession<User> = {
  id: string;
  remoteAddress: string;
  /** The remote address; for IPv6 its /64, because a customer has at least that. */
  client: string;
  localPort: number;
  /** The client's name in EHLO; '' before EHLO. */
  helo: string;
  /** The protocol in Received (RFC 3848): `ESMTPSA` is ESMTP over TLS with a log-in. */
  protocol: 'SMTP' | 'ESMTP' | 'ESMTPS' | 'ESMTPA' | 'ESMTPSA';
  tls: { version: string; cipher: string } | null;
  user: User | null;
};

export type SmtpMail = {
  /** The reverse-path without brackets; '' is the null reverse-path. */
  from: string;
  sizeBytes: number | null;
  body: '7BIT' | '8BITMIME';
  smtpUtf8: boolean;
  /** Absent: neither RET nor ENVID was given. */
  dsn?: MailDsn;
};

export type SmtpEnvelope = SmtpMail & {
  /** Raw addresses without brackets and source routes, in the order of RCPT. */
  recipients: readonly string[];
  /** NOTIFY and ORCPT of recipients that have them. The first RCPT of a repeated address counts. */
  recipientDsn?: ReadonlyMap<string, RcptDsn>;
};

export type SmtpMessage = {
  /** The content with CRLF line ends, after dot-unstuffing. */
  content: Buffer;
  /** The size of the whole message, even if `content` is only its beginning. */
  sizeBytes: number;
  /** Octets of the longest line without CRLF; RFC 5322 §2.1.1 allows 998. */
  longestLine: number;
};

type Awaitable<Value> = Value | Promise<Value>;

/** If a handler throws, the reply is 451 4.3.0 and `onBug` is called. */
export type SmtpHandlers<User> = {
  /** Null accepts the sender. */
  onMail?(session: SmtpSession<User>, mail: SmtpMail): Awaitable<ServerReply | null>;
  /** Called for each recipient; null accepts it. */
  onRcpt(session: SmtpSession<User>, address: string): Awaitable<ServerReply | null>;
  /** A 2xx accepts responsibility: the message must be durable when this resolves. */
  onMessage(
    session: SmtpSession<User>,
    envelope: SmtpEnvelope,
    message: SmtpMessage,
  ): Promise<ServerReply>;
};

export type SmtpLogIn<User> = (
  session: SmtpSession<User>,
  credentials: { user: string; pass: string },
) => Promise<{ user: User } | { refused: ServerReply }>;

/** Limits per port and process: each worker of a machine has its own. */
export type SmtpServerLimits = {
  connections: number;
  /** The part for clients that are not logged in and did not log in recently. */
  anonymousConnections: number;
  connectionsPerClient: number;
  anonymousPerClient: number;
  newPerClientAndMinute: number;
  /** Memory for messages of all sessions that are being received or handled. */
  contentBytes: number;
  messagesPerSession: number;
  /** 4xx and 5xx replies, and idle commands above their limit, since the last accepted message. */
  errorsPerSession: number;
  /** RFC 5321 §4.5.3.1.8 requires 100. */
  recipientsPerMessage: number;
  messagesPerClientAndMinute: number;
  /** Limits the time from a reply to the end of the next command. */
  commandTimeoutMs: number;
  /** Interval in which content must arrive again, at 1,000 octets a second or more. */
  dataTimeoutMs: number;
  /** Limits the time from the 354 to the end of the content. */
  messageTimeoutMs: number;
  tlsTimeoutMs: number;
  /** Limits the time from the connection to the log-in, with handshakes and greeting, on ports with log-in. */
  logInTimeoutMs: number;
  /** Limits the time from the connection on; a message in progress is completed. */
  sessionTimeoutMs: number;
};

export const SMTP_SERVER_LIMITS: SmtpServerLimits = {
  connections: 1_000,
  anonymousConnections: 600,
  connectionsPerClient: 50,
  anonymousPerClient: 20,
  newPerClientAndMinute: 120,
  contentBytes: 64 * MIB,
  messagesPerSession: 1_000,
  errorsPerSession: 20,
  recipientsPerMessage: 100,
  messagesPerClientAndMinute: Infinity,
  // RFC 5321 §4.5.3.2.7 requires five minutes.
  commandTimeoutMs: 300_000,
  dataTimeoutMs: 180_000,
  messageTimeoutMs: 600_000,
  tlsTimeoutMs: 30_000,
  logInTimeoutMs: 30_000,
  sessionTimeoutMs: Infinity,
};

export type SmtpSessionOptions<User> = {
  hostname: string;
  /**
   * `starttls` offers TLS; `implicit` begins with it (port 465). The context is requested at every handshake, so a
   * renewed certificate takes effect. Null: TLS is not available.
   */
  tls: { mode: 'starttls' | 'implicit'; context: () => SecureContext | null };
  /** Limit on a message, announced by SIZE (RFC 1870). */
  sizeBytesMax: number;
  /** Keeps only this much of a message and drops the rest. Absent: messages over sizeBytesMax are refused. */
  keptBytesMax?: number;
  limits?: Partial<SmtpServerLimits>;
  world: Pick<World, 'monotonicMs' | 'newId'>;
  /** True if the port accepts requests for delivery notices (RFC 3461). Default: false. */
  offersDsn?: boolean;
  /** If set, mail is accepted only after a log-in over TLS. */
  logIn?: SmtpLogIn<User>;
  handlers: SmtpHandlers<User>;
  /** Disconnects clients that send before the greeting, as only abusive clients do. Default: true. */
  refusesEarlyTalkers?: boolean;
  onReply?: (code: number) => void;
  /** Called when a handler throws: a bug, or an error that the handler should have replied to. */
  onBug?: (error: unknown) => void;
};
