/**
 * A scripted mail server on real sockets: it accepts mail until a test configures it, per phase or
 * per recipient, to reply otherwise, to time out, to disconnect or to send malformed data.
 * Several of them on 127.0.0.2, 127.0.0.3, ... with the same port are different MX hosts.
 *
 *     await using mx = await startFakeMx({ recipients: { 'full@acme.test': '452 4.2.2 Mailbox full' } });
 *     mx.set({ greylist: 1 });
 *     mx.messages[0].raw
 *
 * One session is in fake-mx-session.ts.
 */
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import type { ReplyPhase } from '../../src/mail/replies/smtp-reply.ts';
import { runFakeSession } from './fake-mx-session.ts';

/**
 * What happens instead of the usual answer. A string is the reply, `\n` between its lines. The
 * parts of an object happen in this order; none at all means silence for ever.
 */
export type FakeAnswer =
  | string
  | {
      /** Nothing happens before this does. */
      after?: Promise<unknown>;
      /** Nothing happens for so long. */
      afterMs?: number;
      reply?: string;
      /** Bytes as they are, in place of a reply; `times` repeats them (until the client leaves). */
      raw?: string | Buffer;
      times?: number;
      /** Sends a byte at a time, this many milliseconds apart. */
      dripMs?: number;
      /** `fin` hangs up politely, `rst` as a crashed machine does. */
      drop?: 'fin' | 'rst';
      /** At `data`: the message counts as taken, whatever is answered. */
      keep?: true;
    };

/** One answer always, or one per attempt with the last one repeated. */
export type FakeAnswers = FakeAnswer | readonly FakeAnswer[];

export type FakePhase = ReplyPhase | 'helo' | 'body';

export type MxBehaviour = {
  /** By phase. `body` happens at the first bytes of a message, after which nothing is read. */
  phases?: Partial<Record<FakePhase, FakeAnswers>>;
  /** Answers to RCPT, by address or local part in lower case. */
  recipients?: Record<string, FakeAnswers>;
  /** Answers to the message, by the same. */
  verdicts?: Record<string, FakeAnswers>;
  /** Every recipient is deferred this many times first. */
  greylist?: number;
  /** Each address that a client comes from begins anew at that. */
  greylistsByClient?: true;
  /** Reads a chunk of 64 KiB at most, then nothing for so long, and so on. */
  readPauseMs?: number;
  pipelining?: boolean;
  smtpUtf8?: boolean;
  /** Offers DSN, and takes parameters of RCPT. */
  dsn?: boolean;
  sizeBytesMax?: number;
  /** What it answers to MAIL after so many messages of a session. */
  sessionLimit?: { messages: number; answer: FakeAnswer };
  /** More sessions than this at once are greeted with a 421. */
  connectionsMax?: number;
  /**
   * `broken`: 220, then nonsense. `refused`: 454. `injected`: a reply behind the 220.
   * `outdated`: nothing newer than TLS 1.0. `silent`: no handshake comes. `narrow`: nonsense in
   * answer to a ClientHello that is larger than 512 bytes, as some old middleboxes.
   */
  startTls?:
    | 'absent'
    | 'offered'
    | 'broken'
    | 'refused'
    | 'injected'
    | 'outdated'
    | 'silent'
    | 'narrow';
  /** TLS from the first byte, for sessions that begin from now on. */
  implicitTls?: boolean;
  /** A file of test/support/certs; for mx.test, *.mx.test and localhost. Default `trusted`. */
  certificate?: 'trusted' | 'self-signed' | 'other-name' | 'expired';
  /** Sends the authority's certificate along with its own. */
  sendsChain?: boolean;
  /** Asks for this login before MAIL. */
  auth?: { user: string; pass: string; mechanisms?: readonly ('PLAIN' | 'LOGIN')[] };
};

export type ReceivedMessage = {
  envelopeFrom: string;
  recipients: string[];
  /** As sent: dots unstuffed, the end mark left out. */
  raw: Buffer;
  /** TLS version or null. */
  tls: string | null;
  /** What the session was shown over TLS; null in the clear. */
  certificate: NonNullable<MxBehaviour['certificate']> | null;
  smtpUtf8: boolean;
  /** Milliseconds since 1970. */
  at: number;
  /** Which session brought it, an index of `sessions`. */
  session: number;
};

/** `C: ` and `S: ` lines as the server saw them, messages left out. */
export type FakeSession = {
  lines: string[];
  /** The address of the client. */
  client: string;
  socket: Socket;
  ended: boolean;
  /** From the connection to the client's QUIT, or the end; Infinity: still there. */
  fromMs: number;
  untilMs: number;
  messages: number;
  /** Greeted with a 421, because there were too many. */
  isRefused: boolean;
};

/** What the sessions of one server share. */
export type FakeMxState = {
  behaviour: MxBehaviour;
  messages: ReceivedMessage[];
  sessions: FakeSession[];
  /** Times that a phase came up for which something is scripted. */
  acted: number;
  /** Attempts so far, by recipient and purpose: for greylisting and answers by attempt. */
  attempts: Map<string, number>;
};

export type FakeMx = AsyncDisposable & {
  readonly address: string;
  readonly port: number;
  readonly messages: readonly ReceivedMessage[];
  readonly sessions: readonly FakeSession[];
  /** Connections so far. */
  readonly connections: number;
  /** Times that a phase came up for which something was scripted. */
  readonly acted: number;
  /** Replaces the behaviour, also of sessions that have begun; counts attempts anew. */
  set(behaviour: MxBehaviour): void;
  /** Cuts all connections and refuses new ones. */
  stop(): Promise<void>;
  /** Listens again on the same port. */
  start(): Promise<void>;
};

export async function startFakeMx(
  behaviour: MxBehaviour = {},
  options: { address?: string; port?: number } = {},
): Promise<FakeMx> {
  const address = options.address ?? '127.0.0.1';
  const state: FakeMxState = {
    behaviour,
    messages: [],
    sessions: [],
    acted: 0,
    attempts: new Map(),
  };
  let server = await listen(state, address, options.port ?? 0);
  const { port } = server.address() as AddressInfo;

  async function stop(): Promise<void> {
    for (const session of state.sessions) session.socket.destroy();
    if (!server.listening) return;
    await new Promise((resolve) => server.close(resolve));
  }
  return {
    address,
    port,
    messages: state.messages,
    sessions: state.sessions,
    get connections() {
      return state.sessions.length;
    },
    get acted() {
      return state.acted;
    },
    set(next) {
      state.behaviour = next;
      state.attempts.clear();
    },
    stop,
    async start() {
      if (!server.listening) server = await listen(state, address, port);
    },
    [Symbol.asyncDispose]: stop,
  };
}

async function listen(state: FakeMxState, address: string, port: number): Promise<Server> {
  const server = createServer({ noDelay: true }, (socket) => runFakeSession(state, socket));
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(port, address, resolve);
  });
  return server;
}
