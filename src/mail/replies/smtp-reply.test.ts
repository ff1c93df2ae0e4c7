/** The parser of replies, octet by octet: limits, mangled lines and characters that may not reach a reader. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { ReplyParser, type SmtpReply } from './smtp-reply.ts';

function parse(text: string | Buffer): { replies: SmtpReply[]; error: string | null } {
  return new ReplyParser().push(Buffer.from(text as string));
}

test('a reply has a code, an enhanced code and a text', () => {
  assert.deepEqual(parse('550 5.1.1 No such user\r\n'), {
    replies: [{ code: 550, enhancedCode: '5.1.1', message: 'No such user' }],
    error: null,
  });
});

test('a reply without an enhanced code, or without any text, is complete', () => {
  assert.deepEqual(parse('250 Ok\r\n354\r\n250 2.0.0\r\n').replies, [
    { code: 250, enhancedCode: null, message: 'Ok' },
    { code: 354, enhancedCode: null, message: '' },
    { code: 250, enhancedCode: '2.0.0', message: '' },
  ]);
});

test('a reply that spans lines keeps every line and one enhanced code', () => {
  const { replies } = parse('550-5.7.1 Blocked\r\n550-see 5.7.1\r\n550 5.7.1 http://help.test\r\n');
  assert.deepEqual(replies, [
    { code: 550, enhancedCode: '5.7.1', message: 'Blocked\nsee 5.7.1\nhttp://help.test' },
  ]);
});

test('a bare line feed ends a line', () => {
  assert.deepEqual(
    parse('250-a\n250 b\n').replies.map((reply) => reply.message),
    ['a\nb'],
  );
});

test('a version number or an address is not parsed as an enhanced code', () => {
  assert.equal(parse('220 3.5.1 ready\r\n').replies[0]?.enhancedCode, null);
  assert.equal(parse('250 2.1.0.7 greets you\r\n').replies[0]?.enhancedCode, null);
});

test('control characters and text direction marks never reach storage', () => {
  const [reply] = parse('550 a\tb\u001b[31m\u0007c\u202ed\u0085e\r\n').replies;
  assert.equal(reply?.message, 'a b[31mcde');
});

test('bytes that are not UTF-8 become replacement characters', () => {
  const [reply] = parse(Buffer.from('550 caf\xe9 closed\r\n', 'latin1')).replies;
  assert.equal(reply?.message, 'caf\ufffd closed');
});

test('a long text is cut at 2 KB between characters', () => {
  const [reply] = parse(`550-${'é'.repeat(1500)}\r\n550 end\r\n`).replies;
  assert.equal(Buffer.byteLength(reply?.message ?? ''), 2048);
  assert.match(reply?.message ?? '', /^é+$/);
});

test('malformed data instead of a reply is an error', () => {
  const garbage = [
    'hello\r\n',
    '\r\n',
    '25\r\n',
    '099 x\r\n',
    '600 x\r\n',
    '250x\r\n',
    '250 \0\r\n',
  ];
  for (const text of garbage) assert.notEqual(parse(text).error, null, JSON.stringify(text));
});

test('the lines of one reply must have the same code', () => {
  assert.match(parse('250-a\r\n550 b\r\n').error ?? '', /different codes/);
});

test('a reply may have 64 KiB in lines of any length and number', () => {
  for (const text of [
    `220 ${'x'.repeat(60_000)}\r\n`,
    `${'220-x\r\n'.repeat(9_000)}220 x\r\n`,
    `220-${'x'.repeat(30_000)}\r\n220 ${'x'.repeat(30_000)}\r\n`,
  ]) {
    const { replies, error } = parse(text);
    assert.deepEqual([replies.length, replies[0]?.code, error], [1, 220, null]);
    assert.ok(replies[0]!.message.startsWith('x'));
  }
});

test('the first line of a longer reply decides, and nothing more is read', () => {
  for (const text of [
    `250 ${'x'.repeat(70_000)}\r\n250 more\r\n`,
    `250 ${'x'.repeat(70_000)}`,
    `250-2.0.0 x\r\n`.repeat(70_000),
    `250-x\r\n250-${'x'.repeat(70_000)}`,
  ]) {
    const { replies, error } = parse(text);
    assert.deepEqual([replies.length, replies[0]?.code], [1, 250]);
    assert.match(error ?? '', /more than 64 KiB/);
  }
});

test('the first line of a reply decides when the rest is malformed', () => {
  for (const rest of ['what?\r\n', '\r\n', '250-a\0b\r\n', 'x'.repeat(5_000)]) {
    const { replies, error } = parse(`250-2.0.0 Taken\r\n${rest}`);
    assert.deepEqual(replies, [{ code: 250, enhancedCode: '2.0.0', message: 'Taken' }]);
    assert.notEqual(error, null);
  }
});

test('the first line of a reply that was not completed decides', () => {
  const parser = new ReplyParser();
  parser.push(Buffer.from('550-5.1.1 No such user\r\n550-5.1.1 here\r\n550 5.1'));
  const found = { code: 550, enhancedCode: '5.1.1', message: 'No such user\nhere' };
  assert.deepEqual(parser.cut(), found);
  assert.deepEqual(parser.push(Buffer.from('.1 x\r\n250 Ok\r\n')).replies, []);
  assert.equal(parser.cut(), null);
  for (const none of ['', '250 O', '250 Ok\r\n', '250-a\r\n550 b\r\n', 'what?\r\n']) {
    const other = new ReplyParser();
    other.push(Buffer.from(none));
    assert.equal(other.cut(), null, none);
  }
});

test('an unterminated line without a code is an error after 4 KiB, one with a code after 64 KiB', () => {
  for (const [first, bytesMax] of [
    ['x', 4096],
    ['250 ', 64 * 1024],
  ] as const) {
    const parser = new ReplyParser();
    parser.push(Buffer.from(first));
    let pushed = 0;
    while (parser.push(Buffer.from('x'.repeat(1000))).error === null) pushed += 1000;
    assert.ok(pushed <= bytesMax && pushed > bytesMax - 2000);
  }
});

test('replies before malformed data count, nothing after it does', () => {
  const parser = new ReplyParser();
  const first = parser.push(Buffer.from('250 taken\r\nwhat?\r\n250 late\r\n'));
  assert.equal(first.replies.length, 1);
  assert.notEqual(first.error, null);
  assert.deepEqual(parser.push(Buffer.from('250 later\r\n')).replies, []);
});

test('bytes of an unfinished reply are reported', () => {
  const parser = new ReplyParser();
  parser.push(Buffer.from('220 go\r\n'));
  assert.equal(parser.isMidReply, false);
  parser.push(Buffer.from('250-in'));
  assert.equal(parser.isMidReply, true);
});

test('the result does not depend on how the network splits the bytes', () => {
  const line = fc
    .string({ unit: 'grapheme', maxLength: 40 })
    .map((s) => s.replaceAll(/\p{Cc}/gu, ''));
  const reply = fc.tuple(fc.integer({ min: 200, max: 599 }), fc.array(line, { minLength: 1 }));
  fc.assert(
    fc.property(fc.array(reply), fc.array(fc.nat()), (replies, cuts) => {
      const bytes = Buffer.from(replies.map(wireForm).join(''));
      const whole = new ReplyParser().push(bytes);
      const parser = new ReplyParser();
      const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length];
      places.sort((a, b) => a - b);
      const pieces = places.slice(1).map((end, i) => bytes.subarray(places[i], end));
      const found = pieces.flatMap((piece) => parser.push(piece).replies);
      assert.deepEqual(found, whole.replies);
      assert.equal(found.length, replies.length);
    }),
  );
});

function wireForm([code, lines]: [number, string[]]): string {
  return lines.map((line, i) => `${code}${i < lines.length - 1 ? '-' : ' '}${line}\r\n`).join('');
}

test('no bytes make the parser throw or return unsafe text', () => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 200 })), (chunks) => {
      const parser = new ReplyParser();
      for (const chunk of chunks) {
        for (const reply of parser.push(Buffer.from(chunk)).replies) {
          assert.doesNotMatch(reply.message, /[\0-\x09\x0b-\x1f\x7f]/);
        }
      }
    }),
  );
});
