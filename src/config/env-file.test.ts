/** Variables from files (env-file.ts). */
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { mergeEnvFiles } from './env-file.ts';

const folder = mkdtempSync(join(tmpdir(), 'letterhaus-test-'));
after(() => rmSync(folder, { recursive: true, force: true }));
const dataDir = join(folder, 'data');
mkdirSync(dataDir);

function file(path: string, text: string): string {
  writeFileSync(join(folder, path), text, { mode: 0o600 });
  return join(folder, path);
}

test('the environment overrides the file in the data directory, which overrides the file of the machine', () => {
  const ofMachine = file('machine.env', `LETTERHAUS_DATA_DIR=${dataDir}\nA=1\nB=1\nC=1\n`);
  file('data/letterhaus.env', '# of the data directory\nB=2\nC="2 words"\n');
  const whole = mergeEnvFiles({ LETTERHAUS_ENV_FILE: ofMachine, B: '3', C: undefined });
  assert.deepEqual(whole.problems, []);
  assert.equal(whole.dataDir, dataDir);
  const { A, B, C } = whole.env;
  assert.deepEqual([A, B, C], ['1', '3', '2 words']);
});

test('a file that others can write, that is missing, or that moves the data directory is a problem', () => {
  const env = { LETTERHAUS_ENV_FILE: '/dev/null', LETTERHAUS_DATA_DIR: dataDir };
  const own = file('data/letterhaus.env', 'LETTERHAUS_DATA_DIR=/elsewhere\n');
  assert.match(mergeEnvFiles(env).problems.join(), /leave out LETTERHAUS_DATA_DIR/);
  file('data/letterhaus.env', 'A=1\n');
  chmodSync(own, 0o620);
  assert.match(mergeEnvFiles(env).problems.join(), /other users can write it; run `chmod 600/);
  rmSync(own);
  assert.deepEqual(mergeEnvFiles(env).problems, []);
  const missing = { ...env, LETTERHAUS_ENV_FILE: join(folder, 'missing.env') };
  assert.match(mergeEnvFiles(missing).problems.join(), /missing\.env: it cannot be read/);
});

test('a file with a secret that all users can read is a problem; one without a secret is none', () => {
  const env = { LETTERHAUS_ENV_FILE: '/dev/null', LETTERHAUS_DATA_DIR: dataDir };
  const problemsWith = (line: string, mode: number): string => {
    chmodSync(file('data/letterhaus.env', `PORT=3000\n${line}\n`), mode);
    return mergeEnvFiles(env).problems.join();
  };
  for (const [name, value] of [
    ['LETTERHAUS_SECRET_KEY', 'k'.repeat(40)],
    ['LETTERHAUS_METRICS_TOKEN', 'token-of-metrics'],
    ['LETTERHAUS_BACKUP_PASSPHRASE', 'many words'],
    ['AWS_SECRET_ACCESS_KEY', 'xyz'],
    ['DATABASE_URL', 'postgres://jo:hidden@db.example/mail'],
    ['DATABASE_URL', 'postgres://db.example/mail?user=jo&password=hidden'],
    ['LETTERHAUS_RELAY_URL', 'smtps://jo:hidden@relay.example'],
  ] as const) {
    const problem = problemsWith(`${name}=${value}`, 0o644);
    assert.match(problem, new RegExp(`other users can read ${name} in it; run \`chmod o-r /`));
    assert.ok(!problem.includes(value), problem);
    // The group of a service that reads a file of root.
    assert.equal(problemsWith(`${name}=${value}`, 0o640), '');
  }
  for (const line of [
    'LETTERHAUS_SECRET_KEY=',
    'DATABASE_URL=postgres://jo@db.example/mail',
    'LETTERHAUS_TLS_KEY=/etc/ssl/private/mail.pem',
  ]) {
    assert.equal(problemsWith(line, 0o644), '');
  }
  rmSync(join(dataDir, 'letterhaus.env'));
});
