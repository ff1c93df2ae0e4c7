/** Shows how the log of the embedded PostgreSQL is kept small. */
import assert from 'node:assert/strict';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { temporaryFolder } from '../../../test/support/embedded.ts';
import { rotateLargeLog } from './postmaster.ts';

test('a log of more than 8 MB is rotated, and its last part kept', () => {
  const file = join(temporaryFolder(), 'postgres.log');
  rotateLargeLog(file); // not there yet
  writeFileSync(file, 'short\n');
  rotateLargeLog(file);
  assert.equal(readFileSync(file, 'utf8'), 'short\n');
  writeFileSync(file, Buffer.alloc(8 * 1024 * 1024 + 1, 'x'));
  rotateLargeLog(file);
  assert.equal(statSync(file).size, 0);
  assert.equal(statSync(`${file}.1`).size, 8 * 1024 * 1024 + 1);
});
