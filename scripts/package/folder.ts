/**
 * Makes the folder that is published as the npm package `letterhaus`: the folders of a clone, with JavaScript in place
 * of TypeScript, the dashboard built, and the packages of the service inside, in the versions of package-lock.json.
 * Node and PostgreSQL come as optional packages for the platform, so any Node from 20 on can start it.
 * docs/decisions/0045-packages.md says why.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { buildDashboard, isDashboardCurrent } from '../../bin/dashboard.js';
import { sbomOf } from './sbom.ts';

const ROOT = join(import.meta.dirname, '../..');
/** Modules that no other one imports: they are started or loaded by their path. */
const ENTRIES = [
  'src/main.ts',
  'src/service/worker/worker.ts',
  'src/delivery/shaping/settings-file.ts',
];
const COPIED = [
  'CHANGELOG.md',
  'LICENSE',
  'README.md',
  'SECURITY.md',
  'bin/letterhaus',
  'bin/*.js',
  'deploy/{fail2ban,grafana,prometheus,systemd}/*',
  'docs/*.{json,md}',
  'docs/{alarms,decisions,decisions/appendix,security}/*.md',
  'migrations/*',
  'runtime/package.json',
  'web/dist/{*.*,assets/*}',
  'web/dist/handbook/**/*.*',
];

type Manifest = Record<string, unknown> &
  Locked & {
    version: string;
    dependencies: Record<string, string>;
    overrides: Record<string, unknown>;
  };
type Locked = { dev?: unknown; link?: unknown; optional?: unknown };
type Lockfile = { packages: Record<string, Locked> };

/**
 * @param folder a folder that does not exist yet
 * @throws Error when the dashboard or the code cannot be built
 */
export async function makePackageFolder(folder: string): Promise<void> {
  if (!isDashboardCurrent(ROOT)) {
    const { isBuilt } = await buildDashboard(ROOT, process.execPath);
    if (!isBuilt) throw new Error('The dashboard could not be built.');
  }
  mkdirSync(folder, { recursive: true });
  compile(folder);
  for (const path of globSync(COPIED, { cwd: ROOT })) {
    if (path.endsWith('.test.yml')) continue;
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    cpSync(join(ROOT, path), join(folder, path));
  }
  const manifest = manifestOf(
    readJson('package.json') as Manifest,
    readJson('runtime/package.json') as Manifest,
  );
  writeJson(join(folder, 'package.json'), manifest);
  // npm does not publish this file: it is for the list of software, and for `npm ci` in this folder.
  const lockfile = lockfileOf(manifest, readJson('package-lock.json') as Lockfile);
  writeJson(join(folder, 'package-lock.json'), lockfile);
  writeFileSync(join(folder, 'sbom.cdx.json'), sbomOf(folder));
  // Only now: npm lists no software of bundled packages that an override has replaced.
  const bundleDependencies = Object.keys(manifest.dependencies);
  writeJson(join(folder, 'package.json'), { ...manifest, bundleDependencies });
  copyPackages(folder, lockfile);
}

/** Packs such a folder, and returns the path of the file. */
export function packFolder(folder: string, destination: string): string {
  const options = { cwd: folder, encoding: 'utf8' } as const;
  const args = ['pack', '--silent', '--pack-destination', destination];
  return join(destination, execFileSync('npm', args, options).trim());
}

/** Compiles what the entries reach. The target is the bundled Node, so that little but the types is removed. */
function compile(folder: string): void {
  const project = join(folder, 'tsconfig.json');
  writeJson(project, {
    extends: join(ROOT, 'tsconfig.json'),
    compilerOptions: {
      noEmit: false,
      noCheck: true,
      target: 'esnext',
      rootDir: ROOT,
      outDir: folder,
      typeRoots: [join(ROOT, 'node_modules/@types')],
    },
    files: ENTRIES.map((entry) => join(ROOT, entry)),
    include: [],
  });
  execFileSync(join(ROOT, 'node_modules/.bin/tsc'), ['-p', project], { stdio: 'inherit' });
  rmSync(project);
}

function manifestOf(clone: Manifest, runtime: Manifest): Manifest {
  const { name, version, description, license, bin, type, dependencies, overrides, engines } =
    clone;
  return {
    name,
    version,
    description,
    license,
    type,
    bin,
    engines,
    keywords: ['bounces', 'dkim', 'email', 'mta', 'self-hosted', 'smtp', 'transactional-email'],
    repository: { type: 'git', url: 'git+https://github.com/letterhaus/letterhaus.git' },
    // npm signs where a published package was built, when a release runs in continuous integration.
    publishConfig: { access: 'public', provenance: true },
    dependencies,
    optionalDependencies: runtime['optionalDependencies'],
    overrides: { postgrator: overrides['postgrator'] },
  };
}

/** Everything but the binaries for a platform. */
function copyPackages(folder: string, { packages }: Lockfile): void {
  for (const [path, { optional }] of Object.entries(packages)) {
    if (path === '' || optional) continue;
    const from = join(ROOT, path);
    const filter = (file: string) => file === from || basename(file) !== 'node_modules';
    cpSync(from, join(folder, path), { recursive: true, filter });
  }
}

/** The lockfile without packages for tests and tools, and without workspaces. */
function lockfileOf(manifest: Manifest, { packages, ...head }: Lockfile): Lockfile {
  const kept = Object.entries(packages).filter(
    ([path, { dev, link }]) => path.startsWith('node_modules/') && !dev && !link,
  );
  return { ...head, packages: { '': manifest, ...Object.fromEntries(kept) } };
}

function readJson(path: string): unknown {
  return JSON.parse(readFileSync(join(ROOT, path), 'utf8'));
}

function writeJson(path: string, value: unknown): void {
  writeFileSync(path, `${JSON.stringify(value, null, 2)}\n`);
}
