/** Owners and modes of folders that root creates for the user of the database. */
import assert from 'node:assert/strict';
import { mkdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { AS_ROOT, OTHER_UID, temporaryFolder } from '../../../test/support/embedded.ts';
import {
  copyTree,
  describeUser,
  changeOwnerOfTree,
  findNamedUserId,
  choosePrivateOwner,
} from './folders.ts';

test('a folder always gets the same private user id, never one in use', () => {
  const { uid, gid } = choosePrivateOwner('/var/lib/letterhaus');
  assert.equal(gid, uid);
  assert.deepEqual(choosePrivateOwner('/var/lib/letterhaus'), { uid, gid });
  assert.notEqual(choosePrivateOwner('/var/lib/letterhaus', new Set([uid])).uid, uid);
  const all = new Set(Array.from({ length: 65_536 }, (_, id) => id));
  assert.throws(() => choosePrivateOwner('/var/lib/letterhaus', all), { kind: 'no-private-user' });
});

test('users are shown by name if they have one', () => {
  assert.equal(describeUser(0), 'root (uid 0)');
  assert.equal(describeUser(61_000), 'uid 61000');
  assert.ok(findNamedUserId() > 0);
});

test('a copied folder is readable by others under any umask, and can change owner as a whole', async () => {
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'from', 'bin'), { recursive: true });
  const umask = process.umask(0o077);
  await copyTree(join(folder, 'from'), join(folder, 'to')).finally(() => process.umask(umask));
  assert.equal(statSync(join(folder, 'to', 'bin')).mode & 0o777, 0o755);
  const uid = AS_ROOT ? OTHER_UID : (process.geteuid?.() ?? 0);
  const gid = AS_ROOT ? OTHER_UID : (process.getegid?.() ?? 0);
  changeOwnerOfTree(join(folder, 'to'), { uid, gid });
  assert.equal(statSync(join(folder, 'to', 'bin')).uid, uid);
});
