/**
 * `npm run package-check`: makes the npm package and installs it globally in an empty home, as an ordinary user. Then
 * it compares what is installed with package-lock.json, and its size with the wanted one, sends an email through the
 * whole service (`start --once`), and measures starts. It takes a minute and needs npm's registry.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync } from 'node:fs';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makePackageFolder, packFolder } from './package/folder.ts';

const ROOT = join(import.meta.dirname, '..');
const NOBODY = 65_534;
/** The wanted figures, of the issue that asked for packages. */
const PACKAGES_MAX = 60;
const MEGABYTES_MAX = 250;
const STARTS = 3;

type Lockfile = {
  packages: Record<string, { version: string; dev?: true; link?: true; optional?: true }>;
};
type Place = { home: string; env: NodeJS.ProcessEnv; account: { uid?: number; gid?: number } };

const folder = mkdtempSync(join(tmpdir(), 'letterhaus-package-'));
try {
  await check();
} finally {
  rmSync(folder, { recursive: true, force: true });
}

async function check(): Promise<void> {
  const made = join(folder, 'letterhaus');
  await makePackageFolder(made);
  const tarball = packFolder(made, folder);
  const place = makePlace();
  const install = ['npm', 'install', '--global', '--ignore-scripts', '--no-audit', '--no-fund'];
  await run(place, [...install, tarball]);
  const installed = join(place.home, 'global/lib/node_modules/letterhaus');
  const letterhaus = join(place.home, 'global/bin/letterhaus');
  await run(place, [letterhaus, 'install']);
  checkVersions(installed);
  checkSize(installed);
  await run(place, [letterhaus, 'start', '--once']);
  const first = await readyMs(place, letterhaus);
  const later: number[] = [];
  for (let start = 0; start < STARTS; start += 1) later.push(await readyMs(place, letterhaus));
  process.stdout.write(
    `The package works: ready in ${seconds(first)} s with a new data directory, and in ` +
      `${later.map(seconds).join(', ')} s with an existing one.\n`,
  );
}

/** A home of an ordinary user with nothing in it, and Node and npm of this machine. */
function makePlace(): Place {
  const home = join(folder, 'home');
  chmodSync(folder, 0o755);
  mkdirSync(home);
  const isRoot = process.getuid?.() === 0;
  if (isRoot) chownSync(home, NOBODY, NOBODY);
  const kept = ['PATH', 'LANG', 'NODE_EXTRA_CA_CERTS', 'npm_config_cafile'];
  const env = Object.fromEntries(kept.map((name) => [name, process.env[name]]));
  return {
    home,
    env: {
      ...env,
      HOME: home,
      npm_config_prefix: join(home, 'global'),
      LETTERHAUS_DATA_DIR: join(home, 'data'),
      LETTERHAUS_ENV_FILE: '/dev/null',
      PORT: '0',
    },
    account: isRoot ? { uid: NOBODY, gid: NOBODY } : {},
  };
}

async function run({ home, env, account }: Place, [command, ...args]: string[]): Promise<void> {
  const child = spawn(command!, args, { cwd: home, env, stdio: 'inherit', ...account });
  const [code] = (await once(child, 'exit')) as [number | null];
  assert.equal(code, 0, `${command} ${args.join(' ')}`);
}

/** The binaries and every bundled package have the version of package-lock.json. */
function checkVersions(root: string): void {
  const { packages } = readJson(join(ROOT, 'package-lock.json')) as Lockfile;
  for (const path of packagePaths(root, 'node_modules')) {
    const { version } = readJson(join(root, path, 'package.json')) as { version: string };
    assert.equal(version, packages[path]?.version, `${path} is locked`);
  }
  const bundled = Object.entries(packages).filter(
    ([path, { dev, link, optional }]) =>
      path.startsWith('node_modules/') && !dev && !link && !optional,
  );
  const list = readJson(join(root, 'sbom.cdx.json')) as {
    components: { name: string; version: string }[];
  };
  const listed = list.components.map(({ name, version }) => `${name} ${version}`);
  const unlisted = bundled.filter(([path, { version }]) => {
    const name = path.replace(/^.*node_modules\//, '');
    return !listed.includes(`${name} ${version}`);
  });
  assert.deepEqual(unlisted, [], 'the list of software is complete');
  process.stdout.write(`Bundled: ${bundled.length} packages\n`);
}

function checkSize(root: string): void {
  const count = 1 + packagePaths(root, 'node_modules').length;
  const megabytes = parseInt(execFileSync('du', ['-sm', root], { encoding: 'utf8' }));
  process.stdout.write(`Installed: ${count} packages, ${megabytes} MB\n`);
  assert.ok(count <= PACKAGES_MAX && megabytes <= MEGABYTES_MAX, 'the package is small');
}

/** Paths of packages below a folder `node_modules`, relative to the root. */
function packagePaths(root: string, place: string): string[] {
  if (!existsSync(join(root, place))) return [];
  const names = readdirSync(join(root, place)).filter((name) => !name.startsWith('.'));
  return names.flatMap((name) => {
    const path = `${place}/${name}`;
    if (name.startsWith('@')) return packagePaths(root, path);
    return [path, ...packagePaths(root, `${path}/node_modules`)];
  });
}

function readJson(path: string): unknown {
  return JSON.parse(readFileSync(path, 'utf8'));
}

async function readyMs({ home, env, account }: Place, letterhaus: string): Promise<number> {
  const startedAtMs = performance.now();
  const options = { cwd: home, env, ...account };
  const child = spawn(letterhaus, ['start', '--json'], {
    ...options,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(child.stdout, 'data');
  const elapsedMs = performance.now() - startedAtMs;
  child.kill('SIGTERM');
  assert.equal(((await once(child, 'exit')) as [number | null])[0], 0);
  return elapsedMs;
}

function seconds(ms: number): string {
  return (ms / 1000).toFixed(1);
}
