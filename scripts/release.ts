/**
 * `npm run release -- 0.2.0`: checks, then one commit with the version and the changelog, a tag, and a folder of
 * artefacts with their checksums. It pushes and publishes nothing. Everything is checked before a file changes, and a
 * failure before the commit restores the files. docs/releasing.md says what is left to do by hand.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { unreleasedNotes, withRelease } from './changelog.ts';
import { makeDebianPackage } from './package/deb.ts';
import { makePackageFolder, packFolder } from './package/folder.ts';
import { packSdk } from './package/sdk.ts';

const USAGE = `Usage: npm run release -- <version> [options]

Tests this commit, writes the version and the changelog, commits, tags, and writes the artefacts to
dist/release-<version>. Pushes and publishes nothing.

  --skip-tests   npm test has passed on this commit already
  --without-deb  make no Debian package, on a machine without dpkg-deb
  --dry-run      only the checks, and the notes of the release; changes nothing
  --help         this text
`;

const ROOT = join(import.meta.dirname, '..');
const VERSION = /^(\d+)\.(\d+)\.(\d+)$/;
/** Files with the version, and how often they contain it as text. */
const VERSION_TEXTS = [
  { path: 'package.json', text: (version: string) => `"version": "${version}"`, count: 1 },
  { path: 'sdk/package.json', text: (version: string) => `"version": "${version}"`, count: 1 },
  {
    path: 'deploy/helm/letterhaus/Chart.yaml',
    text: (version: string) => `version: ${version}\nappVersion: '${version}'`,
    count: 1,
  },
  {
    path: 'sdk/src/transport.ts',
    text: (version: string) => `letterhaus-sdk/${version}`,
    count: 1,
  },
  {
    path: 'deploy/docker/compose.yml',
    text: (version: string) => `image: letterhaus:${version.replace(/\.\d+$/, '')}\n`,
    count: 1,
  },
  { path: 'docs/kubernetes.md', text: (version: string) => `letterhaus:${version}`, count: 2 },
  {
    path: 'docs/packages.md',
    text: (version: string) => `letterhaus_${version}_amd64.deb`,
    count: 1,
  },
];

/** A reason to stop that the user can remove. */
class Refusal extends Error {}

process.exitCode = await main();

async function main(): Promise<number> {
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        'skip-tests': { type: 'boolean', default: false },
        'without-deb': { type: 'boolean', default: false },
        'dry-run': { type: 'boolean', default: false },
        help: { type: 'boolean', default: false },
      },
    });
    if (values.help) return print(USAGE);
    const [version = ''] = positionals;
    const changelog = readText('CHANGELOG.md');
    checkRelease(version, changelog);
    if (values['dry-run']) return print(`${unreleasedNotes(changelog)}\n`);
    if (!values['skip-tests']) runTests();
    commitRelease(version, changelog);
    const folder = await writeArtefacts(
      version,
      unreleasedNotes(changelog),
      !values['without-deb'],
    );
    return print(nextSteps(version, folder));
  } catch (error) {
    if (!(error instanceof Refusal || error instanceof TypeError)) throw error;
    process.stderr.write(`${error.message}\n`);
    return 2;
  }
}

/** @throws Refusal with what to do */
function checkRelease(version: string, changelog: string): void {
  const present = presentVersion();
  if (!VERSION.test(version)) throw new Refusal(`Give a version such as ${nextMinor(present)}.`);
  if (compareVersions(version, present) <= 0) {
    throw new Refusal(`${version} is not newer than ${present}, the version in package.json.`);
  }
  const branch = git('rev-parse', '--abbrev-ref', 'HEAD');
  if (branch !== 'main') throw new Refusal(`This is ${branch}: check out main.`);
  if (git('status', '--porcelain') !== '') {
    throw new Refusal('There are changes that are not committed: commit or stash them.');
  }
  if (git('tag', '--list', `v${version}`) !== '') throw new Refusal(`The tag v${version} exists.`);
  if (unreleasedNotes(changelog) === '') {
    throw new Refusal('CHANGELOG.md has nothing under "Unreleased": say what changes for users.');
  }
}

function runTests(): void {
  for (const args of [['test'], ['run', 'fresh-clone']]) {
    const { status } = spawnSync('npm', args, { cwd: ROOT, stdio: 'inherit' });
    if (status !== 0) throw new Refusal(`npm ${args.join(' ')} failed: nothing was changed.`);
  }
}

/** Writes the version and the changelog, commits and tags; restores the files when that fails. */
function commitRelease(version: string, changelog: string): void {
  const date = new Date().toISOString().slice(0, 10);
  try {
    writeVersion(version);
    writeFileSync(join(ROOT, 'CHANGELOG.md'), withRelease(changelog, { version, date }));
    git('commit', '--quiet', '--all', '--message', `Release ${version}`);
  } catch (error) {
    git('checkout', '--quiet', '--', '.');
    throw error;
  }
  git('tag', '--annotate', `v${version}`, '--message', `Letterhaus ${version}`);
}

function writeVersion(version: string): void {
  const present = presentVersion();
  for (const { path, text, count } of VERSION_TEXTS) {
    const content = readText(path);
    const found = content.split(text(present)).length - 1;
    if (found !== count) {
      throw new Refusal(`${path} contains ${text(present)} ${found} times instead of ${count}.`);
    }
    writeFileSync(join(ROOT, path), content.replaceAll(text(present), text(version)));
  }
  const lock = JSON.parse(readText('package-lock.json')) as Lockfile;
  lock.version = version;
  lock.packages[''].version = version;
  writeFileSync(join(ROOT, 'package-lock.json'), `${JSON.stringify(lock, null, 2)}\n`);
}

type Lockfile = { version: string; packages: { '': { version: string } } };

/** The source, the packages, the list of software (CycloneDX), the notes, and the checksums of all of them. */
async function writeArtefacts(version: string, notes: string, hasDeb: boolean): Promise<string> {
  const folder = join(ROOT, 'dist', `release-${version}`);
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const name = `letterhaus-${version}`;
  const source = join(folder, `${name}.tar.gz`);
  git('archive', '--format=tar.gz', `--prefix=${name}/`, `--output=${source}`, `v${version}`);
  packSdk(folder);
  const made = join(ROOT, 'dist/package');
  rmSync(made, { recursive: true, force: true });
  await makePackageFolder(made);
  packFolder(made, folder);
  copyFileSync(join(made, 'sbom.cdx.json'), join(folder, `${name}.cdx.json`));
  if (hasDeb) makeDebianPackage(made, folder);
  rmSync(made, { recursive: true });
  writeFileSync(join(folder, 'NOTES.md'), `${notes}\n`);
  const sums = readdirSync(folder)
    .toSorted()
    .map((file) => `${sha256(readFileSync(join(folder, file)))}  ${file}\n`);
  writeFileSync(join(folder, 'SHA256SUMS'), sums.join(''));
  return folder;
}

function nextSteps(version: string, folder: string): string {
  return `Letterhaus ${version} is committed and tagged as v${version}. The artefacts are in ${folder}.

Publish:  git push --follow-tags
Undo:     git tag --delete v${version} && git reset --hard HEAD~1
`;
}

function presentVersion(): string {
  return (JSON.parse(readText('package.json')) as { version: string }).version;
}

function nextMinor(version: string): string {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  return `${major}.${minor + 1}.0`;
}

function compareVersions(one: string, other: string): number {
  const [left, right] = [one, other].map((version) => version.split('.').map(Number));
  const index = left!.findIndex((part, at) => part !== right![at]);
  return index === -1 ? 0 : left![index]! - right![index]!;
}

function readText(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8');
}

function git(...args: string[]): string {
  return run('git', args).trim();
}

function run(command: string, args: string[]): string {
  return execFileSync(command, args, { cwd: ROOT, encoding: 'utf8', maxBuffer: 64 * 1024 ** 2 });
}

function sha256(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex');
}

function print(text: string): number {
  process.stdout.write(text);
  return 0;
}
