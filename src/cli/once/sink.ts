/**
 * The receiving mail server of `start --once`: takes every message on loopback and keeps it in
 * memory. Just enough of RFC 5321 for a well-behaved client.
 */
import { once } from 'node:events';
import { createServer, type AddressInfo, type Socket } from 'node:net';

const HOST = '127.0.0.1';
const END_OF_DATA = '\r\n.\r\n';

export type ReceivedMail = {
  returnPath: string;
  recipients: string[];
  /** The message, bytes as latin1 characters, dots unstuffed. */
  content: string;
};

export type Sink = AsyncDisposable & {
  port: number;
  /** The first message. */
  received: Promise<ReceivedMail>;
};

export async function openSink(hostname: string): Promise<Sink> {
  const { promise: received, resolve } = Promise.withResolvers<ReceivedMail>();
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.setEncoding('latin1'));
    socket.on('error', () => {});
    serve(socket, hostname, resolve);
  }).listen(0, HOST);
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    received,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await once(server.close(), 'close');
    },
  };
}

/** One session. Commands may come pipelined (RFC 2920): everything that is complete is answered. */
function serve(socket: Socket, hostname: string, onMail: (mail: ReceivedMail) => void): void {
  let input = '';
  let inData = false;
  let mail: ReceivedMail = emptyMail();
  const say = (line: string) => socket.write(`${line}\r\n`);

  const takeData = (): boolean => {
    const end = `\r\n${input}`.indexOf(END_OF_DATA);
    if (end < 0) return false;
    mail.content = input.slice(0, end).replace(/^\./gm, '');
    input = input.slice(end + END_OF_DATA.length - 2);
    inData = false;
    onMail(mail);
    mail = emptyMail();
    say('250 2.0.0 Taken');
    return true;
  };
  const takeCommand = (): boolean => {
    const end = input.indexOf('\r\n');
    if (end < 0) return false;
    const line = input.slice(0, end);
    input = input.slice(end + 2);
    const verb = line.slice(0, 4).toUpperCase();
    if (verb === 'MAIL') mail = { ...emptyMail(), returnPath: pathOf(line) };
    if (verb === 'RCPT') mail.recipients.push(pathOf(line));
    if (verb === 'DATA') inData = true;
    say(replyTo(verb, hostname));
    if (verb === 'QUIT') socket.end();
    return true;
  };

  say(`220 ${hostname} ESMTP`);
  socket.on('data', (chunk) => {
    input += String(chunk);
    while (inData ? takeData() : takeCommand());
  });
}

function replyTo(verb: string, hostname: string): string {
  switch (verb) {
    case 'EHLO':
      return `250-${hostname}\r\n250-PIPELINING\r\n250-8BITMIME\r\n250 ENHANCEDSTATUSCODES`;
    case 'MAIL':
    case 'RCPT':
    case 'RSET':
    case 'NOOP':
      return '250 2.0.0 OK';
    case 'DATA':
      return '354 Go on';
    case 'QUIT':
      return '221 2.0.0 Bye';
    default:
      return '502 5.5.1 Not here';
  }
}

function emptyMail(): ReceivedMail {
  return { returnPath: '', recipients: [], content: '' };
}

function pathOf(line: string): string {
  return /<([^>]*)>/.exec(line)?.[1] ?? '';
}
