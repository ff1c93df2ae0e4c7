/** SMTP smuggling: servers that disagree about the end of a message make two messages of one. Ours never does. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Dialogue } from '../../../../test/support/smtp-dialogue.ts';
import { startSmtpServer } from '../../../../test/support/smtp-server.ts';

const HIDDEN =
  'MAIL FROM:<evil@b.test>\r\nRCPT TO:<victim@d.test>\r\nDATA\r\nSubject: hidden\r\n\r\nx\r\n.\r\n';
const START = 'MAIL FROM:<a@b.test>\r\nRCPT TO:<c@d.test>\r\nDATA\r\nSubject: x\r\n\r\nhello';

/** Sequences that some server accepted as the end of a message. */
const ENDS = [
  '\n.\n',
  '\n.\r\n',
  '\r\n.\n',
  '\r.\r',
  '\r.\r\n',
  '\r\n.\r',
  '\n.\r',
  '\r.\n',
].concat(['\r\n\0.\r\n', '\r\n.\0\r\n', '\r\n.\r\r\n', '\r\n.\n\r', '\r\n. \r\n', '\r\n..\r\n']);

test('no false end of a message makes the server execute commands after it', async () => {
  await using server = await startSmtpServer({ limits: { connectionsPerClient: 1_000 } });
  for (const end of ENDS) {
    server.taken.length = 0;
    await using client = await Dialogue.greeted(server.port);
    client.send(`${START}${end}${HIDDEN}`);
    client.socket.end();
    await client.readReplies();
    assert.ok(server.taken.length <= 1, JSON.stringify(end));
    for (const mail of server.taken) assert.deepEqual(mail.envelope.recipients, ['c@d.test']);
  }
});

test('the result of a dialogue does not depend on packet boundaries', async () => {
  await using server = await startSmtpServer({ limits: { connectionsPerClient: 1_000 } });
  const part = fc.constantFrom(
    'NOOP\r\n',
    'MAIL FROM:<a@b.test>\r\n',
    'RCPT TO:<c@d.test>\r\n',
    'DATA\r\n',
    'Subject: x\r\n',
    '.\r\n',
    '..\r\n',
    'RSET\r\n',
    '\r\n.\r\n',
    '\n',
    '\r',
    START,
    HIDDEN,
    'BDAT 3\r\nabc',
    `${'x'.repeat(4_095)}\r\n`,
    'x'.repeat(3_000),
  );
  const run = async (chunks: string[]) => {
    const from = server.taken.length;
    await using client = await Dialogue.greeted(server.port);
    for (const chunk of chunks) {
      client.send(Buffer.from(chunk, 'latin1'));
      // Makes it a packet of its own, or at least a read of its own.
      await new Promise(setImmediate);
    }
    client.socket.end();
    const replies = await client.readReplies();
    const mails = server.taken.slice(from).map(({ envelope, text }) => ({ envelope, text }));
    return { replies: replies.map((reply) => reply.replace(/Taken \d+/, 'Taken')), mails };
  };
  await fc.assert(
    fc.asyncProperty(
      fc.array(part, { maxLength: 20 }),
      fc.array(fc.nat(20_000), { maxLength: 12 }),
      async (parts, cuts) => {
        const text = parts.join('');
        const at = [0, ...cuts.map((cut) => cut % (text.length + 1)), text.length];
        at.sort((a, b) => a - b);
        const chunks = at.slice(0, -1).map((from, index) => text.slice(from, at[index + 1]));
        assert.deepEqual(await run(chunks), await run([text]));
      },
    ),
    { numRuns: 100 },
  );
});
