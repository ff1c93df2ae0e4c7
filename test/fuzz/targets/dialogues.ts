/**
 * Dialogues with the SMTP server: the real session over a socket in memory. The target sends the same bytes twice, cut
 * into different pieces. Replies and accepted messages must not depend on the pieces. Each accepted message must be in
 * the sent bytes, from a DATA to its dot.
 */
import assert from 'node:assert/strict';
import { isDeepStrictEqual } from 'node:util';
import { ContentBudget, MinuteCounts } from '../../../src/net/smtp/server/server-limits.ts';
import type { SmtpServerOptions } from '../../../src/net/smtp/server/smtp-server.ts';
import { SmtpServerSession } from '../../../src/net/smtp/server/server-session.ts';
import { serverReply, SMTP_SERVER_LIMITS } from '../../../src/net/smtp/server/server-types.ts';
import { SmtpServerWire } from '../../../src/net/smtp/server/server-wire.ts';
import type { RandomSource } from '../../chaos/random.ts';
import { filled, manyTimes, mutated, strung, unitOf } from '../generators.ts';
import { MemorySocket } from '../memory-socket.ts';
import type { Input, Target } from '../target.ts';

const SAMPLES = [
  'EHLO a.test\r\nMAIL FROM:<>\r\nRCPT TO:<b-x@send.a.test>\r\nDATA\r\nSubject: x\r\n\r\n..dot\r\nHello\r\n.\r\nQUIT\r\n',
  'HELO a\r\nMAIL FROM:<a@b.test> SIZE=100\r\nRCPT TO:<c@d.test>\r\nRCPT TO:<no@d.test>\r\nDATA\r\nx\r\n.\r\nMAIL FROM:<e@f.test> BODY=8BITMIME SMTPUTF8\r\nRSET\r\nNOOP\r\nVRFY a\r\nHELP\r\nQUIT\r\n',
  'EHLO a.test\r\nAUTH PLAIN AHUAc2VjcmV0\r\nMAIL FROM:<a@b.test>\r\nRCPT TO:<c@d.test>\r\nDATA\r\n.\r\nQUIT\r\n',
  'EHLO a.test\r\nAUTH LOGIN\r\ndQ==\r\nc2VjcmV0\r\nMAIL FROM:<a@b.test>\r\nRCPT TO:<"a b"@d.test>\r\nDATA\r\nx\r\n.\r\n',
];
const LINES = [
  'EHLO a.test\r\n',
  'HELO \r\n',
  'MAIL FROM:<a@b.test>\r\n',
  'MAIL FROM:<>\r\n',
  'RCPT TO:<c@d.test>\r\n',
  'RCPT TO:<no@d.test>\r\n',
  'DATA\r\n',
  '.\r\n',
  '..\r\n',
  '\r\n.\r\n',
  '\n.\n',
  '\r.\r',
  '\r\n.\n',
  'Subject: x\r\n\r\n',
  'RSET\r\n',
  'NOOP\r\n',
  'QUIT\r\n',
  'AUTH PLAIN AHUAc2VjcmV0\r\n',
  'AUTH PLAIN\r\n',
  'AUTH LOGIN\r\n',
  'dQ==\r\n',
  '*\r\n',
  'STARTTLS\r\n',
  'BDAT 10\r\n',
  'GET / HTTP/1.1\r\n',
  'Host: x\r\n',
  'x'.repeat(998),
  '\0',
  '\u00ff',
  ' SIZE=1',
  ' BODY=7BIT',
];
const KINDS = ['inbound', 'submission'] as const;
type Kind = (typeof KINDS)[number];

function generate(random: RandomSource): Input {
  const text = random.chance(0.6)
    ? mutated(random, random.pick(SAMPLES), LINES)
    : strung(random, LINES, 16);
  const long = random.chance(0.02) ? `${'x'.repeat(70)}\r\n`.repeat(manyTimes(random)) : '';
  return { kind: random.pick(KINDS), bytes: Buffer.from(`${text}${long}`, 'latin1') };
}

function grow(random: RandomSource): (bytes: number) => Input {
  const kind = random.pick(KINDS);
  const parts = {
    before: random.pick(['', 'EHLO a\r\n', `${SAMPLES[0]!.split('Subject')[0]}`]),
    unit: unitOf(random, LINES),
    after: random.pick(['', '\r\n', '\r\n.\r\nQUIT\r\n']),
  };
  return (bytes) => ({ kind, bytes: Buffer.from(filled(parts, bytes), 'latin1') });
}

type Taken = { recipients: readonly string[]; content: string; sizeBytes: number };
type Dialogue = { transcript: string; taken: readonly Taken[] };

const KEPT_BYTES_MAX = 4_096;
const SIZE_BYTES_MAX = 64 * 1024;
const limits = { ...SMTP_SERVER_LIMITS, errorsPerSession: 10, messagesPerSession: 8 };
const world = { monotonicMs: () => 0, newId: () => 'id' };

async function converse(kind: Kind, pieces: readonly Buffer[]): Promise<Dialogue> {
  const taken: Taken[] = [];
  const bugs: unknown[] = [];
  const options: SmtpServerOptions<string> = {
    hostname: 'mx.test',
    tls: { mode: 'starttls', context: () => null },
    sizeBytesMax: SIZE_BYTES_MAX,
    world,
    refusesEarlyTalkers: false,
    onBug: (error) => bugs.push(error),
    handlers: {
      onRcpt: (_session, to) => (to.startsWith('no@') ? serverReply(550, '5.1.1', 'Nobody') : null),
      onMessage(_session, { recipients }, { content, sizeBytes }) {
        taken.push({ recipients, content: content.toString('latin1'), sizeBytes });
        return Promise.resolve(serverReply(250, '2.0.0', 'Taken'));
      },
    },
    ...(kind === 'inbound' ? { keptBytesMax: KEPT_BYTES_MAX } : { logIn }),
  };
  const socket = new MemorySocket(pieces);
  const session = new SmtpServerSession(new SmtpServerWire(socket.asSocket()), {
    options,
    limits,
    connection: { recordLogIn() {}, recordMessage() {}, release() {} },
    content: new ContentBudget(limits),
    messages: new MinuteCounts(world),
    facts: {
      id: 'id',
      remoteAddress: '192.0.2.1',
      client: '192.0.2.1',
      localPort: 25,
      helo: '',
      protocol: 'SMTP',
      tls: kind === 'submission' ? { version: 'TLSv1.3', cipher: 'x' } : null,
      user: null,
    },
  });
  await session.run();
  socket.destroy();
  if (bugs.length > 0) throw bugs[0];
  return { transcript: socket.written, taken };
}

const logIn: NonNullable<SmtpServerOptions<string>['logIn']> = (_session, { user, pass }) =>
  Promise.resolve(
    pass === 'secret' ? { user } : { refused: serverReply(535, '5.7.8', 'Wrong password') },
  );

async function read({ kind, bytes }: Input): Promise<void> {
  const whole = await converse(kind as Kind, [bytes]);
  check(whole, bytes);
  // The server refuses bytes that follow STARTTLS at once, and accepts later ones.
  if (/starttls/i.test(bytes.toString('latin1'))) return;
  const inMany = await converse(kind as Kind, inPieces(bytes));
  // No deepEqual: to show where long texts differ takes gigabytes.
  assert.ok(isDeepStrictEqual(inMany, whole), 'other pieces, another dialogue');
}

function check({ transcript, taken }: Dialogue, bytes: Buffer): void {
  assert.match(transcript, /^220 /);
  for (const line of transcript.split('\r\n').slice(0, -1)) {
    assert.match(line, /^[2345]\d\d[ -][ -~]{0,508}$/);
  }
  const sent = unstuffed(bytes.toString('latin1'));
  for (const { recipients, content, sizeBytes } of taken) {
    assert.ok(recipients.length > 0 && sizeBytes <= bytes.length);
    assert.doesNotMatch(content, /\r(?!\n|$)|(?<!\r)\n/);
    if (content.length < sizeBytes) continue;
    assert.ok(sent.includes(`\r\n${content}${END}`), JSON.stringify(content.slice(0, 200)));
  }
}

const END = '<the end>';

/** Removes the first dot of every line (RFC 5321 §4.5.2). */
function unstuffed(sent: string): string {
  const lines = sent.split('\r\n');
  return lines.map((line) => (line === '.' ? END : line.replace(/^\./, ''))).join('\r\n');
}

/** Splits bytes into pieces of one octet, two, four and so on up to 256, and starts again. */
function inPieces(bytes: Buffer): Buffer[] {
  const pieces: Buffer[] = [];
  let at = 0;
  for (let length = 1; at < bytes.length; length = length >= 256 ? 1 : length * 2) {
    pieces.push(bytes.subarray(at, at + length));
    at += length;
  }
  return pieces;
}

export const dialogues: Target = {
  name: 'smtp',
  about: "dialogues with the SMTP server, on the port for reports and on clients'",
  generate,
  grow,
  // Maximum bytes that a socket delivers at once.
  growsUpTo: 64 * 1024,
  cpuMsMax: 150,
  open: () => Promise.resolve({ read }),
};
