/** Shows which PostgreSQL programs the embedded database uses. */
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../../../test/support/embedded.ts';
import { findEngine } from './binaries.ts';

const NOWHERE = { packagesFrom: [], hostCommands: [], hostFolders: [] };

function installed(...versions: string[]): string {
  const home = temporaryFolder();
  for (const version of versions) {
    const folder = join(home, version, 'bin');
    mkdirSync(folder, { recursive: true });
    for (const program of ['postgres', 'initdb']) {
      const file = join(folder, program);
      writeFileSync(file, `#!/bin/sh\necho 'postgres (PostgreSQL) ${version} (Debian 1.pgdg13)'\n`);
      chmodSync(file, 0o755);
    }
  }
  return join(home, '*', 'bin');
}

test('without PostgreSQL programs the error names DATABASE_URL', () => {
  const tooOld = { ...NOWHERE, hostFolders: [installed('14.9')] };
  for (const search of [NOWHERE, tooOld]) {
    const problem = {
      kind: 'no-binaries',
      message: /Set DATABASE_URL to a PostgreSQL 15 or newer/,
    };
    assert.throws(() => findEngine(search, null), problem);
  }
});

test('of several installed versions the newest creates a database, and the same version opens it again', () => {
  const search = { ...NOWHERE, hostFolders: [installed('15.10', '18.1', '17.2')] };
  assert.equal(findEngine(search, null).version, '18.1');
  assert.equal(findEngine(search, 17).version, '17.2');
  assert.equal(findEngine(search, 16).version, '18.1');
});

test('programs found by a command of the machine are used', () => {
  const folder = installed('16.4').replace('*', '16.4');
  const search = { ...NOWHERE, hostCommands: [['no-such-command'], ['echo', folder]] as const };
  assert.deepEqual(findEngine(search, null), { version: '16.4', major: 16, kind: 'host', folder });
});
