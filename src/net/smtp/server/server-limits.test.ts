/**
 * Shows what one client can take of connections, memory and time, with real sockets; admission alone has a fake clock.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  Admission,
  ContentBudget,
  KnownClients,
  type UnfinishedMessage,
  type AdmittedConnection,
} from './server-limits.ts';
import { serverReply, SMTP_SERVER_LIMITS, type SmtpServerLimits } from './server-types.ts';
import { Dialogue } from '../../../../test/support/smtp-dialogue.ts';
import { logIn, startSmtpServer } from '../../../../test/support/smtp-server.ts';
import { waitFor } from '../../../../test/support/wait.ts';

test('an announced or actual size above the limit is refused, and the session continues', async () => {
  await using server = await startSmtpServer({ sizeBytesMax: 1_000 });
  await using client = await Dialogue.greeted(server.port);
  assert.match((await client.ask('MAIL FROM:<a@b.test> SIZE=1001')) ?? '', /^552 5\.3\.4 .*1000/);
  await client.ask('MAIL FROM:<a@b.test>');
  await client.ask('RCPT TO:<c@d.test>');
  await client.ask('DATA');
  client.send(`${'x'.repeat(998)}\r\n${'x'.repeat(500)}\r\n.\r\n`);
  assert.match((await client.readReply()) ?? '', /^552 5\.3\.4 /);
  await client.ask('MAIL FROM:<a@b.test>');
  await client.ask('RCPT TO:<c@d.test>');
  await client.ask('DATA');
  client.send(`${'x'.repeat(998)}\r\n.\r\n`);
  assert.equal(await client.readReply(), '250 2.0.0 Taken 1');
});

test('endless content is disconnected', async () => {
  await using server = await startSmtpServer({ sizeBytesMax: 1_000 });
  await using client = await Dialogue.greeted(server.port);
  client.send('MAIL FROM:<a@b.test>\r\nRCPT TO:<c@d.test>\r\nDATA\r\n');
  client.send(`${'x'.repeat(70)}\r\n`.repeat(1_000));
  const replies = (await client.readReplies()).map((reply) => reply.slice(0, 3));
  assert.deepEqual(replies, ['250', '250', '354', '552']);
  assert.equal(server.taken.length, 0);
});

test('a server with too much content in memory refuses messages until some is released', async () => {
  const gate = Promise.withResolvers<void>();
  await using server = await startSmtpServer({
    limits: { contentBytes: 3_000 },
    handlers: {
      onRcpt: () => null,
      async onMessage() {
        await gate.promise;
        return serverReply(250, '2.0.0', 'Taken');
      },
    },
  });
  await using first = await Dialogue.greeted(server.port);
  await using second = await Dialogue.greeted(server.port);
  const content = `${'x'.repeat(998)}\r\n`.repeat(2);
  const say = async (client: Dialogue) => {
    for (const line of ['MAIL FROM:<>', 'RCPT TO:<c@d.test>', 'DATA']) await client.ask(line);
    client.send(`${content}.\r\n`);
  };
  await say(first);
  await say(second);
  assert.match((await second.readReply()) ?? '', /^452 4\.3\.1 /);
  assert.match((await second.ask('MAIL FROM:<> SIZE=2000')) ?? '', /^452 4\.3\.1 /);
  gate.resolve();
  assert.equal(await first.readReply(), '250 2.0.0 Taken');
  await say(second);
  assert.equal(await second.readReply(), '250 2.0.0 Taken');
});

test('errors are not accumulated in a session that submits mail', async () => {
  await using server = await startSmtpServer({ limits: { errorsPerSession: 3 } });
  await using client = await Dialogue.greeted(server.port);
  for (let message = 1; message <= 4; message += 1) {
    assert.match((await client.ask('NONSENSE')) ?? '', /^500 /);
    for (const line of ['MAIL FROM:<>', 'RCPT TO:<c@d.test>', 'DATA']) await client.ask(line);
    assert.equal(await client.ask('Hello\r\n.'), `250 2.0.0 Taken ${message}`);
  }
});

class Unfinished implements UnfinishedMessage {
  readonly client: string;
  readonly #budget: ContentBudget;
  usedBytes = 0;
  isEvicted = false;

  constructor(budget: ContentBudget, client: string) {
    this.client = client;
    this.#budget = budget;
    budget.begin(this);
  }

  grow(bytes: number): boolean {
    const isTaken = this.#budget.reserve(this, bytes);
    if (isTaken) this.usedBytes += bytes;
    return isTaken;
  }

  evict(): void {
    this.#budget.release(this.usedBytes);
    this.usedBytes = 0;
    this.isEvicted = true;
  }
}

test('a client with less than an equal share of memory takes it from the client with the most', () => {
  const budget = new ContentBudget({ contentBytes: 1_000 });
  const greedy = [1, 2, 3].map(() => new Unfinished(budget, 'greedy'));
  assert.deepEqual(
    greedy.map((message) => message.grow(330)),
    [true, true, true],
  );
  // This client has its share, so no other client yields to it.
  assert.equal(greedy[2]?.grow(330), false);
  assert.ok(budget.canHold(1_000));
  const report = new Unfinished(budget, 'reporting server');
  assert.ok(report.grow(400));
  assert.deepEqual(
    greedy.map(({ isEvicted }) => isEvicted),
    [true, true, false],
  );
  // Beyond its own share it would only take turns with others.
  assert.equal(report.grow(400), false);
  // A message that is being handled keeps its memory.
  budget.end(report);
  assert.equal(budget.canHold(601), false);
});

test('a small message always gets memory beside clients with large messages', () => {
  const budget = new ContentBudget({ contentBytes: 1_000 });
  const unfinished = Array.from(
    { length: 10 },
    (_, index) => new Unfinished(budget, `client ${index}`),
  );
  for (const message of unfinished) assert.ok(message.grow(100));
  const small = new Unfinished(budget, 'small');
  for (let count = 0; count < 9; count += 1) assert.ok(small.grow(10));
  assert.equal(unfinished.filter(({ isEvicted }) => isEvicted).length, 1);
});

test('errors and idle commands end a session after a while', async () => {
  await using server = await startSmtpServer({ limits: { errorsPerSession: 5 } });
  for (const [line, count] of [
    ['NONSENSE', 4],
    ['NOOP', 100 + 4],
  ] as const) {
    await using client = await Dialogue.greeted(server.port);
    client.send(`${line}\r\n`.repeat(1_000));
    const replies = await client.readReplies();
    assert.equal(replies.length, count + 2);
    assert.equal(replies.at(-1)?.slice(0, 9), '421 4.7.0');
  }
});

test('a client that keeps sending after the end of its session is not read without end', async () => {
  await using server = await startSmtpServer({ limits: { errorsPerSession: 5 } });
  await using client = await Dialogue.greeted(server.port);
  client.send('NONSENSE\r\n'.repeat(5));
  const { socket } = client;
  const closed = new Promise((resolve) => socket.once('close', resolve));
  const megabyte = Buffer.alloc(1024 ** 2, 'x');
  // More than the buffers of the system take.
  let taken = 0;
  const note = (error?: Error | null): void => void (taken += error ? 0 : 1);
  for (let count = 0; count < 200; count += 1) socket.write(megabyte, note);
  assert.match((await client.readReplies()).at(-1) ?? '', /^421 4\.7\.0/);
  await closed;
  assert.ok(taken < 100, `${taken} MB were taken`);
});

test('a silent or slow client is disconnected', async () => {
  await using server = await startSmtpServer({
    limits: { commandTimeoutMs: 300, dataTimeoutMs: 300, tlsTimeoutMs: 300 },
  });
  await using silent = await Dialogue.greeted(server.port);
  assert.deepEqual(await silent.readReplies(), ['421 4.4.2 Timeout']);

  await using dripping = await Dialogue.greeted(server.port);
  const drip = setInterval(() => dripping.send('N'), 20);
  assert.deepEqual(await dripping.readReplies(), ['421 4.4.2 Timeout']);
  clearInterval(drip);

  await using inContent = await Dialogue.greeted(server.port);
  inContent.send('MAIL FROM:<a@b.test>\r\nRCPT TO:<c@d.test>\r\nDATA\r\n');
  const trickle = setInterval(() => inContent.send('x\r\n'), 250);
  assert.equal((await inContent.readReplies()).at(-1), '421 4.4.2 Timeout');
  clearInterval(trickle);

  await using handshake = await Dialogue.greeted(server.port);
  assert.match((await handshake.ask('STARTTLS')) ?? '', /^220 /);
  assert.deepEqual(await handshake.readReplies(), []);
});

test('content must arrive at 1,000 octets a second and end in time', async () => {
  for (const [octets, limits] of [
    [20, { dataTimeoutMs: 500 }],
    [2_000, { messageTimeoutMs: 500 }],
  ] as const) {
    await using server = await startSmtpServer({ limits });
    await using client = await Dialogue.greeted(server.port);
    client.send('MAIL FROM:<a@b.test>\r\nRCPT TO:<c@d.test>\r\nDATA\r\n');
    const flow = setInterval(() => client.send(`${'x'.repeat(octets - 2)}\r\n`), 50);
    assert.equal((await client.readReplies()).at(-1), '421 4.4.2 Timeout');
    clearInterval(flow);
  }
});

test('the time limit for authentication runs from the connection, regardless of commands', async () => {
  const limits = { logInTimeoutMs: 700, errorsPerSession: 1e9 };
  await using server = await startSmtpServer<string>({ limits, logIn });
  const late = '421 4.4.2 Log-in timeout';
  await using busy = await Dialogue.greeted(server.port);
  const noise = setInterval(() => busy.send('NOOP\r\n'), 50);
  assert.equal((await busy.readReplies()).at(-1), late);
  clearInterval(noise);

  await using inHandshake = await Dialogue.greeted(server.port);
  await inHandshake.ask('STARTTLS');
  assert.deepEqual(await inHandshake.readReplies(), []);

  await using inAuth = await Dialogue.greeted(server.port);
  await inAuth.startTls();
  await inAuth.ask('EHLO client.test');
  assert.match((await inAuth.ask('AUTH LOGIN')) ?? '', /^334 /);
  assert.deepEqual(await inAuth.readReplies(), [late]);

  await using app = await Dialogue.greeted(server.port);
  await app.startTls();
  await app.ask('EHLO client.test');
  const secret = Buffer.from('\0app\0secret').toString('base64');
  assert.match((await app.ask(`AUTH PLAIN ${secret}`)) ?? '', /^235 /);
  await using other = await Dialogue.greeted(server.port);
  assert.deepEqual(await other.readReplies(), [late]);
  assert.equal(await app.ask('NOOP'), '250 2.0.0 Ok');
});

test('a TLS handshake that never begins ends at the time limit for authentication', async () => {
  const tls = { mode: 'implicit' as const, context: () => null };
  await using server = await startSmtpServer<string>({ limits: { logInTimeoutMs: 300 }, logIn });
  await using secure = await startSmtpServer<string>({
    limits: { logInTimeoutMs: 300 },
    logIn,
    tls: { ...tls, context: () => server.context },
  });
  await using client = await Dialogue.open(secure.port);
  assert.deepEqual(await client.readReplies(), []);
});

test('an unauthenticated session ends after its time limit, between two messages', async () => {
  await using server = await startSmtpServer({ limits: { sessionTimeoutMs: 500 } });
  await using client = await Dialogue.greeted(server.port);
  client.send('MAIL FROM:<a@b.test>\r\nRCPT TO:<c@d.test>\r\nDATA\r\nx\r\n');
  await using idle = await Dialogue.greeted(server.port);
  const long = '421 4.4.2 This session has reached its maximum duration; open another';
  assert.deepEqual(await idle.readReplies(), [long]);
  client.send('.\r\n');
  const replies = await client.readReplies();
  assert.deepEqual([replies.at(-2), replies.at(-1)], ['250 2.0.0 Taken 1', long]);
});

test('a client that does not read replies is not read from and is disconnected', async () => {
  await using server = await startSmtpServer({
    limits: { commandTimeoutMs: 300, errorsPerSession: 1e9, connectionsPerClient: 1 },
  });
  await using client = await Dialogue.greeted(server.port);
  client.socket.pause();
  client.send('HELP\r\n'.repeat(2_000_000));
  await hasRoom(server.port);
});

test('connections and messages are limited for one client and for all', async () => {
  await using server = await startSmtpServer({
    limits: { connectionsPerClient: 2, connections: 3, messagesPerClientAndMinute: 2 },
  });
  await using first = await Dialogue.greeted(server.port);
  await using second = await Dialogue.greeted(server.port);
  await using third = await Dialogue.open(server.port);
  assert.match((await third.readReply()) ?? '', /^421 4\.7\.0 /);
  for (const client of [first, second]) {
    assert.equal(await client.ask('MAIL FROM:<a@b.test>'), '250 2.1.0 Ok');
  }
  await first.ask('RSET');
  assert.match((await first.ask('MAIL FROM:<a@b.test>')) ?? '', /^450 4\.7\.1 /);
  await first.ask('QUIT');
  await hasRoom(server.port);
});

test('100 recipients are accepted, and more get 452; too many messages end the session, too many recipients do not', async () => {
  await using server = await startSmtpServer({
    limits: { messagesPerSession: 1, errorsPerSession: 2 },
  });
  await using client = await Dialogue.greeted(server.port);
  const rcpts = Array.from({ length: 250 }, (_, number) => `RCPT TO:<to-${number}@b.test>\r\n`);
  client.send(['MAIL FROM:<a@b.test>\r\n', ...rcpts, 'DATA\r\n'].join(''));
  assert.equal(await client.readReply(), '250 2.1.0 Ok');
  const replies: (string | undefined)[] = [];
  for (const _ of rcpts) replies.push((await client.readReply())?.slice(0, 9));
  const expected = rcpts.map((_, number) => (number < 100 ? '250 2.1.5' : '452 4.5.3'));
  assert.deepEqual(replies, expected);
  assert.match((await client.readReply()) ?? '', /^354 /);
  client.send('x\r\n.\r\n');
  assert.equal(await client.readReply(), '250 2.0.0 Taken 1');
  assert.equal(server.taken[0]?.envelope.recipients.length, 100);
  client.send('MAIL FROM:<a@b.test>\r\n');
  assert.deepEqual(
    (await client.readReplies()).map((reply) => reply.slice(0, 9)),
    ['421 4.7.0'],
  );
});

function hasRoom(port: number): Promise<unknown> {
  const isGreeted = async () => {
    await using client = await Dialogue.open(port);
    return (await client.readReply())?.startsWith('220');
  };
  return waitFor(isGreeted, { what: 'room for a connection' });
}

test('the beginning of a message of any size can be kept and the rest discarded', async () => {
  await using server = await startSmtpServer({
    sizeBytesMax: 1_000,
    keptBytesMax: 2_500,
    // The second message fits, because discarded content takes no memory.
    limits: { contentBytes: 3_000 },
  });
  await using client = await Dialogue.greeted(server.port);
  assert.match((await client.ask('EHLO client.test')) ?? '', /^250-SIZE 0$/m);
  const line = `..${'x'.repeat(96)}\r\n`;
  for (const from of ['<a@b.test> SIZE=5000000', '<a@b.test>']) {
    assert.equal(await client.ask(`MAIL FROM:${from}`), '250 2.1.0 Ok');
    await client.ask('RCPT TO:<c@d.test>');
    await client.ask('DATA');
    client.send(line.repeat(50_000));
    assert.match((await client.ask('.')) ?? '', /^250 2\.0\.0 Taken /);
  }
  for (const { content, sizeBytes } of server.taken) {
    assert.equal(sizeBytes, 50_000 * (line.length - 1));
    assert.equal(content.toString('latin1'), line.slice(1).repeat(26).slice(0, 2_500));
  }
});

/** Starts admission with a fake clock; `enter` returns the fate of a connection. */
function startDoor(limits: Partial<SmtpServerLimits>) {
  const clock = { nowMs: 1_000 };
  const world = { monotonicMs: () => clock.nowMs };
  const known = new KnownClients(world);
  const admission = new Admission(
    { ...SMTP_SERVER_LIMITS, newPerClientAndMinute: Infinity, ...limits },
    { world, known },
  );
  const enter = (client: string) => {
    const seen: { visit: AdmittedConnection | null; reply: string | null } = {
      visit: null,
      reply: null,
    };
    const visit = admission.admit(client, ({ text }) => (seen.reply = text));
    if ('refused' in visit) seen.reply = visit.refused.text;
    else seen.visit = visit;
    return seen;
  };
  return { clock, known, enter };
}

test('a new connection replaces the oldest unauthenticated one', () => {
  const { enter } = startDoor({ connections: 4, anonymousConnections: 2 });
  const [first, second] = [enter('a'), enter('b')];
  second.visit?.recordMessage();
  first.visit?.recordMessage();
  const third = enter('c');
  assert.deepEqual(
    [first.reply, second.reply, third.reply],
    [null, 'This connection is needed for other clients; try again later', null],
  );
  first.visit?.recordLogIn();
  const others = ['d', 'e', 'f'].map(enter);
  assert.deepEqual(
    [first.reply, others.map(({ reply }) => reply === null)],
    [null, [false, true, true]],
  );
});

test('connections are reserved for clients that authenticated within a day', () => {
  const { enter, known, clock } = startDoor({ connections: 4, anonymousConnections: 2 });
  known.addKnown('app');
  for (let count = 0; count < 100; count += 1) enter(`stranger ${count}`);
  const own = [enter('app'), enter('app')];
  for (let count = 0; count < 100; count += 1) enter(`other ${count}`);
  assert.deepEqual(
    own.map(({ reply }) => reply),
    [null, null],
  );
  clock.nowMs += 24 * 3600_000;
  assert.equal(known.has('app'), false);
});

test('authenticated connections are not closed, and a further one is refused with the reason', () => {
  const { enter } = startDoor({ connections: 2, anonymousConnections: 2 });
  const open = [enter('a'), enter('b')];
  for (const { visit } of open) visit?.recordLogIn();
  assert.equal(enter('c').reply, 'All connections are in use; try again later');
  open[0]?.visit?.release();
  open[0]?.visit?.release();
  assert.equal(enter('c').reply, null);
});

test('a client has few unauthenticated connections, and more when it is known', () => {
  const { enter } = startDoor({ anonymousPerClient: 2, connectionsPerClient: 12 });
  const [first, second] = [enter('a'), enter('a')];
  assert.match(enter('a').reply ?? '', /^Too many connections from your address/);
  assert.equal(enter('b').reply, null);
  first.visit?.recordLogIn();
  // The client is known now: it may have five times as many, within the limit for any client.
  const more = Array.from({ length: 11 }, () => enter('a'));
  assert.deepEqual(
    more.map(({ reply }) => reply === null),
    [...Array.from({ length: 9 }, () => true), false, false],
  );
  for (const { visit } of [second, ...more]) visit?.recordLogIn();
  assert.equal(enter('a').reply, null);
  assert.match(enter('a').reply ?? '', /^Too many connections from your address/);
});

test('only unauthenticated connections count to the rate limit of connections', () => {
  const { enter, clock } = startDoor({ newPerClientAndMinute: 3 });
  const visits = ['a', 'a', 'a'].map(enter);
  for (const { visit } of visits) visit?.release();
  assert.match(enter('a').reply ?? '', /^Too many new connections from your address/);
  assert.equal(enter('b').reply, null);
  clock.nowMs += 60_000;
  for (let count = 0; count < 10; count += 1) {
    const { visit } = enter('a');
    visit?.recordLogIn();
    visit?.release();
  }
  assert.equal(enter('a').reply, null);
});

test('other workers are notified of a log-in at most every ten minutes', () => {
  let nowMs = 0;
  const notified: string[] = [];
  const known = new KnownClients({ monotonicMs: () => nowMs }, (client) => notified.push(client));
  for (nowMs = 0; nowMs < 1_200_000; nowMs += 60_000) known.recordLogIn('a');
  assert.deepEqual(notified, ['a', 'a']);
  for (let count = 0; count < 20_001; count += 1) known.addKnown(`client ${count}`);
  assert.equal(known.has('a'), false);
});
