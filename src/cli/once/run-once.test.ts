/** `start --once` as an operator runs it: what it prints, and that nothing of it stays. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { cleanEnv, LAUNCHER } from '../../../test/support/letterhaus.ts';
import { waitFor } from '../../../test/support/wait.ts';

/** The deadline of the run itself. */
const START_WITHIN_MS = 60_000;

/** Starts a run that creates everything in a temporary folder of its own. */
function start(...args: string[]) {
  const folder = mkdtempSync(join(tmpdir(), 'letterhaus-test-'));
  const env = cleanEnv({ TMPDIR: folder, PORT: '1', DATABASE_URL: 'postgres://nowhere.test/x' });
  const child = spawn(process.execPath, [LAUNCHER, 'start', '--once', ...args], {
    env,
    detached: true,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const run = {
    stdout: '',
    ended: once(child, 'exit').then(([code]) => code as number | null),
    /** Ends the run like Ctrl-C in a terminal: the whole process group gets the signal. */
    interrupt: () => process.kill(-(child.pid ?? 0), 'SIGINT'),
    left: () => readdirSync(folder),
    [Symbol.dispose]() {
      child.kill('SIGKILL');
      rmSync(folder, { recursive: true, force: true });
    },
  };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (run.stdout += text));
  return run;
}

test('--once sends one email through the whole service, ignoring configuration, and leaves nothing behind', async () => {
  using run = start('--json');
  assert.equal(await run.ended, 0, run.stdout);
  const { ok, steps } = JSON.parse(run.stdout);
  assert.equal(ok, true);
  assert.deepEqual(
    steps.map(({ step }: { step: string }) => step),
    [
      'started',
      'key',
      'domain',
      'listening',
      'accepted',
      'received',
      'signed',
      'delivered',
      'webhook',
    ],
  );
  assert.deepEqual(run.left(), []);
});

test('Ctrl-C ends --once with exit code 1 and leaves nothing behind', async () => {
  using run = start();
  await waitFor(() => run.stdout.includes('  started '), {
    what: 'the first step',
    timeoutMs: START_WITHIN_MS,
  });
  run.interrupt();
  assert.equal(await run.ended, 1);
  assert.deepEqual(run.left(), []);
});
