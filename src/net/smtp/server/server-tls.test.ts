/** Dialogues with the SMTP server about STARTTLS and AUTH. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Dialogue } from '../../../../test/support/smtp-dialogue.ts';
import { logIn, startSmtpServer } from '../../../../test/support/smtp-server.ts';

const PLAIN = `AUTH PLAIN ${Buffer.from('\0jo\0secret').toString('base64')}`;

test('extensions are offered, and AUTH only inside TLS', async () => {
  await using server = await startSmtpServer({ logIn });
  await using client = await Dialogue.open(server.port);
  assert.equal(await client.readReply(), '220 mx.test ESMTP Letterhaus');
  const common = ['PIPELINING', 'SIZE 1000000', '8BITMIME', 'SMTPUTF8', 'ENHANCEDSTATUSCODES'];
  const offered = async () => {
    const [first, ...others] = ((await client.ask('EHLO c.test')) ?? '').split('\n');
    assert.equal(first, '250-mx.test');
    return others.map((line) => line.slice(4));
  };
  assert.deepEqual(await offered(), [...common, 'STARTTLS']);
  assert.equal((await client.ask(PLAIN))?.slice(0, 10), '538 5.7.11');
  assert.equal((await client.ask('MAIL FROM:<a@b.test>'))?.slice(0, 9), '530 5.7.0');
  await client.startTls();
  // RFC 3207 §4.2: commands before TLS do not count.
  assert.equal((await client.ask('MAIL FROM:<a@b.test>'))?.slice(0, 9), '503 5.5.1');
  assert.deepEqual(await offered(), [...common, 'AUTH PLAIN LOGIN']);
  assert.equal((await client.ask('MAIL FROM:<a@b.test>'))?.slice(0, 9), '530 5.7.0');
  assert.equal((await client.ask(PLAIN))?.slice(0, 9), '235 2.7.0');
  assert.equal((await client.ask(PLAIN))?.slice(0, 9), '503 5.5.1');
  assert.deepEqual(await offered(), common);
  assert.equal(await client.ask('MAIL FROM:<>'), '250 2.1.0 Ok');
});

test('authentication works in every syntax and fails with the right reply', async () => {
  await using server = await startSmtpServer({ logIn });
  const base64 = (text: string) => Buffer.from(text).toString('base64');
  const cases: [string[], string][] = [
    [[PLAIN], '235'],
    [['AUTH PLAIN', base64('\0jo\0secret')], '235'],
    [['auth plain', base64('as\0jo\0secret')], '235'],
    [['AUTH LOGIN', base64('jo'), base64('secret')], '235'],
    [[`AUTH LOGIN ${base64('jo')}`, base64('secret')], '235'],
    [['AUTH LOGIN', base64('jo'), base64('wrong')], '535'],
    [[`AUTH PLAIN ${base64('\0jo\0wrong')}`], '535'],
    [['AUTH LOGIN', '*'], '501'],
    [['AUTH PLAIN', '*'], '501'],
    [['AUTH PLAIN ='], '501'],
    [['AUTH PLAIN not-base64'], '501'],
    [[`AUTH PLAIN ${base64('jo secret')}`], '501'],
    [[`AUTH PLAIN ${base64('\0jo\0secret\0x')}`], '501'],
    [[`${PLAIN} more`], '501'],
    [['AUTH CRAM-MD5'], '504'],
    [['AUTH'], '504'],
  ];
  for (const [lines, code] of cases) {
    await using client = await Dialogue.greeted(server.port);
    await client.startTls();
    await client.ask('EHLO client.test');
    const replies = [];
    for (const line of lines) replies.push((await client.ask(line))?.slice(0, 3));
    assert.deepEqual(replies, [...lines.slice(1).map(() => '334'), code], lines.join(' | '));
  }
});

test('plain text after STARTTLS is not read as a command inside TLS', async () => {
  await using server = await startSmtpServer();
  await using client = await Dialogue.greeted(server.port);
  client.send('STARTTLS\r\nEHLO evil.test\r\nMAIL FROM:<evil@b.test>\r\n');
  assert.deepEqual(
    (await client.readReplies()).map((reply) => reply.slice(0, 9)),
    ['501 5.5.4'],
  );
  // Bytes that arrive later are read as the handshake and break it.
  await using slow = await Dialogue.greeted(server.port);
  assert.match((await slow.ask('STARTTLS')) ?? '', /^220 /);
  slow.send('EHLO evil.test\r\nMAIL FROM:<evil@b.test>\r\n');
  assert.deepEqual(await slow.readReplies(), []);
});

test('STARTTLS without a certificate, or twice, is refused', async () => {
  await using bare = await startSmtpServer({ tls: { mode: 'starttls', context: () => null } });
  await using client = await Dialogue.open(bare.port);
  await client.readReply();
  assert.ok(!(await client.ask('EHLO c.test'))?.includes('STARTTLS'));
  assert.equal((await client.ask('STARTTLS'))?.slice(0, 9), '454 4.7.0');
  await using server = await startSmtpServer();
  await using secured = await Dialogue.greeted(server.port);
  await secured.startTls();
  assert.equal((await secured.ask('STARTTLS'))?.slice(0, 9), '503 5.5.1');
});
