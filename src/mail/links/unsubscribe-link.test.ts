/** Tokens of unsubscribe links cannot be forged, and do not reveal the recipient. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Address } from '../address.ts';
import {
  formatHostedLink,
  parseHostedLink,
  PUBLIC_URL_MAX_LENGTH,
  type Unsubscriber,
  UnsubscribeTokens,
} from './unsubscribe-link.ts';

const tokens = new UnsubscribeTokens([Buffer.alloc(32, 1)]);

const who: Unsubscriber = {
  projectId: '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa',
  environment: 'live',
  emailId: '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21ab',
  address: 'Jo.Doe+list@example.com' as Address,
  fromDomain: 'acme.com',
};

test('a token names its recipient, is deterministic, and does not reveal the address', () => {
  const token = tokens.make(who);
  assert.deepEqual(tokens.read(token), who);
  assert.equal(tokens.make({ ...who }), token);
  assert.match(token, /^[\w-]{100,160}$/);
  assert.doesNotMatch(Buffer.from(token, 'base64url').toString('latin1'), /example|acme/);
  const changes = [
    { environment: 'test' as const },
    { emailId: who.projectId },
    { address: 'jo@example.com' as Address },
    { fromDomain: 'acme.org' },
  ];
  for (const change of changes) {
    const other = { ...who, ...change };
    assert.notEqual(tokens.make(other), token);
    assert.deepEqual(tokens.read(tokens.make(other)), other);
  }
});

test('a changed, shortened or foreign token is invalid', () => {
  const token = tokens.make(who);
  const elsewhere = new UnsubscribeTokens([Buffer.alloc(32, 2)]);
  assert.equal(elsewhere.read(token), null);
  for (const wrong of ['', 'x', `${token}A`, `${token}=`, token.slice(0, -1), ` ${token}`]) {
    assert.equal(tokens.read(wrong), null, wrong);
  }
  const bytes = Buffer.from(token, 'base64url');
  fc.assert(
    fc.property(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 }), (at, flip) => {
      const changed = Buffer.from(bytes);
      changed[at]! ^= flip;
      assert.equal(tokens.read(changed.toString('base64url')), null);
    }),
  );
  fc.assert(
    fc.property(fc.string({ maxLength: 300 }), (noise) => assert.equal(tokens.read(noise), null)),
  );
});

test('the longest link fits into a header line', () => {
  const label = `${'x'.repeat(60)}.`.repeat(4);
  const longest = {
    ...who,
    address: `${'ü'.repeat(32)}@${label.slice(0, 185)}test` as Address,
    fromDomain: `${label.slice(0, 183)}${'x'.repeat(58)}.example.com`,
  };
  assert.equal(Buffer.byteLength(longest.address), 254);
  const token = tokens.make(longest);
  assert.deepEqual(tokens.read(token), longest);
  const link = 'x'.repeat(PUBLIC_URL_MAX_LENGTH) + '/u/' + token;
  assert.ok(`List-Unsubscribe: <${link}>`.length <= 998);
});

test('hosted links are distinguished from custom links', () => {
  for (const byMail of [true, false]) {
    const stored = formatHostedLink('https://mail.acme.com', { byMail });
    assert.deepEqual(parseHostedLink(stored), { base: 'https://mail.acme.com/u/', byMail });
  }
  assert.equal(parseHostedLink('https://mail.acme.com/u/'), null);
  assert.equal(parseHostedLink(null), null);
});
