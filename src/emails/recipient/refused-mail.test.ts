/** Shows which addresses a refused request names. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { addressKey } from '../../mail/address.ts';
import { outlineOf } from '../../requests/body-outline.ts';
import { namesAddress } from './refused-mail.ts';

const names = (body: unknown, message: string | null, address: string): boolean =>
  namesAddress({ outline: body === null ? null : outlineOf(body), message }, addressKey(address));

test('a request names its recipients in any role, in any form of the API', () => {
  const body = {
    from: 'us@acme.com',
    to: ['Jo <Jo@Example.com>', 'flo@example.com'],
    cc: ['C <cc@example.com>'],
    bcc: 'bcc@example.com',
  };
  for (const address of ['jo@example.com', 'FLO@example.com', 'cc@example.com', 'bcc@example.com'])
    assert.equal(names(body, null, address), true, address);
  for (const address of ['us@acme.com', 'o@example.com', 'jo@example.co'])
    assert.equal(names(body, null, address), false, address);
  assert.equal(names([{ to: 'a@b.test' }, { to: 'jo@example.com' }], null, 'jo@example.com'), true);
});

test('the sentence of the error names addresses as well, with or without its period', () => {
  const message = 'to: bob@example.com is suppressed: hard_bounce, and "al@example.com".';
  assert.equal(names(null, message, 'bob@example.com'), true);
  assert.equal(names(null, message, 'al@example.com'), true);
  assert.equal(names(null, 'Not for bob@example.com.', 'bob@example.com'), true);
  assert.equal(names(null, message, 'ob@example.com'), false);
  assert.equal(names(null, null, 'ob@example.com'), false);
});

test('addresses outside of ASCII compare in every composition', () => {
  assert.equal(names({ to: 'Jörg@bücher.example' }, null, 'JÖRG@xn--bcher-kva.example'), true);
});
