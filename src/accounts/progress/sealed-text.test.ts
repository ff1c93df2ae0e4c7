/** A sealed text can be read only for its purpose, within ten minutes. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { SecretBox } from '../../secrets/secret-box.ts';
import { SealedText } from './sealed-text.ts';

test('a text is readable for ten minutes, for its purpose, by the keys of the installation', () => {
  let nowMs = 1_000_000;
  const world = { now: () => nowMs };
  const secrets = new SecretBox('k'.repeat(40));
  const sealed = new SealedText<{ state: string }>({ secrets, world }, 'one');
  const text = sealed.seal({ state: 'secret' });
  assert.ok(!Buffer.from(text, 'base64url').includes('secret'));
  assert.deepEqual(sealed.open(text), { state: 'secret' });
  assert.equal(new SealedText({ secrets, world }, 'other').open(text), null);
  const others = new SealedText({ secrets: new SecretBox('o'.repeat(40)), world }, 'one');
  assert.equal(others.open(text), null);
  for (const damaged of [null, '', 'x', `${text.slice(0, -2)}AA`]) {
    assert.equal(sealed.open(damaged), null);
  }
  nowMs += 599_000;
  assert.deepEqual(sealed.open(text), { state: 'secret' });
  nowMs += 2_000;
  assert.equal(sealed.open(text), null);
  nowMs -= 700_000;
  assert.equal(sealed.open(text), null, 'from a clock that is far ahead');
});
