/** `npm run release` in a clone of this repository, whose packages are those of the current one. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { unreleasedNotes, withRelease } from '../../scripts/changelog.ts';

const ROOT = join(import.meta.dirname, '../..');
const CHANGED = [
  '.gitignore',
  'package.json',
  ...globSync('{scripts,scripts/package}/*.ts', { cwd: ROOT }),
];
const CHANGELOG =
  '# Changelog\n\nIntro.\n\n## Unreleased\n\n- New.\n\n## 0.1.0 (2026-11-01)\n\n- Old.\n';

const folder = mkdtempSync(join(tmpdir(), 'letterhaus-release-'));
const clone = join(folder, 'clone');
after(() => rmSync(folder, { recursive: true, force: true }));

before(() => {
  execFileSync('git', ['clone', '--quiet', ROOT, clone]);
  // Files of the working tree that may not be committed yet.
  for (const file of CHANGED) {
    mkdirSync(dirname(join(clone, file)), { recursive: true });
    writeFileSync(join(clone, file), readFileSync(join(ROOT, file)));
  }
  git('checkout', '--quiet', '-B', 'main');
  git('config', 'user.name', 'Ada');
  git('config', 'user.email', 'ada@acme.test');
  symlinkSync(join(ROOT, 'node_modules'), join(clone, 'node_modules'));
  writeFileSync(join(clone, 'CHANGELOG.md'), CHANGELOG);
  git('add', '--all');
  git('commit', '--quiet', '--message', 'Add a line for users');
});

test('the changelog of a release has its notes, and an empty place for the next', () => {
  assert.equal(unreleasedNotes(CHANGELOG), '- New.');
  const released = withRelease(CHANGELOG, { version: '0.2.0', date: '2026-12-01' });
  assert.equal(
    released,
    '# Changelog\n\nIntro.\n\n## Unreleased\n\n## 0.2.0 (2026-12-01)\n\n- New.\n\n## 0.1.0 (2026-11-01)\n\n- Old.\n',
  );
  assert.equal(unreleasedNotes(released), '');
  assert.throws(() => unreleasedNotes('# Changelog\n'), /has no line "## Unreleased"/);
});

test('a release that cannot be made is refused with the reason, and changes nothing', () => {
  const head = git('rev-parse', 'HEAD');
  assertRefused(['next'], /Give a version such as \d+\.\d+\.0/);
  assertRefused(['0.0.1'], /is not newer than/);
  assertRefused(['99.0.0', '--fast'], /Unknown option '--fast'/);
  git('checkout', '--quiet', '-b', 'topic');
  assertRefused(['99.0.0'], /This is topic: check out main/);
  git('checkout', '--quiet', 'main');
  git('tag', 'v99.0.0');
  assertRefused(['99.0.0'], /The tag v99\.0\.0 exists/);
  git('tag', '--delete', 'v99.0.0');
  writeFileSync(join(clone, 'README.md'), 'changed');
  assertRefused(['99.0.0'], /changes that are not committed/);
  git('checkout', '--quiet', '--', 'README.md');
  assert.deepEqual([git('rev-parse', 'HEAD'), git('status', '--porcelain')], [head, '']);
});

test('a release is one commit, one tag, and artefacts with their checksums', () => {
  const dryRun = release('99.0.0', '--dry-run');
  assert.deepEqual([dryRun.status, dryRun.stdout], [0, '- New.\n']);
  const head = git('rev-parse', 'HEAD');
  const { status, stdout, stderr } = release('99.0.0', '--skip-tests', '--without-deb');
  assert.equal(status, 0, stderr);
  assert.match(stdout, /tagged as v99\.0\.0/);
  assert.deepEqual(
    [git('rev-parse', 'v99.0.0^{commit}~1'), git('status', '--porcelain')],
    [head, ''],
  );
  assert.match(
    readFileSync(join(clone, 'CHANGELOG.md'), 'utf8'),
    /^## 99\.0\.0 \(\d{4}-\d\d-\d\d\)$/m,
  );
  for (const file of ['package.json', 'sdk/package.json', 'package-lock.json']) {
    assert.match(readFileSync(join(clone, file), 'utf8'), /"version": "99\.0\.0"/, file);
  }
  const compose = readFileSync(join(clone, 'deploy/docker/compose.yml'), 'utf8');
  assert.match(compose, /^ +image: letterhaus:99\.0$/m);
  for (const file of ['docs/kubernetes.md', 'docs/packages.md']) {
    assert.match(readFileSync(join(clone, file), 'utf8'), /letterhaus[:_]99\.0\.0/, file);
  }
  const artefacts = join(clone, 'dist/release-99.0.0');
  const sums = readFileSync(join(artefacts, 'SHA256SUMS'), 'utf8').trim().split('\n');
  const files = sums.map((line) => line.slice(66));
  assert.deepEqual(files, [
    'NOTES.md',
    'letterhaus-99.0.0.cdx.json',
    'letterhaus-99.0.0.tar.gz',
    'letterhaus-99.0.0.tgz',
    'letterhaus-sdk-99.0.0.tgz',
  ]);
  for (const line of sums) {
    const bytes = readFileSync(join(artefacts, line.slice(66)));
    assert.equal(createHash('sha256').update(bytes).digest('hex'), line.slice(0, 64));
  }
  const packages = JSON.parse(readFileSync(join(artefacts, files[1]!), 'utf8')) as Sbom;
  const names = packages.components.map(({ name }) => name);
  assert.ok(names.includes('fastify'), 'a package of the service');
  assert.ok(names.includes('postgresql'), 'a program inside a package');
  assert.ok(!names.includes('nodemailer'), 'a package of the tests');
  const packed = execFileSync('tar', ['-tzf', join(artefacts, files[3]!)], { encoding: 'utf8' });
  for (const path of ['src/main.js', 'web/dist/index.html', 'web/dist/handbook/sending.html'])
    assert.ok(packed.includes(`package/${path}\n`), path);
  assert.doesNotMatch(packed, /^package\/node_modules\//m, 'its packages are in one bundle');
  assert.doesNotMatch(packed, /^package\/src\/.*(\.test\.|\.ts$)/m, 'built, without tests');
  const sdk = execFileSync('tar', ['-tzf', join(artefacts, files[4]!)], { encoding: 'utf8' });
  for (const path of ['dist/index.js', 'dist/index.d.ts', 'README.md', 'LICENSE'])
    assert.ok(sdk.includes(`package/${path}\n`), path);
  const listed = execFileSync('tar', ['-tzf', join(artefacts, files[2]!)], { encoding: 'utf8' });
  assert.match(listed, /^letterhaus-99\.0\.0\/bin\/letterhaus$/m);
});

type Sbom = { components: { name: string }[] };

function assertRefused(args: string[], sentence: RegExp): void {
  const { status, stderr } = release(...args);
  assert.match(stderr, sentence);
  assert.equal(status, 2);
}

function release(...args: string[]) {
  const script = join(clone, 'scripts/release.ts');
  return spawnSync(process.execPath, [script, ...args], { cwd: clone, encoding: 'utf8' });
}

function git(...args: string[]): string {
  return execFileSync('git', args, { cwd: clone, encoding: 'utf8' }).trim();
}
