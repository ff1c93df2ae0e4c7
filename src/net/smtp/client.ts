/**
 * The SMTP client: from an address to a session that is ready for messages (RFC 5321, 3207).
 *
 *     connect → greeting → EHLO (HELO) → STARTTLS → EHLO → AUTH → ready
 *
 * The result contains the last phase and the reason for stopping. The caller decides whether to try the next MX, to
 * retry later, or to continue without TLS. The caller also resolves and checks the address.
 *
 *     client-session.ts      options, results, commands, transcript, extensions of the server
 *     client-connection.ts   a ready session, for one message after the other
 *     client-transaction.ts  the dialogue for one message
 *     client-tls.ts          handshake and certificate
 *     client-wire.ts         bytes, replies, timeouts
 */
import { connect, type Socket } from 'node:net';
import { failpoint } from '../../lib/failpoint.ts';
import type { SmtpPhase, SmtpReply } from '../../mail/replies/smtp-reply.ts';
import {
  parseExtensions,
  readReply,
  NO_EXTENSIONS,
  plainCommand,
  sendCommand,
  type Session,
  SMTP_TIMEOUTS_MS,
  type SmtpFailure,
  type SmtpOptions,
  type SmtpTlsFacts,
  type SmtpTranscript,
  Transcript,
} from './client-session.ts';
import { isLoopback } from '../ip-addresses.ts';
import { missingProof, secureSocket } from './client-tls.ts';
import { SmtpConnection } from './client-connection.ts';
import { type ReplyOrFailure, isFailure, SmtpWire, type WireFailure } from './client-wire.ts';
export type {
  SmtpOpeningStep,
  SmtpOptions,
  SmtpTlsFacts,
  SmtpTlsMode,
  Transaction,
  TransactionResult,
} from './client-session.ts';
export type { TlsResult } from './client-wire.ts';

export type ConnectResult =
  | { kind: 'ready'; connection: SmtpConnection }
  | { kind: 'replied'; phase: SmtpPhase; reply: SmtpReply; transcript: SmtpTranscript }
  | SmtpFailure;

/** Why a step ends the handshake, or null when the handshake continues. */
type HandshakeEnd = Exclude<ConnectResult, { kind: 'ready' }> | null;

type Handshake = Session & { options: SmtpOptions; tls: SmtpTlsFacts | null };

type Credentials = { user: string; pass: string };

const ABORTED = 'The connection was aborted before the session was ready.';
/** Errors of this machine: the address cannot be bound, or has no route. */
const SOURCE_ERRORS = /^(?:EADDRNOTAVAIL|EADDRINUSE|ENETUNREACH|EAFNOSUPPORT|EINVAL|EACCES|EPERM)$/;
/** 2yz codes with a specific meaning in RFC 5321 and 4954. Any other 2yz is success (§4.2). */
const SPECIFIC_CODES: ReadonlySet<number> = new Set([211, 214, 220, 221, 235, 250, 251, 252]);

/** Opens a session. Never rejects because of the network or the server. */
export async function connectSmtp(options: SmtpOptions): Promise<ConnectResult> {
  const handshake = await openSession(options);
  if ('kind' in handshake) return handshake;
  const abort = (): void => void handshake.wire.fail('closed', ABORTED);
  options.signal?.addEventListener('abort', abort);
  if (options.signal?.aborted === true) abort();
  try {
    return await runHandshake(handshake);
  } finally {
    options.signal?.removeEventListener('abort', abort);
  }
}

async function runHandshake(handshake: Handshake): Promise<ConnectResult> {
  const end =
    (await readGreeting(handshake)) ??
    (await sendHello(handshake)) ??
    (await startTls(handshake)) ??
    (await authenticate(handshake));
  if (end !== null) {
    await quit(handshake);
    return end;
  }
  failpoint('smtp_after_hello');
  const { host, address } = handshake.options;
  const server = { host, address };
  return { kind: 'ready', connection: new SmtpConnection(handshake, server, handshake.tls) };
}

/** RFC 5321 §4.1.1.10: a client sends QUIT before it closes a working session. */
async function quit(handshake: Handshake): Promise<void> {
  if (handshake.wire.failure === null) await sendCommand(handshake, 'quit', { line: 'QUIT' });
  handshake.wire.fail('closed', 'The handshake did not succeed.');
}

async function openSession(options: SmtpOptions): Promise<Handshake | SmtpFailure> {
  const timeouts = { ...SMTP_TIMEOUTS_MS, ...options.timeouts };
  const transcript = new Transcript();
  transcript.addNote(`connecting to ${options.host} [${options.address}]:${options.port}`);

  failpoint('smtp_before_connect');
  let socket = await openSocket(
    options,
    Math.min(timeouts.connect, options.connectMaxMs ?? Infinity),
  );
  if ('cause' in socket) return failHandshake(transcript, 'connect', socket);
  options.onStep?.('connected');
  let tls: SmtpTlsFacts | null = null;
  if (options.implicitTls === true) {
    const secured = await secure(socket, options, timeouts.tls);
    if ('cause' in secured) return failHandshake(transcript, 'tls', secured);
    ({ socket, facts: tls } = secured);
    const missing = missingProof(options, tls);
    if (missing !== null) {
      // A destroyed socket may still emit an error.
      socket.on('error', () => {}).destroy();
      return failHandshake(transcript, 'tls', missing);
    }
  }
  const wire = new SmtpWire(socket);
  wire.expectReply();
  const initialState = { extensions: NO_EXTENSIONS, needsReset: false, announced: null };
  return { wire, transcript, timeouts, ...initialState, options, tls };
}

function openSocket(options: SmtpOptions, timeoutMs: number): Promise<Socket | WireFailure> {
  const { address, port, localAddress, signal } = options;
  const bound = localAddress === undefined ? {} : { localAddress };
  return new Promise((resolve) => {
    const socket = connect({ host: address, port, noDelay: true, ...bound });
    const endAttempt = (message: string): void => {
      cleanUp();
      socket.destroy();
      resolve({ cause: 'timeout', message });
    };
    const timer = setTimeout(
      () => endAttempt(`No connection within ${timeoutMs / 1000} s.`),
      timeoutMs,
    );
    const abort = (): void => endAttempt(ABORTED);
    signal?.addEventListener('abort', abort);
    const cleanUp = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    };
    if (signal?.aborted === true) return abort();
    const refuse = (error: NodeJS.ErrnoException): void => {
      cleanUp();
      const isSourceProblem = localAddress !== undefined && SOURCE_ERRORS.test(`${error.code}`);
      const from = isSourceProblem ? ` from ${localAddress}` : '';
      const message = `No connection${from} (${error.code ?? error.message}).`;
      resolve({ cause: 'unreachable', message, ...(isSourceProblem && { isSourceProblem }) });
    };
    socket.once('error', refuse).once('connect', () => {
      cleanUp();
      socket.off('error', refuse);
      resolve(socket);
    });
  });
}

async function readGreeting(handshake: Handshake): Promise<HandshakeEnd> {
  const reply = await readReply(handshake, 'greeting');
  return requireCode(220, { handshake, phase: 'greeting', reply });
}

/** Sends EHLO, or HELO to a server without EHLO (RFC 5321 §3.2). */
async function sendHello(handshake: Handshake): Promise<HandshakeEnd> {
  const name = handshake.options.heloName;
  let reply = await sendCommand(handshake, 'ehlo', { line: plainCommand('EHLO', name) });
  handshake.extensions = isFailure(reply) ? NO_EXTENSIONS : parseExtensions(reply);
  if (!isFailure(reply) && reply.code >= 500 && handshake.wire.failure === null) {
    reply = await sendCommand(handshake, 'ehlo', { line: plainCommand('HELO', name) });
    handshake.extensions = NO_EXTENSIONS;
  }
  return requireCode(250, { handshake, phase: 'ehlo', reply });
}

async function startTls(handshake: Handshake): Promise<HandshakeEnd> {
  const { options, wire, transcript, timeouts } = handshake;
  if (handshake.tls !== null || options.tls === 'off') return null;
  if (!handshake.extensions.startTls)
    return continueWithoutTls(handshake, 'does not offer STARTTLS');
  const reply = await sendCommand(handshake, 'starttls', { line: 'STARTTLS' });
  if (!isFailure(reply) && reply.code !== 220 && wire.failure === null) {
    return continueWithoutTls(handshake, `refuses STARTTLS with ${reply.code}`);
  }
  // Bytes after the 220 were injected in plain text. They made the wire fail, and must not be trusted
  // (CVE-2011-0411).
  if (wire.failure !== null) return failHandshake(transcript, 'starttls', wire.failure);

  const secured = await secure(wire.release(), options, timeouts.tls);
  if ('cause' in secured) {
    wire.fail(secured.cause, secured.message);
    return failHandshake(transcript, 'tls', secured);
  }
  wire.adopt(secured.socket);
  const missing = missingProof(options, secured.facts);
  if (missing !== null) return failHandshake(transcript, 'tls', missing);
  const { version, cipher, verified, problem } = (handshake.tls = secured.facts);
  const method = options.dane === undefined ? '' : ' by DANE';
  const proof = verified ? `verified${method}` : `not verified: ${problem}`;
  transcript.addNote(`${version} ${cipher}, certificate ${proof}`);
  return sendHello(handshake);
}

async function secure(
  socket: Socket,
  options: SmtpOptions,
  timeoutMs: number,
): ReturnType<typeof secureSocket> {
  options.onStep?.('tls_begun');
  const secured = await secureSocket(socket, options, timeoutMs);
  options.onStep?.('tls_ended');
  return secured;
}

function continueWithoutTls({ options, transcript }: Handshake, reason: string): HandshakeEnd {
  if (options.tls === 'opportunistic') return null;
  const message = `The server ${reason}, and TLS is required.`;
  const tlsResult = 'starttls-not-supported' as const;
  return failHandshake(transcript, 'starttls', { cause: 'tls', message, tlsResult });
}

async function authenticate(handshake: Handshake): Promise<HandshakeEnd> {
  const { options, transcript } = handshake;
  if (options.auth === undefined) return null;
  // A password may leave without TLS only if it stays within this machine.
  if (handshake.tls === null && !isLoopback(options.address)) {
    const message = 'The relay offers no TLS, and a password is not sent in plain text.';
    return failHandshake(transcript, 'auth', { cause: 'tls', message });
  }
  const reply = await logIn(handshake, options.auth);
  if (reply !== null) return requireCode(235, { handshake, phase: 'auth', reply });
  const message = 'The relay offers neither AUTH PLAIN nor AUTH LOGIN.';
  return failHandshake(transcript, 'auth', { cause: 'garbage', message });
}

/** Returns null when the reply has the code with which the handshake continues, else the end of the handshake. */
function requireCode(
  code: number,
  { handshake, phase, reply }: { handshake: Handshake; phase: SmtpPhase; reply: ReplyOrFailure },
): HandshakeEnd {
  const { transcript, wire } = handshake;
  if (isFailure(reply)) return endedBy(handshake, phase, reply);
  if (reply.code === code || (reply.code < 300 && !SPECIFIC_CODES.has(reply.code))) {
    // The rest of the reply may have ended the connection.
    return wire.failure === null ? null : endedBy(handshake, phase, wire.failure);
  }
  if (reply.code >= 400) {
    return { kind: 'replied', phase, reply, transcript: transcript.take() };
  }
  const message = `The server replied ${reply.code} instead of ${code}.`;
  return failHandshake(transcript, phase, { cause: 'garbage', message });
}

/** A 421 that the server sent on its own is its reply to the attempt, not silence. */
function endedBy(
  { wire, transcript }: Handshake,
  phase: SmtpPhase,
  failure: WireFailure,
): HandshakeEnd {
  if (wire.endedBy === null) return failHandshake(transcript, phase, failure);
  transcript.addReply(wire.endedBy);
  return { kind: 'replied', phase, reply: wire.endedBy, transcript: transcript.take() };
}

function failHandshake(transcript: Transcript, phase: SmtpPhase, reason: WireFailure): SmtpFailure {
  transcript.addNote(reason.message);
  return { kind: 'failed', phase, ...reason, transcript: transcript.take() };
}

/**
 * Authenticates at a relay by PLAIN (RFC 4616) or LOGIN. The transcript never contains the password.
 * @returns the final reply (235: success); null when the relay offers neither mechanism
 */
async function logIn(session: Session, credentials: Credentials): Promise<ReplyOrFailure | null> {
  const offered = session.extensions.authMechanisms;
  if (offered.includes('PLAIN')) return authPlain(session, credentials);
  if (offered.includes('LOGIN')) return authLogin(session, credentials);
  return null;
}

function authPlain(session: Session, { user, pass }: Credentials): Promise<ReplyOrFailure> {
  const line = `AUTH PLAIN ${base64(`\0${user}\0${pass}`)}`;
  return sendCommand(session, 'auth', { line, masked: 'AUTH PLAIN ***' });
}

async function authLogin(session: Session, { user, pass }: Credentials): Promise<ReplyOrFailure> {
  let reply = await sendCommand(session, 'auth', { line: 'AUTH LOGIN' });
  for (const secret of [user, pass]) {
    if (isFailure(reply) || reply.code !== 334) return reply;
    reply = await sendCommand(session, 'auth', { line: base64(secret), masked: '***' });
  }
  return reply;
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}
