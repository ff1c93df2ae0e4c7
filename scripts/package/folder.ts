/**
 * Makes the folder that is published as the npm package `letterhaus`: the folders of a clone, with the service and its
 * packages, in the versions of package-lock.json, bundled in place of TypeScript, and the dashboard built.
 * Node and PostgreSQL come as optional packages for the platform, so any Node from 20 on can start it.
 * docs/decisions/0045-packages.md says why.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { buildDashboard, isDashboardCurrent } from '../../bin/dashboard.js';
import { bundle } from './bundle.ts';
import { licencesOf } from './licences.ts';
import { sbomOf } from './sbom.ts';

const ROOT = join(import.meta.dirname, '../..');
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
  await bundle(folder);
  for (const path of globSync(COPIED, { cwd: ROOT })) {
    if (path.endsWith('.test.yml')) continue;
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    cpSync(join(ROOT, path), join(folder, path));
  }
  const manifest = manifestOf(
    readJson('package.json') as Manifest,
    readJson('runtime/package.json') as Manifest,
  );
  const lockfile = lockfileOf(manifest, readJson('package-lock.json') as Lockfile);
  writeFileSync(join(folder, 'sbom.cdx.json'), listSoftware(folder, { manifest, lockfile }));
  writeFileSync(join(folder, 'licences.md'), licencesOf(pathsOfBundled(lockfile)));
  // npm has nothing to install beside the binaries.
  const { dependencies: _bundled, overrides: _applied, ...installed } = manifest;
  writeJson(join(folder, 'package.json'), installed);
}

/** npm makes the list from the two files of an installation whose packages are not bundled. */
function listSoftware(
  folder: string,
  { manifest, lockfile }: { manifest: Manifest; lockfile: Lockfile },
): string {
  const files = { 'package.json': manifest, 'package-lock.json': lockfile };
  for (const [name, content] of Object.entries(files)) writeJson(join(folder, name), content);
  const list = sbomOf(folder);
  for (const name of Object.keys(files)) rmSync(join(folder, name));
  return list;
}

/** Everything but the binaries for a platform. */
function pathsOfBundled({ packages }: Lockfile): string[] {
  const bundled = Object.entries(packages).filter(([path, { optional }]) => path && !optional);
  return bundled.map(([path]) => join(ROOT, path));
}

/** Packs such a folder, and returns the path of the file. */
export function packFolder(folder: string, destination: string): string {
  const options = { cwd: folder, encoding: 'utf8' } as const;
  const args = ['pack', '--silent', '--pack-destination', destination];
  return join(destination, execFileSync('npm', args, options).trim());
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
