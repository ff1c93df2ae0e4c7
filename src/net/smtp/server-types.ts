/**
 * Types of the SMTP server: options, limits, and the handlers that decide about addresses, log-ins and
 * messages.
 */
import type { SecureContext } from 'node:tls';
import type { World } from '../../core/world.ts';

/** One reply. `text` becomes printable ASCII, in lines that SMTP can carry. */
export type SmtpAnswer = {
  code: number;
  /** RFC 3463; null where RFC 2034 has none (greeting, EHLO, 334, 354). */
  enhanced: string | null;
  text: string;
  /** The session ends with this reply. */
  closes?: boolean;
};

export function answerOf(code: number, enhanced: string | null, text: string): SmtpAnswer {
  return { code, enhanced, text };
}

/** A reply that ends the session. */
export function closing(code: number, enhanced: string, text: string): SmtpAnswer {
  return { code, enhanced, text, closes: true };
}

/** What is known of a session when a handler is asked. `User`: what onAuth made of the log-in. */
export type SmtpSession<User> = {
  id: string;
  remoteAddress: string;
  /** The remote address, or its /64 for IPv6: one customer. */
  client: string;
  localPort: number;
  /** What the client calls itself; '' before EHLO. */
  helo: string;
  /** RFC 3848, for Received: `ESMTPSA` is ESMTP over TLS with a log-in. */
  protocol: 'SMTP' | 'ESMTP' | 'ESMTPS' | 'ESMTPA' | 'ESMTPSA';
  tls: { version: string; cipher: string } | null;
  user: User | null;
};

export type SmtpMail = {
  /** The reverse-path without its brackets; '' is the null one. */
  from: string;
  /** The size the client announced. */
  sizeBytes: number | null;
  body: '7BIT' | '8BITMIME';
  smtpUtf8: boolean;
};

export type SmtpEnvelope = SmtpMail & {
  /** As written, without brackets and source routes, in the order of their coming. */
  recipients: readonly string[];
};

export type SmtpMessage = {
  /** CRLF at the end of every line, dots unstuffed. */
  content: Buffer;
  /** Of all that came, also where `content` is only its beginning. */
  sizeBytes: number;
  /** Octets of its longest line without CRLF: more than 998 is not allowed (RFC 5322 §2.1.1). */
  longestLine: number;
};

type Awaitable<Value> = Value | Promise<Value>;

/** A handler that throws is answered with 451 4.3.0 and reported to `onBug`. */
export type SmtpHandlers<User> = {
  /** Null takes the sender. */
  onMail?(session: SmtpSession<User>, mail: SmtpMail): Awaitable<SmtpAnswer | null>;
  /** Asked for each recipient; null takes it. */
  onRcpt(session: SmtpSession<User>, address: string): Awaitable<SmtpAnswer | null>;
  /** A 2xx takes responsibility: the message must be durable when this resolves. */
  onMessage(
    session: SmtpSession<User>,
    envelope: SmtpEnvelope,
    message: SmtpMessage,
  ): Promise<SmtpAnswer>;
};

export type SmtpLogIn<User> = (
  session: SmtpSession<User>,
  credentials: { user: string; pass: string },
) => Promise<{ user: User } | { refused: SmtpAnswer }>;

/** Of one port in one process: the workers of a machine each have their own. */
export type SmtpServerLimits = {
  connections: number;
  /** Of these, for who has not logged in, from a client that has not done so lately. */
  anonymousConnections: number;
  connectionsPerClient: number;
  /** That are not logged in. */
  anonymousPerClient: number;
  /** New connections that do not log in. */
  newPerClientAndMinute: number;
  /** Of all sessions together, for messages that are being received or handled. */
  contentBytes: number;
  messagesPerSession: number;
  /** Replies of 4xx and 5xx, and commands that lead nowhere, since the last message was taken. */
  errorsPerSession: number;
  recipientsPerMessage: number;
  messagesPerClientAndMinute: number;
  /** From a reply to the end of the next command. */
  commandTimeoutMs: number;
  /** In each such span some content has to come, 1,000 octets a second at least. */
  dataTimeoutMs: number;
  /** From 354 to the end of the content. */
  messageTimeoutMs: number;
  tlsTimeoutMs: number;
  /** From the connection to the log-in, handshakes and greeting included; where there is one. */
  logInTimeoutMs: number;
  /** From the connection on; a message under way is finished. */
  sessionTimeoutMs: number;
};

export const SMTP_SERVER_LIMITS: SmtpServerLimits = {
  connections: 1_000,
  anonymousConnections: 600,
  connectionsPerClient: 50,
  anonymousPerClient: 20,
  newPerClientAndMinute: 120,
  contentBytes: 64 * 1024 * 1024,
  messagesPerSession: 1_000,
  errorsPerSession: 20,
  recipientsPerMessage: 100,
  messagesPerClientAndMinute: Infinity,
  // RFC 5321 §4.5.3.2.7 asks for five minutes.
  commandTimeoutMs: 300_000,
  dataTimeoutMs: 180_000,
  messageTimeoutMs: 600_000,
  tlsTimeoutMs: 30_000,
  logInTimeoutMs: 30_000,
  sessionTimeoutMs: Infinity,
};

export type SmtpSessionOptions<User> = {
  /** Our name, for the greeting. */
  hostname: string;
  /**
   * `starttls` offers it, `implicit` begins with it (port 465). The context is asked for at every
   * handshake, so that a renewed certificate counts; null: no TLS at present.
   */
  tls: { mode: 'starttls' | 'implicit'; context: () => SecureContext | null };
  /** The largest message, announced in SIZE (RFC 1870). */
  sizeBytesMax: number;
  /**
   * How much of the beginning of a message is kept; the rest is read and dropped, and no message is
   * refused for its size. Without it, messages larger than sizeBytesMax are refused.
   */
  keptBytesMax?: number;
  limits?: Partial<SmtpServerLimits>;
  world: Pick<World, 'monotonicMs' | 'newId'>;
  /** With it, mail is taken only from who has logged in, over TLS. */
  logIn?: SmtpLogIn<User>;
  handlers: SmtpHandlers<User>;
  /** Refuses clients that send before the greeting; no mail program does. Default: true. */
  refusesEarlyTalkers?: boolean;
  /** A handler threw: a bug, or something that the surface should have answered itself. */
  onBug?: (error: unknown) => void;
};
