/** Completions of the Tab key, requested as the scripts of the shells do. */
import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { dirname } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';
import { cleanEnv, LAUNCHER, letterhausHere } from '../../test/support/letterhaus.ts';

/** Returns the words that completion offers for a command line whose last word is incomplete. */
async function offered(...words: string[]): Promise<string[]> {
  const { code, stdout, stderr } = await letterhausHere(['complete', '--', ...words], {});
  assert.deepEqual([code, stderr], [0, '']);
  return stdout.split('\n').flatMap((line) => (line === '' ? [] : [line.split('\t')[0]!]));
}

test('commands and their parts are completed', async () => {
  assert.deepEqual(await offered('em'), ['emails']);
  assert.deepEqual(await offered('emails', 's'), ['show']);
  assert.ok((await offered('')).includes('send'));
  assert.deepEqual(await offered('nonsense', 'x'), []);
});

test('options are completed, and the values of options that permit only some', async () => {
  assert.deepEqual(await offered('emails', 'list', '--st'), ['--status']);
  assert.deepEqual(await offered('emails', 'list', '--status', 'boun'), ['bounced']);
  assert.deepEqual(await offered('keys', 'create', '--environment', ''), ['live', 'test']);
  assert.deepEqual(await offered('keys', 'create', '--env'), ['--environment']);
  assert.deepEqual(await offered('keys', 'create', '--mo'), [], '--mode is a former name');
  assert.deepEqual(await offered('keys', 'create', '--name', 'li'), [], 'any name is permitted');
  assert.deepEqual(await offered('keys', 'create', '--environment', 'live', '--perm'), [
    '--permission',
  ]);
  assert.deepEqual(await offered('completion', 'z'), ['zsh']);
});

test('the Tab key completes in bash, however the program is called', async () => {
  const script = `source <("$0" completion bash)
    COMP_WORDS=("$0" emails list --status de); COMP_CWORD=4; _letterhaus
    printf '%s\\n' "\${COMPREPLY[@]}"`;
  const env = cleanEnv({ PATH: `${dirname(process.execPath)}:${process.env['PATH']}` });
  const { stdout } = await promisify(execFile)('bash', ['-c', script, LAUNCHER], { env });
  assert.deepEqual(stdout.split('\n').toSorted(), ['', 'deferred', 'delivered']);
});

test('an unknown shell is refused with the list of known ones', async () => {
  const { code, stderr } = await letterhausHere(['completion', 'tcsh'], {});
  assert.equal(code, 2);
  assert.match(stderr, /Allowed choices are bash, zsh, fish/);
});
