/**
 * A scripted mail server on real sockets. It accepts mail until a test configures it, per phase or per recipient, to
 * reply otherwise, to time out, to disconnect or to send malformed data. Several servers on 127.0.0.2, 127.0.0.3,
 * ... with the same port are different MX hosts.
 *
 *     await using mx = await startFakeMx({ recipients: { 'full@acme.test': '452 4.2.2 Mailbox full' } });
 *     mx.set({ greylist: 1 });
 *     mx.messages[0].raw
 *
 * fake-mx-session.ts runs one session.
 */
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net';
import type { ReplyPhase } from '../../src/mail/replies/smtp-reply.ts';
import { runFakeSession } from './fake-mx-session.ts';

/**
 * Replaces the default reply. A string is the reply, with `\n` between its lines. The parts of an
 * object happen in this order; an empty object means silence for ever.
 */
export type FakeReply =
  | string
  | {
      /** The reply starts after this promise. */
      after?: Promise<unknown>;
      /** The reply starts after this time. */
      afterMs?: number;
      reply?: string;
      /** Raw bytes instead of a reply. `times` repeats them until the client disconnects. */
      raw?: string | Buffer;
      times?: number;
      /** Sends a byte at a time, this many milliseconds apart. */
      dripMs?: number;
      /** `fin` closes the connection in order; `rst` resets it like a crashed machine. */
      drop?: 'fin' | 'rst';
      /** At `data`: the message counts as accepted, with any reply. */
      keep?: true;
    };

/** One reply for all attempts, or one per attempt; the last one repeats. */
export type FakeReplies = FakeReply | readonly FakeReply[];

export type FakePhase = ReplyPhase | 'helo' | 'body';

export type MxBehaviour = {
  /** Replies by phase. `body` happens at the first bytes of a message, after which nothing is read. */
  phases?: Partial<Record<FakePhase, FakeReplies>>;
  /** Replies to RCPT, by address or local part in lower case. */
  recipients?: Record<string, FakeReplies>;
  /** Replies to the message, by address or local part in lower case. */
  messageReplies?: Record<string, FakeReplies>;
  /** Every recipient is first deferred this many times. */
  greylist?: number;
  /** Greylists each client address separately. */
  greylistsByClient?: true;
  /** Reads a chunk of at most 64 KiB, then pauses this long, and so on. */
  readPauseMs?: number;
  pipelining?: boolean;
  smtpUtf8?: boolean;
  /** Offers DSN and accepts its parameters of RCPT. */
  dsn?: boolean;
  sizeBytesMax?: number;
  /** Replies to MAIL like this after so many messages of a session. */
  sessionLimit?: { messages: number; reply: FakeReply };
  /** Greets further concurrent sessions with a 421. */
  connectionsMax?: number;
  /**
   * `broken`: 220, then noise. `refused`: 454. `injected`: a reply behind the 220. `outdated`: at most TLS 1.0.
   * `silent`: no handshake. `narrow`: noise in response to a ClientHello of more than 512 bytes, like some old
   * middleboxes.
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
  /** TLS from the first byte, for new sessions. */
  implicitTls?: boolean;
  /** A file of test/support/certs for mx.test, *.mx.test and localhost. Default `trusted`. */
  certificate?: 'trusted' | 'self-signed' | 'other-name' | 'expired';
  /** Sends the authority's certificate along with its own. */
  sendsChain?: boolean;
  /** Requires this log-in before MAIL. */
  auth?: { user: string; pass: string; mechanisms?: readonly ('PLAIN' | 'LOGIN')[] };
};

export type ReceivedMessage = {
  envelopeFrom: string;
  recipients: string[];
  /** The message with dots unstuffed, without the end mark. */
  raw: Buffer;
  tls: string | null;
  /** The certificate of the session; null in plain text. */
  certificate: NonNullable<MxBehaviour['certificate']> | null;
  smtpUtf8: boolean;
  at: number;
  /** The session of the message, as an index of `sessions`. */
  session: number;
};

/** `C: ` and `S: ` lines as the server saw them, without messages. */
export type FakeSession = {
  lines: string[];
  client: string;
  socket: Socket;
  ended: boolean;
  /** Milliseconds of the connection, and of the client's QUIT or the end; Infinity: still open. */
  fromMs: number;
  untilMs: number;
  messages: number;
  /** Greeted with a 421, because there were too many. */
  isRefused: boolean;
};

/** State that the sessions of one server share. */
export type FakeMxState = {
  behaviour: MxBehaviour;
  messages: ReceivedMessage[];
  sessions: FakeSession[];
  /** Number of scripted replies so far. */
  acted: number;
  /** Attempts so far, by recipient and purpose, for greylisting and replies by attempt. */
  attempts: Map<string, number>;
};

export type FakeMx = AsyncDisposable & {
  readonly address: string;
  readonly port: number;
  readonly messages: readonly ReceivedMessage[];
  readonly sessions: readonly FakeSession[];
  readonly connections: number;
  /** Number of scripted replies so far. */
  readonly acted: number;
  /** Replaces the behaviour, also of open sessions, and resets the attempts. */
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
