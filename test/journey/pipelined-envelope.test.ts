/** Much mail for one server: the next envelope is sent with the message before it. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { createServer, type Socket } from 'node:net';
import { once } from 'node:events';
import { type Journey, startJourney } from '../support/journey.ts';

type Server = AsyncDisposable & {
  /** The recipients of each accepted message, in order. */
  recipients: string[];
  /** Envelopes that came in one piece with the dot before them. */
  announced: number;
};

type Taken = Omit<Server, keyof AsyncDisposable>;

/** A server with PIPELINING. @param forgets what came behind a dot */
async function startServer(
  journey: Journey,
  { address, forgets }: { address: string; forgets: boolean },
): Promise<Server> {
  const sockets = new Set<Socket>();
  const taken: Taken = { recipients: [], announced: 0 };
  const listener = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {}).write('220 mx.test\r\n');
    converse(socket, taken, forgets);
  });
  listener.listen(journey.port, address);
  await once(listener, 'listening');
  return Object.assign(taken, {
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      listener.close();
      await once(listener, 'close');
    },
  });
}

function converse(socket: Socket, taken: Taken, forgets: boolean): void {
  let unread = '';
  let recipient = '';
  let isInData = false;
  socket.setEncoding('latin1').on('data', (chunk: string) => {
    unread += chunk;
    for (;;) {
      const end = isInData ? '\r\n.\r\n' : '\r\n';
      const length = unread.indexOf(end);
      if (length < 0) return;
      const line = unread.slice(0, length);
      unread = unread.slice(length + end.length);
      if (isInData) {
        taken.recipients.push(recipient);
        if (unread.startsWith('MAIL')) taken.announced += 1;
        if (forgets) unread = '';
      }
      if (line.startsWith('RCPT')) recipient = line.slice('RCPT TO:<'.length, -1);
      if (line === 'QUIT') return void socket.end('221 Bye\r\n');
      isInData = !isInData && line === 'DATA';
      if (line.startsWith('EHLO')) socket.write('250-mx.test\r\n250 PIPELINING\r\n');
      else socket.write(isInData ? '354 Go\r\n' : '250 Ok\r\n');
    }
  });
}

for (const [number, forgets] of [false, true].entries()) {
  const kind = forgets ? 'forgets what was pipelined behind a dot' : 'knows PIPELINING';
  test(`each of 100 recipients at a server that ${kind} gets its mail once`, async () => {
    await using journey = await startJourney({ LETTERHAUS_SMTP_TIMEOUT_S: '5' });
    const [domain, address] = [`many${number}.test`, `127.0.3.${number + 1}`];
    journey.dns.set(domain, 'MX', [`10 mx.${domain}`]);
    journey.dns.set(`mx.${domain}`, 'A', [address]);
    await using server = await startServer(journey, { address, forgets });
    const recipients = Array.from({ length: 100 }, (_, index) => `r${index}@${domain}`);
    const halves = [recipients.slice(0, 50), recipients.slice(50)];
    const ids = await Promise.all(halves.map((to) => journey.send({ to })));
    for (const id of ids) assert.equal((await journey.ended(id)).status, 'delivered');
    assert.deepEqual(server.recipients.toSorted(), recipients.toSorted());
    assert.ok(server.announced > 0);
  });
}
