/** One session of the scripted mail server (fake-mx.ts). A message ends only at CRLF . CRLF. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { Socket } from 'node:net';
import { setImmediate as nextTurn, setTimeout as delay } from 'node:timers/promises';
import { createSecureContext, TLSSocket, type SecureContext } from 'node:tls';
import { FakeMxInput } from './fake-mx-input.ts';
import type {
  FakeReply,
  FakeReplies,
  FakeMxState,
  FakePhase,
  FakeSession,
  MxBehaviour,
  ReceivedMessage,
} from './fake-mx.ts';

type Envelope = { from: string; recipients: string[]; smtpUtf8: boolean };

export function runFakeSession(state: FakeMxState, socket: Socket): void {
  const session: FakeSession = {
    lines: [],
    client: socket.remoteAddress ?? '',
    socket,
    ended: false,
    fromMs: performance.now(),
    untilMs: Infinity,
    messages: 0,
    isRefused: false,
  };
  state.sessions.push(session);
  socket.once('close', () => {
    session.ended = true;
    session.untilMs = Math.min(session.untilMs, performance.now());
  });
  new Dialogue(state, session).run().catch((error: unknown) => {
    // Many tests are about a client that disconnects in the middle.
    if (!socket.destroyed) socket.destroy(error as Error);
  });
}

class Dialogue {
  readonly #state: FakeMxState;
  readonly #session: FakeSession;
  #socket: Socket;
  #input: FakeMxInput;
  #envelope: Envelope | null = null;
  #isLoggedIn = false;
  #certificate: ReceivedMessage['certificate'] = null;

  constructor(state: FakeMxState, session: FakeSession) {
    this.#state = state;
    this.#session = session;
    this.#socket = session.socket;
    this.#input = new FakeMxInput(this.#socket, state.behaviour.readPauseMs);
  }

  get #behaviour(): MxBehaviour {
    return this.#state.behaviour;
  }

  async run(): Promise<void> {
    if (this.#behaviour.implicitTls === true) await this.#secure();
    if (this.#isOneTooMany()) {
      this.#session.isRefused = true;
      await this.#reply({ reply: '421 4.7.0 Too many connections from you', drop: 'fin' });
    }
    await this.#phase('greeting', '220 fake.test ESMTP');
    for (;;) {
      const line = await this.#input.line();
      if (line === null) return;
      await this.#command(line.toString('utf8'));
    }
  }

  #isOneTooMany(): boolean {
    const open = this.#state.sessions.filter(
      ({ isRefused, untilMs }) => !isRefused && untilMs === Infinity,
    );
    return open.length > (this.#behaviour.connectionsMax ?? Infinity);
  }

  async #command(line: string): Promise<void> {
    this.#note('C', line);
    const verb = line.slice(0, 4).toUpperCase();
    if (verb === 'EHLO') await this.#phase('ehlo', this.#extensions());
    else if (verb === 'HELO') await this.#phase('helo', '250 fake.test');
    else if (verb === 'STAR') await this.#startTls();
    else if (verb === 'AUTH') await this.#authenticate(line);
    else if (verb === 'MAIL') await this.#mail(line);
    else if (verb === 'RCPT') await this.#rcpt(line);
    else if (verb === 'DATA') await this.#data();
    else if (verb === 'RSET') {
      this.#envelope = null;
      await this.#phase('rset', '250 2.0.0 Reset');
    } else if (verb === 'QUIT') {
      this.#session.untilMs = performance.now();
      await this.#phase('quit', { reply: '221 2.0.0 Bye', drop: 'fin' });
    } else await this.#say('502 5.5.2 Unknown command');
  }

  #extensions(): string {
    const { pipelining, smtpUtf8, dsn, sizeBytesMax, startTls = 'absent', auth } = this.#behaviour;
    const isPlain = !(this.#socket instanceof TLSSocket);
    return [
      'fake.test greets you',
      ...(pipelining === false ? [] : ['PIPELINING']),
      ...(smtpUtf8 === false ? [] : ['8BITMIME', 'SMTPUTF8']),
      ...(dsn === true ? ['DSN'] : []),
      ...(sizeBytesMax === undefined ? [] : [`SIZE ${sizeBytesMax}`]),
      ...(startTls === 'absent' || !isPlain ? [] : ['STARTTLS']),
      ...(auth === undefined ? [] : [`AUTH ${(auth.mechanisms ?? ['PLAIN', 'LOGIN']).join(' ')}`]),
      'ENHANCEDSTATUSCODES',
    ]
      .map((text, i, all) => `250${i < all.length - 1 ? '-' : ' '}${text}`)
      .join('\n');
  }

  async #startTls(): Promise<void> {
    const kind = this.#behaviour.startTls ?? 'absent';
    if (kind === 'absent') return this.#say('502 5.5.1 No TLS here');
    if (kind === 'refused') return this.#say('454 4.7.0 TLS not available');
    if (kind === 'injected') return this.#say('220 Go ahead\n250 2.0.0 Injected');
    await this.#phase('starttls', '220 2.0.0 Go ahead');
    if (kind === 'silent') return this.#input.never();
    if (kind === 'broken') return this.#refuseHandshake();
    if (kind === 'narrow' && (await this.#helloBytes()) > 512) return this.#refuseHandshake();
    await this.#secure();
  }

  /** Inspects the ClientHello without consuming it. */
  async #helloBytes(): Promise<number> {
    this.#input.release();
    this.#socket.pause();
    await once(this.#socket, 'readable');
    const hello: Buffer = this.#socket.read() ?? Buffer.alloc(0);
    this.#socket.unshift(hello);
    this.#socket.removeAllListeners('readable');
    if (hello.length > 512) this.#input = new FakeMxInput(this.#socket);
    return hello.length;
  }

  /** Waits for the ClientHello: earlier noise would be an injected reply. */
  async #refuseHandshake(): Promise<void> {
    await this.#input.some();
    this.#socket.write('this is not TLS\r\n'.repeat(10));
    await this.#input.never();
  }

  async #secure(): Promise<void> {
    this.#input.release();
    const outdated = this.#behaviour.startTls === 'outdated';
    const secure = new TLSSocket(this.#socket, {
      isServer: true,
      secureContext: secureContext(this.#behaviour, outdated),
    });
    this.#envelope = null;
    this.#certificate = this.#behaviour.certificate ?? 'trusted';
    this.#socket = secure;
    this.#input = new FakeMxInput(secure);
  }

  async #authenticate(line: string): Promise<void> {
    const { auth } = this.#behaviour;
    const [, mechanism, initial = ''] = line.split(' ');
    let given = decoded(initial).split('\0').slice(1);
    if (mechanism === 'LOGIN') {
      given = [];
      for (const prompt of ['Username:', 'Password:']) {
        await this.#say(`334 ${Buffer.from(prompt).toString('base64')}`);
        given.push(decoded(String(await this.#input.line())));
      }
    }
    this.#isLoggedIn = auth?.user === given[0] && auth?.pass === given[1];
    const reply = this.#isLoggedIn ? '235 2.7.0 Welcome' : '535 5.7.8 Wrong user or password';
    await this.#phase('auth', reply);
  }

  async #mail(line: string): Promise<void> {
    if (this.#behaviour.auth !== undefined && !this.#isLoggedIn) {
      return this.#say('530 5.7.0 Log in first');
    }
    if (this.#envelope !== null) return this.#say('503 5.5.1 Nested MAIL command');
    const from = /^MAIL FROM:<([^<>]*)>(.*)$/.exec(line);
    if (from === null) return this.#say('501 5.5.4 Not an address');
    const isTaken = await this.#phase('mail', this.#overLimit() ?? '250 2.1.0 Ok');
    if (!isTaken) return;
    this.#envelope = {
      from: from[1]!,
      recipients: [],
      smtpUtf8: from[2]!.split(' ').includes('SMTPUTF8'),
    };
  }

  #overLimit(): FakeReply | null {
    const { sessionLimit } = this.#behaviour;
    return this.#session.messages >= (sessionLimit?.messages ?? Infinity)
      ? sessionLimit!.reply
      : null;
  }

  async #rcpt(line: string): Promise<void> {
    if (this.#envelope === null) return this.#say('503 5.5.1 MAIL first');
    const [, address, parameters] = /^RCPT TO:<([^<>]+)>(.*)$/.exec(line) ?? [];
    const mayHaveParameters = this.#behaviour.dsn === true;
    if (address === undefined || (parameters !== '' && !mayHaveParameters))
      return this.#say('501 5.1.3 Not an address');
    const isTaken = await this.#phase('rcpt', this.#replyToRecipient(address));
    if (isTaken) this.#envelope.recipients.push(address);
  }

  #replyToRecipient(address: string): FakeReply {
    const from = this.#behaviour.greylistsByClient === true ? ` ${this.#session.client}` : '';
    const attempt = this.#count(`greylist ${address}${from}`);
    if (attempt <= (this.#behaviour.greylist ?? 0)) return '451 4.7.1 Greylisted, try again later';
    return this.#scripted('recipients', address) ?? '250 2.1.5 Ok';
  }

  async #data(): Promise<void> {
    if (this.#envelope === null) return this.#say('503 5.5.1 MAIL first');
    if (
      this.#envelope.recipients.length === 0 &&
      this.#behaviour.phases?.data_command === undefined
    ) {
      return this.#say('554 5.5.1 No valid recipients');
    }
    if (!(await this.#phase('data_command', '354 Send the message'))) return;
    const atBody = this.#atPhase('body');
    if (atBody !== undefined) await this.#body(atBody);

    const raw = await this.#input.message();
    if (raw === null) return;
    this.#note('C', `(${raw.length} bytes)`);
    await this.#dot(raw);
    this.#envelope = null;
  }

  /** Reads a little, then replies and stops reading, so that the client's writes pile up. */
  async #body(scripted: FakeReply): Promise<void> {
    await this.#input.some();
    await this.#reply(scripted);
    return this.#input.never();
  }

  async #dot(raw: Buffer): Promise<void> {
    const envelope = this.#envelope!;
    const forRecipient = envelope.recipients
      .map((address) => this.#scripted('messageReplies', address))
      .find((scripted) => scripted !== undefined);
    const scripted =
      forRecipient ??
      this.#atPhase('data') ??
      (envelope.recipients.length === 0 ? '554 5.5.1 No valid recipients' : '250 2.0.0 Taken');
    const keeps = typeof scripted === 'object' && scripted.keep === true;
    // Stored before the reply, so that a client with the reply finds the message.
    if (keeps || codeOf(scripted) < 300) {
      const tls = this.#socket instanceof TLSSocket ? this.#socket.getProtocol() : null;
      const { from: envelopeFrom, recipients, smtpUtf8 } = envelope;
      const session = this.#state.sessions.indexOf(this.#session);
      const at = Date.now();
      this.#session.messages += 1;
      const certificate = this.#certificate;
      this.#state.messages.push({
        envelopeFrom,
        recipients,
        raw,
        tls,
        certificate,
        smtpUtf8,
        at,
        session,
      });
    }
    await this.#reply(scripted);
  }

  #scripted(table: 'recipients' | 'messageReplies', address: string): FakeReply | undefined {
    const key = address.toLowerCase();
    const localPart = key.slice(0, key.lastIndexOf('@'));
    const replies = this.#behaviour[table]?.[key] ?? this.#behaviour[table]?.[localPart];
    return this.#inTurn(replies, `${table} ${key}`);
  }

  #atPhase(phase: FakePhase): FakeReply | undefined {
    const replies = this.#behaviour.phases?.[phase];
    if (replies !== undefined) this.#state.acted += 1;
    return this.#inTurn(replies, `phase ${phase}`);
  }

  #inTurn(replies: FakeReplies | undefined, purpose: string): FakeReply | undefined {
    if (!isList(replies)) return replies;
    return replies[Math.min(this.#count(purpose), replies.length) - 1];
  }

  #count(what: string): number {
    const count = (this.#state.attempts.get(what) ?? 0) + 1;
    this.#state.attempts.set(what, count);
    return count;
  }

  /** Does what the script says for the phase, else gives the default reply. True after a 2xx or 3xx. */
  async #phase(phase: FakePhase, byDefault: FakeReply): Promise<boolean> {
    const scripted = this.#atPhase(phase) ?? byDefault;
    await this.#reply(scripted);
    return codeOf(scripted) < 400;
  }

  #say(reply: string): Promise<void> {
    return this.#reply(reply);
  }

  async #reply(scripted: FakeReply): Promise<void> {
    if (typeof scripted === 'string') return this.#reply({ reply: scripted });
    await scripted.after;
    if (scripted.afterMs !== undefined) await delay(scripted.afterMs);
    if (scripted.reply !== undefined) {
      for (const line of scripted.reply.split('\n')) this.#note('S', line);
      await this.#write(`${scripted.reply.replaceAll('\n', '\r\n')}\r\n`, scripted.dripMs);
    }
    for (let i = 0; scripted.raw !== undefined && i < (scripted.times ?? 1); i++) {
      if (this.#socket.destroyed) return;
      await this.#write(scripted.raw, scripted.dripMs);
    }
    if (scripted.drop === 'rst') this.#session.socket.resetAndDestroy();
    if (scripted.drop === 'fin') this.#socket.end();
    const isSilent = scripted.reply === undefined && scripted.raw === undefined;
    if (isSilent || scripted.drop !== undefined) await this.#input.never();
  }

  /** Resolves when the bytes are sent, so that an endless reply does not fill the memory. */
  async #write(bytes: string | Buffer, dripMs: number | undefined): Promise<void> {
    if (dripMs === undefined) {
      await new Promise<void>((resolve) => this.#socket.write(bytes, () => resolve()));
      return nextTurn();
    }
    for (const byte of Buffer.from(bytes as string)) {
      if (this.#socket.destroyed) return;
      this.#socket.write(Buffer.of(byte));
      await delay(dripMs);
    }
  }

  #note(side: 'C' | 'S', line: string): void {
    this.#session.lines.push(`${side}: ${line}`);
  }
}

const contexts = new Map<string, SecureContext>();

function secureContext(
  { certificate = 'trusted', sendsChain = false }: MxBehaviour,
  outdated: boolean,
): SecureContext {
  const key = `${certificate} ${sendsChain} ${outdated}`;
  const known = contexts.get(key);
  if (known !== undefined) return known;
  const pem = readFileSync(new URL(`certs/${certificate}.pem`, import.meta.url));
  const chain = sendsChain ? readFileSync(new URL('certs/ca.pem', import.meta.url)) : '';
  const context = createSecureContext({
    key: pem,
    cert: `${pem.toString()}${chain.toString()}`,
    ...(outdated
      ? { minVersion: 'TLSv1', maxVersion: 'TLSv1', ciphers: 'DEFAULT@SECLEVEL=0' }
      : {}),
  });
  contexts.set(key, context);
  return context;
}

function isList(replies: FakeReplies | undefined): replies is readonly FakeReply[] {
  return Array.isArray(replies);
}

function codeOf(scripted: FakeReply): number {
  const reply = typeof scripted === 'string' ? scripted : scripted.reply;
  return Number(reply?.slice(0, 3) ?? 999);
}

function decoded(base64: string): string {
  return Buffer.from(base64, 'base64').toString('utf8');
}
