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
 *     server-session.ts      the commands of one session
 *     server-wire.ts         bytes, lines, TLS, timeouts
 *     server-commands.ts     the grammar of commands
 *     server-transaction.ts  one message: MAIL, RCPT, DATA
 *     server-content.ts      receiving and decoding the content of a message
 */
import { createServer, type Server, type Socket } from 'node:net';
import { clientOf } from '../../ip-addresses.ts';
import { Admission, ContentBudget, KnownClients, MinuteCounts } from './server-limits.ts';
import { SmtpServerSession } from './server-session.ts';
import {
  type ServerReply,
  SMTP_SERVER_LIMITS,
  type SmtpServerLimits,
  type SmtpSessionOptions,
} from './server-types.ts';
import { formatReply, SmtpServerWire } from './server-wire.ts';
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

type OpenSession<User> = {
  session: SmtpServerSession<User>;
  wire: SmtpServerWire;
  ended: Promise<void>;
};

export class SmtpServer<User = null> {
  readonly #options: SmtpServerOptions<User>;
  readonly #limits: SmtpServerLimits;
  readonly #admission: Admission;
  readonly #content: ContentBudget;
  readonly #messages: MinuteCounts;
  readonly #server: Server;
  readonly #open = new Set<OpenSession<User>>();

  constructor(options: SmtpServerOptions<User>) {
    this.#options = options;
    this.#limits = { ...SMTP_SERVER_LIMITS, ...options.limits };
    const { world, known = new KnownClients(world) } = options;
    this.#admission = new Admission(this.#limits, { world, known });
    this.#content = new ContentBudget(this.#limits);
    this.#messages = new MinuteCounts(world);
    // Half open: a client that has closed its sending side still gets its replies.
    const tcp = { allowHalfOpen: true, noDelay: true, pauseOnConnect: true };
    this.#server = createServer(tcp, (socket) => this.#accept(socket));
  }

  /**
   * Listens; without a host, on all addresses.
   * @returns the port, which differs from a requested 0
   */
  listen(address: { host?: string; port: number }): Promise<number> {
    return new Promise((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(address, () => {
        this.#server.off('error', reject);
        const bound = this.#server.address();
        resolve(typeof bound === 'object' && bound !== null ? bound.port : address.port);
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
    await Promise.all([...this.#open].map(({ ended }) => ended));
    clearTimeout(timer);
    await closed;
  }

  #accept(socket: Socket): void {
    const { remoteAddress = '', localPort = 0 } = socket;
    const client = clientOf(remoteAddress);
    let session: SmtpServerSession<User> | null = null;
    const admitted = this.#admission.admit(client, (reply) => session?.closeNow(reply));
    if ('refused' in admitted)
      return refuseConnection(socket, admitted.refused, this.#options.tls.mode);
    socket.once('close', () => admitted.release());
    const wire = new SmtpServerWire(socket, this.#options.onReply);
    session = new SmtpServerSession(wire, {
      options: this.#options,
      limits: this.#limits,
      connection: admitted,
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
    const openSession: OpenSession<User> = { session, wire, ended: session.run() };
    this.#open.add(openSession);
    const remove = (): void => void this.#open.delete(openSession);
    openSession.ended.then(remove, remove);
  }
}

/** Does not wait for the reply to be sent: it fits into the socket's send buffer. */
function refuseConnection(socket: Socket, reply: ServerReply, mode: 'starttls' | 'implicit'): void {
  socket.on('error', () => {});
  if (mode === 'implicit') socket.destroy();
  else socket.write(formatReply(reply), () => socket.destroy());
}
