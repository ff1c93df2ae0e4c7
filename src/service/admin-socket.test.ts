/** The folder of the admin socket when the path of the data directory is too long for a socket. */
import assert from 'node:assert/strict';
import { existsSync, statSync } from 'node:fs';
import { dirname } from 'node:path';
import { test } from 'node:test';
import { AdminSocket } from './admin-socket.ts';

test('a short folder for the socket is private, and gone when the service has stopped', () => {
  const dataDir = `/${'x'.repeat(120)}`;
  const admin = new AdminSocket(dataDir);
  const folder = dirname(admin.path);
  assert.notEqual(dirname(folder), dataDir);
  const { uid, mode } = statSync(folder);
  assert.deepEqual([uid, mode & 0o777], [process.geteuid?.(), 0o700]);
  admin[Symbol.dispose]();
  assert.equal(existsSync(folder), false);
});
