/** Our SMTP server on its own port, with handlers that accept and record everything. */
import { readFileSync } from 'node:fs';
import { createSecureContext } from 'node:tls';
import {
  SmtpServer,
  type SmtpEnvelope,
  type SmtpLogIn,
  type SmtpMessage,
  type SmtpServerOptions,
  type SmtpSession,
} from '../../src/net/smtp/server/smtp-server.ts';
import { serverReply } from '../../src/net/smtp/server/server-types.ts';
import { systemWorld } from '../../src/service/machine/system-world.ts';

export type TakenMail = {
  envelope: SmtpEnvelope;
  session: SmtpSession<unknown>;
  text: string;
} & SmtpMessage;

const pem = readFileSync(new URL('certs/trusted.pem', import.meta.url));
const context = createSecureContext({ key: pem, cert: pem });

/** Accepts anybody with the password. */
export const logIn: SmtpLogIn<string> = (_session, { user, pass }) =>
  Promise.resolve(
    pass === 'secret'
      ? { user }
      : { refused: serverReply(535, '5.7.8', 'Wrong user name or password') },
  );

export async function startSmtpServer<User = null>(
  overrides: Partial<SmtpServerOptions<User>> = {},
) {
  const taken: TakenMail[] = [];
  const bugs: unknown[] = [];
  const server = new SmtpServer<User>({
    hostname: 'mx.test',
    tls: { mode: 'starttls', context: () => context },
    sizeBytesMax: 1_000_000,
    world: systemWorld,
    onBug: (error) => bugs.push(error),
    ...overrides,
    handlers: {
      onRcpt: () => null,
      onMessage(session, envelope, message) {
        const text = message.content.toString('latin1');
        taken.push({ envelope, session: { ...session }, text, ...message });
        return Promise.resolve(serverReply(250, '2.0.0', `Taken ${taken.length}`));
      },
      ...overrides.handlers,
    },
  });
  const port = await server.listen({ host: '127.0.0.1', port: 0 });
  const close = (graceMs = 0) => server.close(graceMs);
  return { port, taken, bugs, context, close, [Symbol.asyncDispose]: () => close() };
}
