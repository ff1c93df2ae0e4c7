/** Shows when the first start writes key and link into a file instead of its output. */
import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { isOutputKept, keepFirstScreen } from './first-start-file.ts';

const SCREEN = 'Test key   lh_test_x\n';

function dataDirFor(t: TestContext): string {
  const dataDir = mkdtempSync(join(tmpdir(), 'letterhaus-first-'));
  t.after(() => rmSync(dataDir, { recursive: true }));
  return dataDir;
}

test('key and link are kept out of the output only under systemd, and not on a terminal', () => {
  assert.equal(isOutputKept({ env: {} }), false);
  assert.equal(isOutputKept({ env: { JOURNAL_STREAM: '9:12345' } }), true);
  assert.equal(isOutputKept({ env: { INVOCATION_ID: 'd3a1' } }), true);
  assert.equal(isOutputKept({ env: { INVOCATION_ID: 'd3a1' }, widthColumns: 80 }), false);
});

test('the file has the key, is readable only by its user, and the output has only its path', (t) => {
  const dataDir = dataDirFor(t);
  const file = join(dataDir, 'first-start.txt');
  // An earlier start left these files, which others could read.
  writeFileSync(file, 'old', { mode: 0o644 });
  writeFileSync(`${file}.new`, 'unfinished', { mode: 0o644 });
  const printed = keepFirstScreen(dataDir, SCREEN, 'letterhaus');
  assert.match(printed, new RegExp(`^The test key, .* are in ${file}\\. Delete that file`));
  assert.doesNotMatch(printed, /lh_test_x/);
  assert.equal(readFileSync(file, 'utf8'), SCREEN);
  assert.equal(statSync(file).mode & 0o777, 0o600);
  assert.deepEqual(readdirSync(dataDir), ['first-start.txt']);
});

test('when the file cannot be written, the output says which commands make another key and link', (t) => {
  const dataDir = dataDirFor(t);
  mkdirSync(join(dataDir, 'first-start.txt/in-the-way'), { recursive: true });
  const printed = keepFirstScreen(dataDir, SCREEN, 'letterhaus');
  assert.match(printed, /could not be written to .*first-start\.txt \(.*\)/);
  assert.match(printed, /letterhaus keys create --environment test, and letterhaus owner link\n$/);
  assert.doesNotMatch(printed, /lh_test_x/);
  assert.deepEqual(readdirSync(dataDir), ['first-start.txt']);
});
