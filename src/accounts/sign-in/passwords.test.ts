/** Stored passwords are compared with the reference implementation of argon2id. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Overloaded } from '../../core/refusals.ts';
import { passwordProblem, Passwords } from './passwords.ts';

const passwords = new Passwords();
/** The hash of `password`, made with a hundredth of the memory. */
const QUICK =
  '$argon2id$v=19$m=256,t=2,p=1$c29tZXNhbHQ$nf65EOgLrQMR/uIPnA4rEsF5h7TKyQwu9U1bMCHGi/4';
const STRANGER = { isKnown: false, owner: '192.0.2.0' };

test('a stored password has the hash of the reference implementation of argon2id', async () => {
  assert.equal(await passwords.verify('password', QUICK, STRANGER), true);
  assert.equal(await passwords.verify('passwort', QUICK, STRANGER), false);
});

test('a password matches however a keyboard encodes it, and equal passwords have different rows', async () => {
  const stored = await passwords.hash('caf\u00e9 au lait', STRANGER);
  assert.equal(await passwords.verify('cafe\u0301 au lait', stored, STRANGER), true);
  assert.equal(await passwords.verify('cafe au lait', stored, STRANGER), false);
  assert.notEqual(await passwords.hash('caf\u00e9 au lait', STRANGER), stored);
});

test('an account that does not exist has no valid password', async () => {
  for (const text of ['', 'password', '\0'.repeat(32)]) {
    assert.equal(await passwords.verify(text, null, STRANGER), false);
  }
});

test('a bounded number of passwords waits for hashing, and further ones are refused until later', async () => {
  const all = Array.from({ length: 70 }, () => passwords.verify('guess', QUICK, STRANGER));
  const ends = await Promise.allSettled(all);
  const refused = ends.filter((end) => end.status === 'rejected');
  assert.equal(refused.length, 5);
  for (const { reason } of refused) assert.ok(reason instanceof Overloaded);
  assert.equal(await passwords.verify('guess', QUICK, STRANGER), false);
});

test('a password is long, has several characters, and does not contain the address', () => {
  const problem = (password: string) => passwordProblem(password, 'jo@acme.com')?.message ?? null;
  assert.match(problem('too short')!, /at least 10 characters/);
  assert.match(problem('ababababab')!, /repeats/);
  assert.match(problem('JO@acme.com!')!, /contains the email address/);
  assert.equal(problem('ten characters'), null);
});
