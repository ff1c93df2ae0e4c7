/** Folders that killed runs of the tests left in memory and on disk. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { hasRoom, removeAbandoned, scratchOf } from './scratch.ts';

const base = mkdtempSync(join(tmpdir(), 'letterhaus-scratch-'));
after(() => rmSync(base, { recursive: true }));

test('a run removes the folders of killed runs, and none of running ones', () => {
  const mine = scratchOf(base, process.pid);
  const { pid } = spawnSync(process.execPath, ['--version']);
  mkdirSync(join(scratchOf(base, pid), 'database'));
  mkdirSync(join(base, 'of-another-program'));
  removeAbandoned(base);
  assert.deepEqual(readdirSync(base).toSorted(), [
    `letterhaus-run-${process.pid}`,
    'of-another-program',
  ]);
  assert.equal(statSync(mine).mode & 0o7777, 0o1777, 'other users may make folders there');
});

test('a folder on disk is not mistaken for one in memory', () => {
  for (const place of ['/', base, '/proc', '/no/such/folder']) assert.equal(hasRoom(place), false);
});
