/**
 * An SMTP server: listens, enforces limits per client, and runs a session per connection (RFC 5321, 1870, 2034,
 * 2920, 3207, 3461, 4954, 6152, 6531). It uses no database. Its handlers (accept/smtp-submission.ts,
 * inbound/smtp-inbound.ts) decide which messages are accepted, and make them durable.
 *
 * Memory is bounded: about 64 KB for each waiting connection, and one budget for all content that is being received.
 * Workers can share a port.
 *
 *     server-types.ts        options, limits and the handlers' interface
 *     server-limits.ts       admission of connections, rates per client
 *     server-wire.ts         bytes, lines, TLS, timeouts
 *     server-commands.ts     the grammar of commands
 *     server-transaction.ts  one message: MAIL, RCPT, DATA and its content
 */
import { createServer, type Server, type Socket } from 'node:net';
import { clientOf } from '../addresses.ts';
import {
  type Command,
  isAnotherProtocol,
  readCommand,
  readCredentials,
} from './server-commands.ts';
import { Admission, ContentBudget, KnownClients, MinuteCounts } from './server-limits.ts';
import {
  BARE_LINE_END,
  HELLO_FIRST,
  type SessionParts,
  SmtpServerTransaction,
} from './server-transaction.ts';
import {
  answerOf,
  closing,
  SMTP_SERVER_LIMITS,
  type SmtpAnswer,
  type SmtpServerLimits,
  type SmtpSessionOptions,
} from './server-types.ts';
import { type LineRead, replyText, SmtpServerWire } from './server-wire.ts';
export type {
  SmtpEnvelope,
  SmtpHandlers,
  SmtpLogIn,
  SmtpMessage,
  SmtpServerLimits,
  SmtpSession,
} from './server-types.ts';

export type SmtpServerOptions<User> = SmtpSessionOptions<User> & {
  /** Clients that logged in recently, shared with other ports and workers. Default: only of this port. */
  known?: KnownClients;
};

type Open<User> = { session: SmtpServerSession<User>; wire: SmtpServerWire; over: Promise<void> };

export class SmtpServer<User = null> {
  readonly #options: SmtpServerOptions<User>;
  readonly #limits: SmtpServerLimits;
  readonly #admission: Admission;
  readonly #content: ContentBudget;
  readonly #messages: MinuteCounts;
  readonly #server: Server;
  readonly #open = new Set<Open<User>>();

  constructor(options: SmtpServerOptions<User>) {
    this.#options = options;
    this.#limits = { ...SMTP_SERVER_LIMITS, ...options.limits };
    const { world, known = new KnownClients(world) } = options;
    this.#admission = new Admission(this.#limits, { world, known });
    this.#content = new ContentBudget(this.#limits);
    this.#messages = new MinuteCounts(world);
    // Half open: a client that has closed its sending side still gets its replies.
    const tcp = { allowHalfOpen: true, noDelay: true, pauseOnConnect: true };
    this.#server = createServer(tcp, (socket) => this.#welcome(socket));
  }

  /** Listens; without a host, on all addresses. @returns the port, which differs from a requested 0 */
  listen(where: { host?: string; port: number }): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(where, () => {
        this.#server.off('error', reject);
        const address = this.#server.address();
        resolve(typeof address === 'object' && address !== null ? address.port : where.port);
      });
    });
  }

  /**
   * Stops accepting connections, completes messages in progress, and ends all other sessions with 421. Resolves when
   * every session has ended.
   * @param graceMs limit on the wait for messages in progress
   */
  async close(graceMs = 30_000): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const { session } of this.#open) session.stop();
    const timer = setTimeout(() => {
      for (const { wire } of this.#open) wire.destroy();
    }, graceMs);
    await Promise.all([...this.#open].map(({ over }) => over));
    clearTimeout(timer);
    await closed;
  }

  #welcome(socket: Socket): void {
    const { remoteAddress = '', localPort = 0 } = socket;
    const client = clientOf(remoteAddress);
    let session: SmtpServerSession<User> | null = null;
    const visit = this.#admission.enter(client, (answer) => session?.shut(answer));
    if ('refused' in visit) return refuse(socket, visit.refused, this.#options.tls.mode);
    socket.once('close', () => visit.leave());
    const wire = new SmtpServerWire(socket, this.#options.onReply);
    session = new SmtpServerSession(wire, {
      options: this.#options,
      limits: this.#limits,
      visit,
      content: this.#content,
      messages: this.#messages,
      facts: {
        id: this.#options.world.newId(),
        remoteAddress,
        client,
        localPort,
        helo: '',
        protocol: 'SMTP',
        tls: null,
        user: null,
      },
    });
    const open: Open<User> = { session, wire, over: session.run() };
    this.#open.add(open);
    const forget = (): void => void this.#open.delete(open);
    open.over.then(forget, forget);
  }
}

/** Does not wait for the reply to be sent: it fits into the socket's send buffer. */
function refuse(socket: Socket, answer: SmtpAnswer, mode: 'starttls' | 'implicit'): void {
  socket.on('error', () => {});
  if (mode === 'implicit') socket.destroy();
  else socket.write(replyText(answer), () => socket.destroy());
}

const OK = answerOf(250, '2.0.0', 'Ok');
const STOPPING = closing(421, '4.3.2', 'This server is stopping; try again in a moment');
const NO_TLS_NOW = answerOf(454, '4.7.0', 'TLS is not available at present');
const BROKEN = answerOf(451, '4.3.0', 'Internal error; try again later');
const LATE = closing(421, '4.4.2', 'Log-in timeout');
const LONG = closing(421, '4.4.2', 'This session has reached its maximum duration; open another');
/** The last reply of a session, by the reason for its end. */
const ENDS = {
  bare: BARE_LINE_END,
  too_long: closing(500, '5.5.2', 'This line is too long'),
  timeout: closing(421, '4.4.2', 'Timeout'),
} as const;
/** Commands without effect (NOOP, RSET, VRFY, …) in a row that do not count as errors. */
const IDLE_COMMANDS_MAX = 100;

/**
 * One session: commands in order, each with its reply (RFC 5321 §3, 4).
 *
 *     greeting → EHLO → (STARTTLS → EHLO) → (AUTH) → MAIL → RCPT… → DATA → MAIL … → QUIT
 *
 * The handler gets a message once, complete and with its own envelope, or not at all, and the client gets the
 * handler's reply. Input after which the start of the next command is uncertain ends the session: a bare CR or LF,
 * BDAT, bytes after STARTTLS, another protocol.
 */
export class SmtpServerSession<User> {
  readonly #parts: SessionParts<User>;
  readonly #wire: SmtpServerWire;
  readonly #transaction: SmtpServerTransaction<User>;
  #isEnding = false;
  #lastReply: SmtpAnswer | null = null;
  #errors = 0;
  #idleCommands = 0;

  constructor(wire: SmtpServerWire, parts: SessionParts<User>) {
    this.#wire = wire;
    this.#parts = parts;
    this.#transaction = new SmtpServerTransaction(wire, parts);
  }

  async run(): Promise<void> {
    const { options, limits, facts } = this.#parts;
    const logInTimer = later(options.logIn === undefined ? Infinity : limits.logInTimeoutMs, () => {
      if (facts.user === null) this.shut(LATE);
    });
    const sessionTimer = later(limits.sessionTimeoutMs, () => this.#stop(LONG));
    try {
      if (!(await this.#begin())) return;
      while (!this.#isEnding) await this.#next();
    } catch (error) {
      this.#parts.options.onBug?.(error);
    } finally {
      clearTimeout(logInTimer);
      clearTimeout(sessionTimer);
      this.#wire.close();
    }
  }

  /** Completes a message in progress, then replies 421. */
  stop(): void {
    this.#stop(STOPPING);
  }

  /** Ends the session at once, in any state. */
  shut(answer: SmtpAnswer): void {
    this.#isEnding = true;
    this.#wire.shut(answer);
  }

  #stop(lastReply: SmtpAnswer): void {
    this.#lastReply = lastReply;
    this.#wire.interrupt();
  }

  async #begin(): Promise<boolean> {
    const { options } = this.#parts;
    if (options.tls.mode === 'implicit' && !(await this.#secure())) return false;
    // Early input was sent before the client could read the greeting.
    if (options.refusesEarlyTalkers !== false && (await this.#wire.hasEarlyInput())) {
      this.#answer(closing(554, '5.5.1', 'Wait for the greeting before sending commands'));
      return false;
    }
    this.#wire.reply(answerOf(220, null, `${options.hostname} ESMTP Letterhaus`));
    return true;
  }

  async #next(): Promise<void> {
    if (this.#lastReply !== null) return this.#answer(this.#lastReply);
    const read = await this.#wire.line(this.#parts.limits.commandTimeoutMs);
    if (read.kind !== 'line') return this.#end(read);
    const command = readCommand(read.line);
    if (command === null) {
      return this.#answer(
        answerOf(500, '5.5.2', 'A command must be UTF-8 without control characters'),
      );
    }
    try {
      await this.#obey(command);
    } catch (error) {
      this.#parts.options.onBug?.(error);
      this.#transaction.reset();
      this.#answer(BROKEN);
    }
  }

  #end({ kind }: Exclude<LineRead, { kind: 'line' }>): void {
    this.#isEnding = true;
    if (kind === 'stopping') this.#answer(this.#lastReply ?? STOPPING);
    else if (kind !== 'over') this.#answer(ENDS[kind]);
  }

  async #obey(command: Command): Promise<void> {
    const { verb, argument } = command;
    switch (verb) {
      case 'EHLO':
      case 'HELO':
        return this.#hello(verb, argument);
      case 'MAIL':
        return this.#answer(await this.#transaction.mail(argument));
      case 'RCPT':
        return this.#answer(await this.#transaction.rcpt(argument));
      case 'DATA':
        return this.#data(argument);
      case 'STARTTLS':
        return this.#startTls(argument);
      case 'AUTH':
        return this.#auth(argument);
      case 'QUIT':
        return this.#answer(closing(221, '2.0.0', 'Bye'));
      case 'RSET':
        this.#transaction.reset();
        return this.#answerIdle(OK);
      case 'NOOP':
        return this.#answerIdle(OK);
      case 'VRFY':
        return this.#answerIdle(answerOf(252, '2.5.0', 'Cannot verify; send the message'));
      case 'HELP':
        return this.#answerIdle(answerOf(214, '2.0.0', 'See RFC 5321'));
      default:
        return this.#refuseUnknown(command);
    }
  }

  #refuseUnknown(command: Command): void {
    if (isAnotherProtocol(command)) {
      return this.#answer(closing(500, '5.5.2', 'This is a mail server; it speaks SMTP only'));
    }
    // The chunk after BDAT must not be read as commands (RFC 3030).
    if (command.verb === 'BDAT') {
      return this.#answer(closing(502, '5.5.1', 'BDAT is not offered here; use DATA'));
    }
    const isKnown = /^(EXPN|ETRN|TURN|ATRN|SEND|SOML|SAML|XCLIENT|XFORWARD|BURL)$/.test(
      command.verb,
    );
    if (isKnown) return this.#answer(answerOf(502, '5.5.1', 'This command is not offered here'));
    return this.#answer(answerOf(500, '5.5.2', 'Unknown command'));
  }

  #hello(verb: 'EHLO' | 'HELO', name: string): void {
    if (!/^[^\s]{1,255}$/.test(name)) {
      return this.#answer(answerOf(501, '5.5.4', `Write ${verb} and the name of your host`));
    }
    const { facts, options } = this.#parts;
    this.#transaction.reset();
    facts.helo = name;
    facts.protocol = verb === 'HELO' ? 'SMTP' : 'ESMTP';
    this.#updateProtocol();
    if (verb === 'HELO') return this.#answer(answerOf(250, null, options.hostname));
    this.#wire.replyLines(250, [options.hostname, ...this.#extensions()]);
  }

  #extensions(): string[] {
    const { options, facts } = this.#parts;
    const mayStartTls = options.tls.mode === 'starttls' && facts.tls === null;
    const mayLogIn = options.logIn !== undefined && facts.tls !== null && facts.user === null;
    return [
      'PIPELINING',
      // RFC 1870 §3: 0 means no limit.
      `SIZE ${options.keptBytesMax === undefined ? options.sizeBytesMax : 0}`,
      '8BITMIME',
      'SMTPUTF8',
      'ENHANCEDSTATUSCODES',
      ...(options.offersDsn === true ? ['DSN'] : []),
      ...(mayStartTls && options.tls.context() !== null ? ['STARTTLS'] : []),
      ...(mayLogIn ? ['AUTH PLAIN LOGIN'] : []),
    ];
  }

  #updateProtocol(): void {
    const { facts } = this.#parts;
    if (facts.protocol === 'SMTP') return;
    const { tls, user } = facts;
    const withTls = user === null ? 'ESMTPS' : 'ESMTPSA';
    const withoutTls = user === null ? 'ESMTP' : 'ESMTPA';
    facts.protocol = tls === null ? withoutTls : withTls;
  }

  async #startTls(argument: string): Promise<void> {
    const { options, facts } = this.#parts;
    if (options.tls.mode !== 'starttls' || facts.tls !== null) {
      return this.#answer(answerOf(503, '5.5.1', 'This connection has TLS already'));
    }
    // Plain text after STARTTLS may have been injected (CVE-2011-0411).
    if (argument !== '' || this.#wire.hasMore) {
      return this.#answer(closing(501, '5.5.4', 'Nothing may follow STARTTLS before its reply'));
    }
    if (options.tls.context() === null) return this.#answer(NO_TLS_NOW);
    this.#answer(answerOf(220, '2.0.0', 'Go ahead'));
    this.#transaction.reset();
    facts.helo = '';
    if (!(await this.#secure())) this.#isEnding = true;
  }

  async #secure(): Promise<boolean> {
    const { options, limits, facts } = this.#parts;
    const context = options.tls.context();
    if (context === null || !(await this.#wire.secure(context, limits.tlsTimeoutMs))) return false;
    facts.tls = this.#wire.tls;
    return true;
  }

  async #auth(argument: string): Promise<void> {
    const { options, facts } = this.#parts;
    const refused = this.#refusesAuth();
    if (refused !== null || options.logIn === undefined) return this.#answer(refused ?? BROKEN);
    let end: LineRead | null = null;
    const read = await readCredentials(argument, async (challenge) => {
      this.#wire.reply(answerOf(334, null, challenge || ' '));
      const line = await this.#wire.line(this.#parts.limits.commandTimeoutMs);
      if (line.kind === 'line') return line.line.toString('latin1');
      end = line;
      return null;
    });
    if (read === null) return this.#end(end ?? { kind: 'over' });
    if ('refused' in read) return this.#answer(read.refused);
    const outcome = await options.logIn(facts, read);
    if ('refused' in outcome) return this.#answer(outcome.refused);
    facts.user = outcome.user;
    this.#parts.visit.loggedIn();
    this.#updateProtocol();
    this.#answer(answerOf(235, '2.7.0', 'Welcome'));
  }

  #refusesAuth(): SmtpAnswer | null {
    const { options, facts } = this.#parts;
    if (options.logIn === undefined) return answerOf(502, '5.5.1', 'AUTH is not offered here');
    if (facts.tls === null) {
      return answerOf(538, '5.7.11', 'Say STARTTLS first: no password goes over plain text');
    }
    if (facts.helo === '') return HELLO_FIRST;
    if (facts.user !== null) return answerOf(503, '5.5.1', 'You are logged in already');
    return this.#transaction.isOpen ? answerOf(503, '5.5.1', 'Not within a message') : null;
  }

  async #data(argument: string): Promise<void> {
    const answer = await this.#transaction.data(argument);
    this.#idleCommands = 0;
    if ('kind' in answer) return this.#end(answer);
    // An accepted message resets the count, because some applications send all mail in one session.
    if (answer.code < 300) this.#errors = 0;
    this.#answer(answer);
  }

  #answerIdle(answer: SmtpAnswer): void {
    this.#idleCommands += 1;
    if (this.#idleCommands > IDLE_COMMANDS_MAX) this.#errors += 1;
    this.#answer(answer);
  }

  #answer(answer: SmtpAnswer): void {
    if (answer.code >= 400 && answer.isExcused !== true) this.#errors += 1;
    this.#wire.reply(answer);
    if (answer.closes === true) this.#isEnding = true;
    if (this.#isEnding || this.#errors < this.#parts.limits.errorsPerSession) return;
    this.#isEnding = true;
    this.#wire.reply(answerOf(421, '4.7.0', 'Too many errors'));
  }
}

function later(ms: number, act: () => void): NodeJS.Timeout | undefined {
  return ms === Infinity ? undefined : setTimeout(act, ms);
}
