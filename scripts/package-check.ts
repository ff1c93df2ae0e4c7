/**
 * `npm run package-check`: makes the npm package and installs it globally in an empty home, as an ordinary user. Then
 * it compares what is installed with package-lock.json, sends an email through the whole service (`start --once`), and
 * measures two starts. It takes a minute and needs npm's registry.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync } from 'node:fs';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { makePackageFolder, packFolder } from './package/folder.ts';

const NOBODY = 65_534;

type Lockfile = { packages: Record<string, { version: string; optional?: true }> };
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
  checkVersions(installed, readLockfile(made));
  const letterhaus = join(place.home, 'global/bin/letterhaus');
  await run(place, [letterhaus, 'start', '--once']);
  const first = await readyMs(place, letterhaus);
  const second = await readyMs(place, letterhaus);
  process.stdout.write(
    `The package works: ready in ${seconds(first)} s with a new data directory, and in ` +
      `${seconds(second)} s with an existing one.\n`,
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

/** Every package has the version of package-lock.json, and none is there that it does not have. */
function checkVersions(root: string, { packages }: Lockfile): void {
  const paths = packagePaths(root, 'node_modules');
  for (const path of paths) {
    const file = readFileSync(join(root, path, 'package.json'), 'utf8');
    const { version } = JSON.parse(file) as { version: string };
    assert.equal(version, packages[path]?.version, `${path} is locked`);
  }
  const missing = Object.entries(packages).filter(
    ([path, { optional }]) => path !== '' && !optional && !paths.includes(path),
  );
  assert.deepEqual(missing, []);
  const bytes = execFileSync('du', ['-sm', root], { encoding: 'utf8' });
  process.stdout.write(`Packages: ${paths.length}, ${parseInt(bytes)} MB\n`);
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

function readLockfile(made: string): Lockfile {
  return JSON.parse(readFileSync(join(made, 'package-lock.json'), 'utf8')) as Lockfile;
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
