/**
 * An SMTP server: listens, keeps each client within its limits, and runs a session per connection
 * (RFC 5321, 1870, 2034, 2920, 3207, 4954, 6152, 6531). It knows no database: what to take, and when
 * a message is safe, its handlers say.
 *
 * Memory is bounded: by the number of connections, 64 KB or so for each that waits, and one budget
 * for all content that is being received. Works in the workers of a cluster, which share a port.
 *
 *     smtp-server-admission.ts who may connect, and who has to leave
 *     smtp-server-wire.ts      bytes, lines, TLS, timeouts
 *     smtp-server-commands.ts  what a command says
 *     smtp-server-content.ts   where a message ends
 *     smtp-server-data.ts      one message within its limits
 *     smtp-server-session.ts   the order of commands; read this next
 */
import { createServer, type Server, type Socket } from 'node:net';
import { clientOf } from '../http/client-address.ts';
import { Admission, KnownClients } from './server-admission.ts';
import { ContentBudget, MinuteCounts } from './server-limits.ts';
import { SmtpServerSession } from './server-session.ts';
import {
  SMTP_SERVER_LIMITS,
  type SmtpAnswer,
  type SmtpServerLimits,
  type SmtpServerOptions,
} from './server-types.ts';
import { replyText, SmtpServerWire } from './server-wire.ts';

export type {
  SmtpEnvelope,
  SmtpHandlers,
  SmtpLogIn,
  SmtpMessage,
  SmtpServerLimits,
  SmtpServerOptions,
  SmtpSession,
} from './server-types.ts';

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
    // Half open: who has sent all it wants to say still gets the replies.
    const tcp = { allowHalfOpen: true, noDelay: true, pauseOnConnect: true };
    this.#server = createServer(tcp, (socket) => this.#welcome(socket));
  }

  /** Without a host on all addresses. @returns the port, of interest when 0 was asked for */
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
   * Takes no new connections, lets messages under way be finished and answered, and says 421 to
   * everybody else. Resolves when all is over.
   * @param graceMs how long messages under way are waited for
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
    const wire = new SmtpServerWire(socket);
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

/** Costs nothing that lasts: the reply fits into the system's buffer, and nobody waits for it. */
function refuse(socket: Socket, answer: SmtpAnswer, mode: 'starttls' | 'implicit'): void {
  socket.on('error', () => {});
  if (mode === 'implicit') socket.destroy();
  else socket.write(replyText(answer), () => socket.destroy());
}
