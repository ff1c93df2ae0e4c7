import assert from 'node:assert/strict';
import { test } from 'node:test';
import { describeUser, namedUser, privateOwner } from './accounts.ts';

test('a folder always gets the same private id, and never one that is taken', () => {
  const { uid, gid } = privateOwner('/var/lib/posthorn');
  assert.equal(gid, uid);
  assert.deepEqual(privateOwner('/var/lib/posthorn'), { uid, gid });
  assert.notEqual(privateOwner('/var/lib/posthorn', new Set([uid])).uid, uid);
  const all = new Set(Array.from({ length: 65_536 }, (_, id) => id));
  assert.throws(() => privateOwner('/var/lib/posthorn', all), { kind: 'no-private-user' });
});

test('users are named where they have a name', () => {
  assert.equal(describeUser(0), 'root (uid 0)');
  assert.equal(describeUser(61_000), 'uid 61000');
  assert.ok(namedUser() > 0);
});
