/**
 * The SMTP client: from an address to a session that is ready for messages (RFC 5321, 3207).
 *
 *     connect → greeting → EHLO (HELO) → STARTTLS → EHLO → AUTH → ready
 *
 * It promises to say truly how far it came and why it stopped. It decides nothing about mail:
 * whether to try the next MX, later, or without TLS is the caller's business. Addresses are
 * checked before they come here; nothing is resolved.
 */
import { connect, type Socket } from 'node:net';
import { failpoint } from '../../core/failpoint.ts';
import type { SmtpPhase } from '../../mail/replies/smtp-reply.ts';
import { isLoopback, logIn } from './auth.ts';
import { plainCommand } from './command.ts';
import { SmtpConnection } from './connection.ts';
import { extensionsOf, NO_EXTENSIONS } from './extensions.ts';
import { listen, say, type Session } from './session.ts';
import { proofMissing, secure } from './tls.ts';
import { Transcript } from './transcript.ts';
import {
  type ConnectResult,
  SMTP_TIMEOUTS_MS,
  type SmtpFailure,
  type SmtpOptions,
  type SmtpTlsFacts,
} from './types.ts';
import { type Heard, isFailure, SmtpWire, type WireFailure } from './wire.ts';

export type { ConnectResult, Follower, SmtpOptions, SmtpTlsMode, Transaction } from './types.ts';
export type { SmtpFailureCause, SmtpTlsFacts, TlsResult, TransactionResult } from './types.ts';
export type { SmtpConnection } from './connection.ts';

/** Why a step ends the handshake; null where it does not. */
type Stopped = Exclude<ConnectResult, { kind: 'ready' }> | null;

/** A session on its way to being ready. */
type Handshake = Session & { options: SmtpOptions; tls: SmtpTlsFacts | null };

/** Opens a session. Never rejects because of what the network or the server does. */
export async function connectSmtp(options: SmtpOptions): Promise<ConnectResult> {
  const handshake = await open(options);
  if ('kind' in handshake) return handshake;
  const stopped =
    (await hearGreeting(handshake)) ??
    (await sayHello(handshake)) ??
    (await startTls(handshake)) ??
    (await authenticate(handshake));
  if (stopped !== null) {
    await sayGoodbye(handshake);
    return stopped;
  }
  failpoint('smtp_after_hello');
  const facts = { host: options.host, address: options.address };
  return { kind: 'ready', connection: new SmtpConnection(handshake, facts, handshake.tls) };
}

/** RFC 5321 §4.1.1.10: a client does not hang up on a server that still listens. */
async function sayGoodbye(handshake: Handshake): Promise<void> {
  if (handshake.wire.failure === null) await say(handshake, 'quit', { line: 'QUIT' });
  handshake.wire.fail('closed', 'The session was given up.');
}

async function open(options: SmtpOptions): Promise<Handshake | SmtpFailure> {
  const timeouts = { ...SMTP_TIMEOUTS_MS, ...options.timeouts };
  const transcript = new Transcript();
  transcript.note(`connecting to ${options.host} [${options.address}]:${options.port}`);

  failpoint('smtp_before_connect');
  let socket = await openSocket(options, timeouts.connect);
  if ('cause' in socket) return failed(transcript, 'connect', socket);
  let tls: SmtpTlsFacts | null = null;
  if (options.implicitTls === true) {
    const secured = await secure(socket, options, timeouts.tls);
    if ('cause' in secured) return failed(transcript, 'tls', secured);
    ({ socket, facts: tls } = secured);
    const unproven = proofMissing(options, tls);
    if (unproven !== null) {
      // A late error of a dropped socket is no news.
      socket.on('error', () => {}).destroy();
      return failed(transcript, 'tls', unproven);
    }
  }
  const wire = new SmtpWire(socket);
  wire.expectReply();
  const fresh = { extensions: NO_EXTENSIONS, needsReset: false, announced: null };
  return { wire, transcript, timeouts, ...fresh, options, tls };
}

/** The system refused before anybody was asked: the address cannot be bound, or leads nowhere. */
const OUR_PROBLEMS = /^(?:EADDRNOTAVAIL|EADDRINUSE|ENETUNREACH|EAFNOSUPPORT|EINVAL|EACCES|EPERM)$/;

function openSocket(options: SmtpOptions, timeoutMs: number): Promise<Socket | WireFailure> {
  const { address, port, localAddress } = options;
  const bound = localAddress === undefined ? {} : { localAddress };
  return new Promise((resolve) => {
    const socket = connect({ host: address, port, noDelay: true, ...bound });
    const timer = setTimeout(() => {
      socket.destroy();
      resolve({ cause: 'timeout', message: `No connection within ${timeoutMs / 1000} s.` });
    }, timeoutMs);
    const refuse = (error: NodeJS.ErrnoException): void => {
      clearTimeout(timer);
      const isOurs = localAddress !== undefined && OUR_PROBLEMS.test(`${error.code}`);
      const from = isOurs ? ` from ${localAddress}` : '';
      const message = `No connection${from} (${error.code ?? error.message}).`;
      resolve({ cause: 'unreachable', message, ...(isOurs && { ourProblem: true }) });
    };
    socket.once('error', refuse).once('connect', () => {
      clearTimeout(timer);
      socket.off('error', refuse);
      resolve(socket);
    });
  });
}

async function hearGreeting(handshake: Handshake): Promise<Stopped> {
  const heard = await listen(handshake, 'greeting');
  return stopUnless(220, { handshake, phase: 'greeting', heard });
}

/** EHLO, and HELO for a server that does not know it (RFC 5321 §3.2). */
async function sayHello(handshake: Handshake): Promise<Stopped> {
  const name = handshake.options.heloName;
  let heard = await say(handshake, 'ehlo', { line: plainCommand('EHLO', name) });
  handshake.extensions = isFailure(heard) ? NO_EXTENSIONS : extensionsOf(heard);
  if (!isFailure(heard) && heard.code >= 500) {
    heard = await say(handshake, 'ehlo', { line: plainCommand('HELO', name) });
    handshake.extensions = NO_EXTENSIONS;
  }
  return stopUnless(250, { handshake, phase: 'ehlo', heard });
}

async function startTls(handshake: Handshake): Promise<Stopped> {
  const { options, wire, transcript, timeouts } = handshake;
  if (handshake.tls !== null || options.tls === 'off') return null;
  if (!handshake.extensions.startTls) return withoutTls(handshake, 'does not offer STARTTLS');
  const heard = await say(handshake, 'starttls', { line: 'STARTTLS' });
  if (!isFailure(heard) && heard.code !== 220 && wire.failure === null) {
    return withoutTls(handshake, `refuses STARTTLS with ${heard.code}`);
  }
  // Bytes behind the 220 were put there by someone who cannot speak inside of TLS: the wire
  // has failed over them, and what follows must not be believed (CVE-2011-0411).
  if (wire.failure !== null) return failed(transcript, 'starttls', wire.failure);

  const secured = await secure(wire.release(), options, timeouts.tls);
  if ('cause' in secured) {
    wire.fail(secured.cause, secured.message);
    return failed(transcript, 'tls', secured);
  }
  wire.adopt(secured.socket);
  const unproven = proofMissing(options, secured.facts);
  if (unproven !== null) return failed(transcript, 'tls', unproven);
  const { version, cipher, verified, problem } = (handshake.tls = secured.facts);
  const how = options.dane === undefined ? '' : ' by DANE';
  const proof = verified ? `verified${how}` : `not verified: ${problem}`;
  transcript.note(`${version} ${cipher}, certificate ${proof}`);
  return sayHello(handshake);
}

function withoutTls({ options, transcript }: Handshake, why: string): Stopped {
  if (options.tls === 'opportunistic') return null;
  const message = `The server ${why}, and TLS is required.`;
  const tlsResult = 'starttls-not-supported' as const;
  return failed(transcript, 'starttls', { cause: 'tls', message, tlsResult });
}

async function authenticate(handshake: Handshake): Promise<Stopped> {
  const { options, transcript } = handshake;
  if (options.auth === undefined) return null;
  if (handshake.tls === null && !isLoopback(options.address)) {
    const message = 'The relay offers no TLS, and a password is not sent in plain text.';
    return failed(transcript, 'auth', { cause: 'tls', message });
  }
  const heard = await logIn(handshake, options.auth);
  if (heard !== null) return stopUnless(235, { handshake, phase: 'auth', heard });
  const message = 'The relay offers neither AUTH PLAIN nor AUTH LOGIN.';
  return failed(transcript, 'auth', { cause: 'garbage', message });
}

/** Those of RFC 5321 and 4954 with a place of their own; any other 2yz is a yes (§4.2). */
const PLACED_CODES: ReadonlySet<number> = new Set([211, 214, 220, 221, 235, 250, 251, 252]);

/** Null for the one code that lets the handshake go on. */
function stopUnless(
  code: number,
  { handshake, phase, heard }: { handshake: Handshake; phase: SmtpPhase; heard: Heard },
): Stopped {
  const { transcript } = handshake;
  if (isFailure(heard)) return failed(transcript, phase, heard);
  if (heard.code === code || (heard.code < 300 && !PLACED_CODES.has(heard.code))) return null;
  if (heard.code >= 400) {
    return { kind: 'replied', phase, reply: heard, transcript: transcript.take() };
  }
  const message = `The server answered ${heard.code} where only ${code} can stand.`;
  return failed(transcript, phase, { cause: 'garbage', message });
}

function failed(transcript: Transcript, phase: SmtpPhase, why: WireFailure): SmtpFailure {
  transcript.note(why.message);
  return { kind: 'failed', phase, ...why, transcript: transcript.take() };
}
