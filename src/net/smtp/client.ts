/**
 * The SMTP client: from an address to a session that is ready for messages (RFC 5321, 3207).
 *
 *     connect → greeting → EHLO (HELO) → STARTTLS → EHLO → AUTH → ready
 *
 * The result has the last phase and the reason for stopping. The caller decides whether to try the next MX, to retry
 * later, or to continue without TLS. It also checks the address; nothing is resolved here.
 *
 *     transaction.ts  the dialogue for one message
 *     session.ts      options, results, commands, transcript, extensions of the server
 *     tls.ts          handshake and certificate
 *     wire.ts         bytes, replies, timeouts
 */
import { BlockList, connect, isIPv6, type Socket } from 'node:net';
import { failpoint } from '../../lib/failpoint.ts';
import type { SmtpPhase, SmtpReply } from '../../mail/replies/smtp-reply.ts';
import {
  extensionsOf,
  type Follower,
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
  type Transaction,
  type TransactionResult,
  Transcript,
} from './client-session.ts';
import { proofMissing, secure } from './client-tls.ts';
import { runTransaction } from './client-transaction.ts';
import { type ReplyRead, isFailure, SmtpWire, type WireFailure } from './client-wire.ts';
export type { SmtpFailureCause } from '../../mail/replies/smtp-reply.ts';
export type {
  Follower,
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

/** The reason why a step ends the handshake; null: the handshake continues. */
type Stopped = Exclude<ConnectResult, { kind: 'ready' }> | null;

type Handshake = Session & { options: SmtpOptions; tls: SmtpTlsFacts | null };

/** Opens a session. Never rejects because of the network or the server. */
export async function connectSmtp(options: SmtpOptions): Promise<ConnectResult> {
  const handshake = await open(options);
  if ('kind' in handshake) return handshake;
  const giveUp = (): void => void handshake.wire.fail('closed', GIVEN_UP);
  options.signal?.addEventListener('abort', giveUp);
  if (options.signal?.aborted === true) giveUp();
  try {
    return await shakeHands(handshake);
  } finally {
    options.signal?.removeEventListener('abort', giveUp);
  }
}

const GIVEN_UP = 'The connection was aborted before the session was ready.';

async function shakeHands(handshake: Handshake): Promise<ConnectResult> {
  const stopped =
    (await readGreeting(handshake)) ??
    (await sendHello(handshake)) ??
    (await startTls(handshake)) ??
    (await authenticate(handshake));
  if (stopped !== null) {
    await quit(handshake);
    return stopped;
  }
  failpoint('smtp_after_hello');
  const { host, address } = handshake.options;
  const facts = { host, address };
  return { kind: 'ready', connection: new SmtpConnection(handshake, facts, handshake.tls) };
}

/** RFC 5321 §4.1.1.10: a client sends QUIT before it closes a working session. */
async function quit(handshake: Handshake): Promise<void> {
  if (handshake.wire.failure === null) await sendCommand(handshake, 'quit', { line: 'QUIT' });
  handshake.wire.fail('closed', 'The handshake did not succeed.');
}

async function open(options: SmtpOptions): Promise<Handshake | SmtpFailure> {
  const timeouts = { ...SMTP_TIMEOUTS_MS, ...options.timeouts };
  const transcript = new Transcript();
  transcript.note(`connecting to ${options.host} [${options.address}]:${options.port}`);

  failpoint('smtp_before_connect');
  let socket = await openSocket(
    options,
    Math.min(timeouts.connect, options.connectMaxMs ?? Infinity),
  );
  if ('cause' in socket) return failed(transcript, 'connect', socket);
  let tls: SmtpTlsFacts | null = null;
  if (options.implicitTls === true) {
    const secured = await secure(socket, options, timeouts.tls);
    if ('cause' in secured) return failed(transcript, 'tls', secured);
    ({ socket, facts: tls } = secured);
    const unproven = proofMissing(options, tls);
    if (unproven !== null) {
      // A destroyed socket may still emit an error.
      socket.on('error', () => {}).destroy();
      return failed(transcript, 'tls', unproven);
    }
  }
  const wire = new SmtpWire(socket);
  wire.expectReply();
  const fresh = { extensions: NO_EXTENSIONS, needsReset: false, announced: null };
  return { wire, transcript, timeouts, ...fresh, options, tls };
}

/** Errors of this machine: the address cannot be bound, or has no route. */
const OUR_PROBLEMS = /^(?:EADDRNOTAVAIL|EADDRINUSE|ENETUNREACH|EAFNOSUPPORT|EINVAL|EACCES|EPERM)$/;

function openSocket(options: SmtpOptions, timeoutMs: number): Promise<Socket | WireFailure> {
  const { address, port, localAddress, signal } = options;
  const bound = localAddress === undefined ? {} : { localAddress };
  return new Promise((resolve) => {
    const socket = connect({ host: address, port, noDelay: true, ...bound });
    const end = (message: string): void => {
      settle();
      socket.destroy();
      resolve({ cause: 'timeout', message });
    };
    const timer = setTimeout(() => end(`No connection within ${timeoutMs / 1000} s.`), timeoutMs);
    const giveUp = (): void => end(GIVEN_UP);
    signal?.addEventListener('abort', giveUp);
    const settle = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', giveUp);
    };
    if (signal?.aborted === true) return giveUp();
    const refuse = (error: NodeJS.ErrnoException): void => {
      settle();
      const isOurs = localAddress !== undefined && OUR_PROBLEMS.test(`${error.code}`);
      const from = isOurs ? ` from ${localAddress}` : '';
      const message = `No connection${from} (${error.code ?? error.message}).`;
      resolve({ cause: 'unreachable', message, ...(isOurs && { ourProblem: true }) });
    };
    socket.once('error', refuse).once('connect', () => {
      settle();
      socket.off('error', refuse);
      resolve(socket);
    });
  });
}

async function readGreeting(handshake: Handshake): Promise<Stopped> {
  const read = await readReply(handshake, 'greeting');
  return stopUnless(220, { handshake, phase: 'greeting', read });
}

/** Sends EHLO, or HELO to a server without EHLO (RFC 5321 §3.2). */
async function sendHello(handshake: Handshake): Promise<Stopped> {
  const name = handshake.options.heloName;
  let read = await sendCommand(handshake, 'ehlo', { line: plainCommand('EHLO', name) });
  handshake.extensions = isFailure(read) ? NO_EXTENSIONS : extensionsOf(read);
  if (!isFailure(read) && read.code >= 500 && handshake.wire.failure === null) {
    read = await sendCommand(handshake, 'ehlo', { line: plainCommand('HELO', name) });
    handshake.extensions = NO_EXTENSIONS;
  }
  return stopUnless(250, { handshake, phase: 'ehlo', read });
}

async function startTls(handshake: Handshake): Promise<Stopped> {
  const { options, wire, transcript, timeouts } = handshake;
  if (handshake.tls !== null || options.tls === 'off') return null;
  if (!handshake.extensions.startTls) return withoutTls(handshake, 'does not offer STARTTLS');
  const read = await sendCommand(handshake, 'starttls', { line: 'STARTTLS' });
  if (!isFailure(read) && read.code !== 220 && wire.failure === null) {
    return withoutTls(handshake, `refuses STARTTLS with ${read.code}`);
  }
  // Bytes after the 220 were injected in plain text. They made the wire fail, and must not be trusted
  // (CVE-2011-0411).
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
  return sendHello(handshake);
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
  const read = await logIn(handshake, options.auth);
  if (read !== null) return stopUnless(235, { handshake, phase: 'auth', read });
  const message = 'The relay offers neither AUTH PLAIN nor AUTH LOGIN.';
  return failed(transcript, 'auth', { cause: 'garbage', message });
}

/** 2yz codes with a specific meaning in RFC 5321 and 4954. Any other 2yz is success (§4.2). */
const PLACED_CODES: ReadonlySet<number> = new Set([211, 214, 220, 221, 235, 250, 251, 252]);

/** Returns null for the code with which the handshake continues. */
function stopUnless(
  code: number,
  { handshake, phase, read }: { handshake: Handshake; phase: SmtpPhase; read: ReplyRead },
): Stopped {
  const { transcript, wire } = handshake;
  if (isFailure(read)) return failed(transcript, phase, read);
  if (read.code === code || (read.code < 300 && !PLACED_CODES.has(read.code))) {
    // The rest of the reply may have ended the connection.
    return wire.failure === null ? null : failed(transcript, phase, wire.failure);
  }
  if (read.code >= 400) {
    return { kind: 'replied', phase, reply: read, transcript: transcript.take() };
  }
  const message = `The server answered ${read.code} instead of ${code}.`;
  return failed(transcript, phase, { cause: 'garbage', message });
}

function failed(transcript: Transcript, phase: SmtpPhase, why: WireFailure): SmtpFailure {
  transcript.note(why.message);
  return { kind: 'failed', phase, ...why, transcript: transcript.take() };
}

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

/** Returns whether a password may be sent in plain text: only within this machine. */
export function isLoopback(address: string): boolean {
  return loopback.check(address, isIPv6(address) ? 'ipv6' : 'ipv4');
}

type Credentials = { user: string; pass: string };

/**
 * Authenticates at a relay by PLAIN (RFC 4616) or LOGIN. The transcript never has the password.
 * @returns the final reply (235: success); null when the relay offers neither mechanism
 */
async function logIn(session: Session, credentials: Credentials): Promise<ReplyRead | null> {
  const offered = session.extensions.authMechanisms;
  if (offered.includes('PLAIN')) return plain(session, credentials);
  if (offered.includes('LOGIN')) return login(session, credentials);
  return null;
}

function plain(session: Session, { user, pass }: Credentials): Promise<ReplyRead> {
  const line = `AUTH PLAIN ${base64(`\0${user}\0${pass}`)}`;
  return sendCommand(session, 'auth', { line, shown: 'AUTH PLAIN ***' });
}

async function login(session: Session, { user, pass }: Credentials): Promise<ReplyRead> {
  let read = await sendCommand(session, 'auth', { line: 'AUTH LOGIN' });
  for (const secret of [user, pass]) {
    if (isFailure(read) || read.code !== 334) return read;
    read = await sendCommand(session, 'auth', { line: base64(secret), shown: '***' });
  }
  return read;
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64');
}

/** Milliseconds that an announced message waits for the previous one. Then it needs another connection. */
const ANNOUNCED_WAIT_MS = 5_000;

/**
 * A session that is ready for messages. The connection pool keeps it. It sends one message at a time, and one more
 * can be announced. It is `reusable` unless the server left its state uncertain.
 */
export class SmtpConnection {
  readonly facts: { host: string; address: string };
  /** Null: plain text. */
  readonly tls: SmtpTlsFacts | null;
  messagesSent = 0;
  /** Called once when an idle connection ends: the server closed it, or sent an unrequested reply. */
  onIdleClose: (() => void) | null = null;

  readonly #session: Session;
  #busy = false;
  /** Called when the message before an announced one has a result. */
  #onTurn: (() => void) | null = null;
  /** The announced message was not sent in time, so the session cannot be used any more. */
  #isSpent = false;

  constructor(
    session: Session,
    facts: { host: string; address: string },
    tls: SmtpTlsFacts | null,
  ) {
    this.#session = session;
    this.facts = facts;
    this.tls = tls;
    session.wire.onEnd = () => {
      if (!this.#busy) this.onIdleClose?.();
    };
  }

  /** Whether another message may be sent. False while one is being sent or announced. */
  get reusable(): boolean {
    const { wire, announced } = this.#session;
    return !this.#busy && !this.#isSpent && announced === null && wire.failure === null;
  }

  get isBusy(): boolean {
    return this.#busy;
  }

  /** Whether a message may be announced while another is being sent. */
  get hasPipelining(): boolean {
    return this.#session.extensions.pipelining;
  }

  /** Whether the connection is reserved for an announced message that has not begun. */
  get hasAnnounced(): boolean {
    return this.#session.announced !== null;
  }

  /**
   * Sends one message to one recipient. Never rejects because of the server. Call it only when `reusable`, or with
   * the announced transaction. An announced one that cannot begin within ANNOUNCED_WAIT_MS fails in the phase `mail`
   * and is not sent.
   * @param follower returns the transaction to announce after this one
   */
  async send(
    transaction: Transaction,
    follower: Follower | null = null,
  ): Promise<TransactionResult> {
    const { announced } = this.#session;
    if ((this.#busy || announced !== null) && announced !== transaction) {
      throw new Error('This connection is busy with another message.');
    }
    if (this.#busy && !(await this.#turn())) return this.#withdraw();
    this.#busy = true;
    try {
      const result = await runTransaction(this.#session, transaction, follower);
      if (!('local' in result)) this.messagesSent++;
      return result;
    } finally {
      this.#busy = false;
      if (this.#isSpent) this.destroy();
      this.#onTurn?.();
    }
  }

  /** Waits for the previous message. @returns false when that takes too long */
  #turn(): Promise<boolean> {
    return new Promise((resolve) => {
      const timer = setTimeout(
        () => {
          this.#onTurn = null;
          resolve(false);
        },
        Math.min(ANNOUNCED_WAIT_MS, this.#session.timeouts.mail),
      );
      this.#onTurn = () => {
        clearTimeout(timer);
        this.#onTurn = null;
        resolve(true);
      };
    });
  }

  /** Ends the session: the server has the envelope, and would read further content as its message. */
  #withdraw(): TransactionResult {
    this.#isSpent = true;
    this.#session.announced = null;
    const message = 'The previous message on this connection took too long.';
    const facts = { phase: 'mail', cause: 'closed', message } as const;
    return { kind: 'failed', ...facts, inDoubt: false, transcript: [`(${message})`] };
  }

  /** Sends QUIT, waits up to 5 s, and closes. Never rejects. */
  async close(): Promise<void> {
    this.onIdleClose = null;
    if (this.reusable) {
      this.#busy = true;
      await sendCommand(this.#session, 'quit', { line: 'QUIT' });
    }
    this.destroy();
  }

  /** Closes the connection at once; a message in progress fails. */
  destroy(): void {
    this.onIdleClose = null;
    this.#session.wire.fail('closed', 'We closed the connection.');
  }
}
