/** Options, commands and extensions, without a server. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  parseExtensions,
  isWritablePath,
  NO_EXTENSIONS,
  pathCommand,
  SMTP_TIMEOUTS_MS,
  timeoutsWithin,
} from './client-session.ts';

const offered = (...lines: string[]) =>
  parseExtensions({ code: 250, enhancedCode: null, message: ['mx.test', ...lines].join('\n') });

test('extensions are recognised in any case', () => {
  const all = offered(
    'pipelining',
    'StartTLS',
    'SMTPUTF8',
    '8bitMIME',
    'dsn',
    'size 1000',
    'auth plain Login',
  );
  assert.deepEqual(all, {
    pipelining: true,
    startTls: true,
    smtpUtf8: true,
    eightBitMime: true,
    dsn: true,
    size: { sizeBytesMax: 1000 },
    authMechanisms: ['PLAIN', 'LOGIN'],
  });
});

test('unknown keywords, and those in the greeting, are not extensions', () => {
  assert.deepEqual(offered('X-PIPELINING', 'HELP', ''), NO_EXTENSIONS);
  const greeting = { code: 250, enhancedCode: null, message: 'PIPELINING STARTTLS' };
  assert.deepEqual(parseExtensions(greeting), NO_EXTENSIONS);
});

test('a SIZE limit that is not a number is ignored', () => {
  assert.deepEqual(offered('SIZE').size, { sizeBytesMax: 0 });
  assert.deepEqual(offered('SIZE lots').size, { sizeBytesMax: 0 });
});

test('the timeouts have the values of RFC 5321 §4.5.3.2', () => {
  const { greeting, mail, rcpt, data_command: dataCommand, body, data } = SMTP_TIMEOUTS_MS;
  const minutes = [greeting, mail, rcpt, dataCommand, body, data].map((ms) => ms / 60_000);
  assert.deepEqual(minutes, [5, 5, 5, 2, 3, 10]);
});

test('a cap shortens only longer timeouts', () => {
  const { connect, data, quit } = timeoutsWithin(10_000);
  assert.deepEqual({ connect, data, quit }, { connect: 10_000, data: 10_000, quit: 5_000 });
});

test('brackets are written only within a quoted local part', () => {
  const quoted = [
    '"a<b"@acme.test',
    '"a> SIZE=1"@acme.test',
    '"\\"a\\\\>"@acme.test',
    '""@acme.test',
  ];
  for (const address of ['jo@acme.test', ...quoted]) {
    assert.equal(pathCommand('RCPT TO', address, false), `RCPT TO:<${address}>`);
  }
  assert.equal(isWritablePath('"jö<"@acme.test', false), false);
  assert.equal(isWritablePath('"jö<"@acme.test', true), true);
  for (const address of [
    'a>b@acme.test',
    '"a>@acme.test',
    '"a\\">@acme.test',
    '"a"@acme.test>',
    '"a">@acme.test',
    '"a"b>@acme.test',
    'a">"@acme.test',
    '"a\r\n"@acme.test',
    '"ö\u2028"@acme.test',
  ]) {
    for (const smtpUtf8 of [false, true]) {
      assert.equal(isWritablePath(address, smtpUtf8), false, JSON.stringify(address));
      assert.throws(() => pathCommand('RCPT TO', address, smtpUtf8), /cannot be written/);
    }
  }
});
