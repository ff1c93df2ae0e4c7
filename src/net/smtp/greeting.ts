/**
 * Reads the greeting of a mail server: connect → greeting → QUIT. Sends neither EHLO nor MAIL, so that a check of port
 * 25 costs the server one connection and claims nothing about this machine.
 */
import { connect } from 'node:net';
import { ReplyParser, type SmtpReply } from '../../mail/replies/smtp-reply.ts';

export type Greeting =
  | { kind: 'replied'; reply: SmtpReply }
  /**
   * `timeout`: nothing answered. `refused`: nothing listens there, or a firewall rejects. `no_route`: this machine
   * cannot use the local address, or has no route.
   */
  | { kind: 'failed'; cause: 'timeout' | 'refused' | 'no_route' | 'garbage'; message: string };

type GreetingFailure = Extract<Greeting, { kind: 'failed' }>;

type GreetingOptions = {
  address: string;
  port: number;
  /** The address of this machine to connect from, or null when the system chooses. */
  localAddress: string | null;
  timeoutMs: number;
};

const NO_ROUTE = /^(?:EADDRNOTAVAIL|ENETUNREACH|EHOSTUNREACH|EAFNOSUPPORT|EINVAL)$/;

/** Ends within `timeoutMs`. Never rejects. */
export function readGreeting(options: GreetingOptions): Promise<Greeting> {
  const { address, port, localAddress, timeoutMs } = options;
  const local = localAddress === null ? {} : { localAddress };
  const parser = new ReplyParser();
  return new Promise((resolve) => {
    const socket = connect({ host: address, port, ...local });
    const end = (greeting: Greeting): void => {
      clearTimeout(timer);
      resolve(greeting);
      if (greeting.kind === 'replied') socket.end('QUIT\r\n', () => socket.destroy());
      else socket.destroy();
    };
    const fail = (cause: GreetingFailure['cause'], message: string): void =>
      end({ kind: 'failed', cause, message });
    const timer = setTimeout(
      () => fail('timeout', `no answer within ${timeoutMs / 1_000} s`),
      timeoutMs,
    );
    socket
      .on('data', (chunk: Buffer) => {
        const { replies, error } = parser.push(chunk);
        const [reply] = replies;
        if (reply !== undefined) end({ kind: 'replied', reply });
        else if (error !== null) fail('garbage', `the greeting is ${error}`);
      })
      .on('end', () => fail('garbage', 'the server closed the connection without a greeting'))
      .on('error', ({ code = '', message }: NodeJS.ErrnoException) => {
        if (NO_ROUTE.test(code)) fail('no_route', code);
        else fail(code === 'ETIMEDOUT' ? 'timeout' : 'refused', code || message);
      });
  });
}
