/**
 * One session of an SMTP server: commands in order, each with its reply (RFC 5321 §3, 4).
 *
 *     greeting → EHLO → (STARTTLS → EHLO) → (AUTH) → MAIL → RCPT… → DATA → MAIL … → QUIT
 *
 * The handler gets a message once, complete and with its own envelope, or not at all, and the client gets the
 * handler's reply. Input after which the start of the next command is uncertain ends the session: a bare CR or LF,
 * BDAT, bytes after STARTTLS, another protocol.
 */
import {
  type Command,
  isAnotherProtocol,
  readCommand,
  readCredentials,
} from './server-commands.ts';
import {
  BARE_LINE_END,
  HELLO_FIRST,
  type SessionContext,
  SmtpServerTransaction,
} from './server-transaction.ts';
import { closingReply, serverReply, type ServerReply } from './server-types.ts';
import { type LineRead, type SmtpServerWire } from './server-wire.ts';

const OK = serverReply(250, '2.0.0', 'Ok');
const STOPPING = closingReply(421, '4.3.2', 'This server is stopping; try again in a moment');
const NO_TLS_NOW = serverReply(454, '4.7.0', 'TLS is not available now');
const INTERNAL_ERROR = serverReply(451, '4.3.0', 'Internal error; try again later');
const LOG_IN_TIMEOUT = closingReply(421, '4.4.2', 'Log-in timeout');
const SESSION_TIMEOUT = closingReply(
  421,
  '4.4.2',
  'This session has reached its maximum duration; open another',
);
/** The last reply of a session, by the reason for its end. */
const LAST_REPLIES = {
  bare: BARE_LINE_END,
  too_long: closingReply(500, '5.5.2', 'This line is too long'),
  timeout: closingReply(421, '4.4.2', 'Timeout'),
} as const;
/** Commands without effect (NOOP, RSET, VRFY, …) in a row that do not count as errors. */
const IDLE_COMMANDS_MAX = 100;

export class SmtpServerSession<User> {
  readonly #context: SessionContext<User>;
  readonly #wire: SmtpServerWire;
  readonly #transaction: SmtpServerTransaction<User>;
  #isEnding = false;
  #lastReply: ServerReply | null = null;
  #errors = 0;
  #idleCommands = 0;

  constructor(wire: SmtpServerWire, context: SessionContext<User>) {
    this.#wire = wire;
    this.#context = context;
    this.#transaction = new SmtpServerTransaction(wire, context);
  }

  async run(): Promise<void> {
    const { options, limits, facts } = this.#context;
    const logInTimer = startTimer(
      options.logIn === undefined ? Infinity : limits.logInTimeoutMs,
      () => {
        if (facts.user === null) this.closeNow(LOG_IN_TIMEOUT);
      },
    );
    const sessionTimer = startTimer(limits.sessionTimeoutMs, () => this.#stop(SESSION_TIMEOUT));
    try {
      if (!(await this.#sendGreeting())) return;
      while (!this.#isEnding) await this.#serveCommand();
    } catch (error) {
      this.#context.options.onBug?.(error);
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
  closeNow(reply: ServerReply): void {
    this.#isEnding = true;
    this.#wire.closeNow(reply);
  }

  #stop(lastReply: ServerReply): void {
    this.#lastReply = lastReply;
    this.#wire.interrupt();
  }

  async #sendGreeting(): Promise<boolean> {
    const { options } = this.#context;
    if (options.tls.mode === 'implicit' && !(await this.#secure())) return false;
    // Early input was sent before the client could read the greeting.
    if (options.refusesEarlyTalkers !== false && (await this.#wire.hasEarlyInput())) {
      this.#reply(closingReply(554, '5.5.1', 'Wait for the greeting before sending commands'));
      return false;
    }
    this.#wire.reply(serverReply(220, null, `${options.hostname} ESMTP Letterhaus`));
    return true;
  }

  async #serveCommand(): Promise<void> {
    if (this.#lastReply !== null) return this.#reply(this.#lastReply);
    const read = await this.#wire.readLine(this.#context.limits.commandTimeoutMs);
    if (read.kind !== 'line') return this.#end(read);
    const command = readCommand(read.line);
    if (command === null) {
      return this.#reply(
        serverReply(500, '5.5.2', 'A command must be UTF-8 without control characters'),
      );
    }
    try {
      await this.#execute(command);
    } catch (error) {
      this.#context.options.onBug?.(error);
      this.#transaction.reset();
      this.#reply(INTERNAL_ERROR);
    }
  }

  #end({ kind }: Exclude<LineRead, { kind: 'line' }>): void {
    this.#isEnding = true;
    if (kind === 'stopping') this.#reply(this.#lastReply ?? STOPPING);
    else if (kind !== 'disconnected') this.#reply(LAST_REPLIES[kind]);
  }

  async #execute(command: Command): Promise<void> {
    const { verb, argument } = command;
    switch (verb) {
      case 'EHLO':
      case 'HELO':
        return this.#hello(verb, argument);
      case 'MAIL':
        return this.#reply(await this.#transaction.mail(argument));
      case 'RCPT':
        return this.#reply(await this.#transaction.rcpt(argument));
      case 'DATA':
        return this.#data(argument);
      case 'STARTTLS':
        return this.#startTls(argument);
      case 'AUTH':
        return this.#auth(argument);
      case 'QUIT':
        return this.#reply(closingReply(221, '2.0.0', 'Bye'));
      case 'RSET':
        this.#transaction.reset();
        return this.#replyToIdle(OK);
      case 'NOOP':
        return this.#replyToIdle(OK);
      case 'VRFY':
        return this.#replyToIdle(serverReply(252, '2.5.0', 'Cannot verify; send the message'));
      case 'HELP':
        return this.#replyToIdle(serverReply(214, '2.0.0', 'See RFC 5321'));
      default:
        return this.#refuseUnknown(command);
    }
  }

  #refuseUnknown(command: Command): void {
    if (isAnotherProtocol(command)) {
      return this.#reply(closingReply(500, '5.5.2', 'This is a mail server; it speaks SMTP only'));
    }
    // The chunk after BDAT must not be read as commands (RFC 3030).
    if (command.verb === 'BDAT') {
      return this.#reply(closingReply(502, '5.5.1', 'BDAT is not offered here; use DATA'));
    }
    const isKnown = /^(EXPN|ETRN|TURN|ATRN|SEND|SOML|SAML|XCLIENT|XFORWARD|BURL)$/.test(
      command.verb,
    );
    if (isKnown) return this.#reply(serverReply(502, '5.5.1', 'This command is not offered here'));
    return this.#reply(serverReply(500, '5.5.2', 'Unknown command'));
  }

  #hello(verb: 'EHLO' | 'HELO', name: string): void {
    if (!/^[^\s]{1,255}$/.test(name)) {
      return this.#reply(serverReply(501, '5.5.4', `Write ${verb} and the name of your host`));
    }
    const { facts, options } = this.#context;
    this.#transaction.reset();
    facts.helo = name;
    facts.protocol = verb === 'HELO' ? 'SMTP' : 'ESMTP';
    this.#updateProtocol();
    if (verb === 'HELO') return this.#reply(serverReply(250, null, options.hostname));
    this.#wire.replyLines(250, [options.hostname, ...this.#extensions()]);
  }

  #extensions(): string[] {
    const { options, facts } = this.#context;
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
    const { facts } = this.#context;
    if (facts.protocol === 'SMTP') return;
    const { tls, user } = facts;
    const withTls = user === null ? 'ESMTPS' : 'ESMTPSA';
    const withoutTls = user === null ? 'ESMTP' : 'ESMTPA';
    facts.protocol = tls === null ? withoutTls : withTls;
  }

  async #startTls(argument: string): Promise<void> {
    const { options, facts } = this.#context;
    if (options.tls.mode !== 'starttls' || facts.tls !== null) {
      return this.#reply(serverReply(503, '5.5.1', 'This connection has TLS already'));
    }
    // Plain text after STARTTLS may have been injected (CVE-2011-0411).
    if (argument !== '' || this.#wire.hasInput) {
      return this.#reply(
        closingReply(501, '5.5.4', 'Nothing may follow STARTTLS before its reply'),
      );
    }
    if (options.tls.context() === null) return this.#reply(NO_TLS_NOW);
    this.#reply(serverReply(220, '2.0.0', 'Go ahead'));
    this.#transaction.reset();
    facts.helo = '';
    if (!(await this.#secure())) this.#isEnding = true;
  }

  async #secure(): Promise<boolean> {
    const { options, limits, facts } = this.#context;
    const context = options.tls.context();
    if (context === null || !(await this.#wire.secure(context, limits.tlsTimeoutMs))) return false;
    facts.tls = this.#wire.tls;
    return true;
  }

  async #auth(argument: string): Promise<void> {
    const { options, facts } = this.#context;
    const refused = this.#authRefusal();
    if (refused !== null || options.logIn === undefined)
      return this.#reply(refused ?? INTERNAL_ERROR);
    let end: LineRead | null = null;
    const read = await readCredentials(argument, async (challenge) => {
      this.#wire.reply(serverReply(334, null, challenge || ' '));
      const line = await this.#wire.readLine(this.#context.limits.commandTimeoutMs);
      if (line.kind === 'line') return line.line.toString('latin1');
      end = line;
      return null;
    });
    if (read === null) return this.#end(end ?? { kind: 'disconnected' });
    if ('refused' in read) return this.#reply(read.refused);
    const result = await options.logIn(facts, read);
    if ('refused' in result) return this.#reply(result.refused);
    facts.user = result.user;
    this.#context.connection.recordLogIn();
    this.#updateProtocol();
    this.#reply(serverReply(235, '2.7.0', 'Welcome'));
  }

  #authRefusal(): ServerReply | null {
    const { options, facts } = this.#context;
    if (options.logIn === undefined) return serverReply(502, '5.5.1', 'AUTH is not offered here');
    if (facts.tls === null) {
      return serverReply(538, '5.7.11', 'Say STARTTLS first: no password goes over plain text');
    }
    if (facts.helo === '') return HELLO_FIRST;
    if (facts.user !== null) return serverReply(503, '5.5.1', 'You are logged in already');
    return this.#transaction.isOpen ? serverReply(503, '5.5.1', 'Not within a message') : null;
  }

  async #data(argument: string): Promise<void> {
    const reply = await this.#transaction.data(argument);
    this.#idleCommands = 0;
    if ('kind' in reply) return this.#end(reply);
    // An accepted message resets the count, because some applications send all mail in one session.
    if (reply.code < 300) this.#errors = 0;
    this.#reply(reply);
  }

  #replyToIdle(reply: ServerReply): void {
    this.#idleCommands += 1;
    if (this.#idleCommands > IDLE_COMMANDS_MAX) this.#errors += 1;
    this.#reply(reply);
  }

  #reply(reply: ServerReply): void {
    if (reply.code >= 400 && reply.isExcused !== true) this.#errors += 1;
    this.#wire.reply(reply);
    if (reply.closes === true) this.#isEnding = true;
    if (this.#isEnding || this.#errors < this.#context.limits.errorsPerSession) return;
    this.#isEnding = true;
    this.#wire.reply(serverReply(421, '4.7.0', 'Too many errors'));
  }
}

function startTimer(ms: number, onTimeout: () => void): NodeJS.Timeout | undefined {
  return ms === Infinity ? undefined : setTimeout(onTimeout, ms);
}
