import assert from 'node:assert/strict';
import { test } from 'node:test';
import { extensionsOf, NO_EXTENSIONS } from './session.ts';

const offered = (...lines: string[]) =>
  extensionsOf({ code: 250, enhancedCode: null, message: ['mx.test', ...lines].join('\n') });

test('what a server offers is understood in any case', () => {
  const all = offered(
    'pipelining',
    'StartTLS',
    'SMTPUTF8',
    '8bitMIME',
    'size 1000',
    'auth plain Login',
  );
  assert.deepEqual(all, {
    pipelining: true,
    startTls: true,
    smtpUtf8: true,
    eightBitMime: true,
    size: { sizeBytesMax: 1000 },
    authMechanisms: ['PLAIN', 'LOGIN'],
  });
});

test('what is not known, or stands in the greeting, is no extension', () => {
  assert.deepEqual(offered('X-PIPELINING', 'HELP', ''), NO_EXTENSIONS);
  const greeting = { code: 250, enhancedCode: null, message: 'PIPELINING STARTTLS' };
  assert.deepEqual(extensionsOf(greeting), NO_EXTENSIONS);
});

test('a limit of size that is no number is no limit', () => {
  assert.deepEqual(offered('SIZE').size, { sizeBytesMax: 0 });
  assert.deepEqual(offered('SIZE lots').size, { sizeBytesMax: 0 });
});
