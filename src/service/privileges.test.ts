import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import pino from 'pino';
import { temporaryFolder } from '../../test/support/embedded.ts';
import { SharedFiles } from './privileges.ts';

const USER = { uid: process.geteuid!(), gid: process.getegid!() };
const log = pino({ level: 'silent' });

test('a folder for certificates is created when needed and removed afterwards', () => {
  const folder = temporaryFolder();
  const parent = temporaryFolder();
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
  writeFileSync(cert, 'certificate');
  writeFileSync(key, 'key');
  {
    using files = new SharedFiles(USER, { dataDir: folder, log, parent });
    assert.deepEqual(readdirSync(parent), [], 'no certificates, no folder');
    const copies = files.share({ cert, key });
    assert.deepEqual(
      [copies.cert, copies.key].map((file) => readFileSync(file, 'utf8')),
      ['certificate', 'key'],
    );
    assert.equal(readdirSync(parent).length, 1);
  }
  assert.deepEqual(readdirSync(parent), []);
});

test('copies of certificates left by killed processes are removed by the next start', async () => {
  const parent = temporaryFolder();
  const dataDir = temporaryFolder();
  const child = spawn(process.execPath, ['--version'], { stdio: 'ignore' });
  await once(child, 'exit');
  const elsewhere = 'posthorn-tls-0123456789abcdef';
  for (const pid of [child.pid, process.pid]) mkdirSync(join(parent, `${elsewhere}-${pid}`));
  mkdirSync(join(parent, 'posthorn-other'));
  using _files = new SharedFiles(USER, { dataDir, log, parent });
  // That of a process that runs is left alone.
  assert.deepEqual(
    readdirSync(parent).toSorted(),
    ['posthorn-other', `${elsewhere}-${process.pid}`].toSorted(),
  );
});
