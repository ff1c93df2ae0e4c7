/**
 * The programs of the check: PostgreSQL, Patroni, etcd and pgBouncer of Debian. apt-get downloads their packages, and
 * dpkg-deb unpacks them into a folder. So nothing is installed, no service of the system starts, and root is not
 * needed. A package that the system has already is used from there.
 */
import { spawnSync } from 'node:child_process';
import { existsSync, globSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';

const PACKAGES = ['postgresql', 'patroni', 'etcd-server', 'pgbouncer'];

export type Programs = {
  etcd: string;
  /** Its script, which Debian's python3 runs. */
  patroni: string;
  pgbouncer: string;
  /** Folder of `postgres`, `pg_basebackup`, `pg_rewind`. */
  postgresBin: string;
  env: Record<string, string>;
};

/** @returns the reason as half a sentence when they cannot be had */
export function findPrograms(folder: string): Programs | { missing: string } {
  if (!existsSync('/usr/bin/python3')) return { missing: "Debian's python3 is not installed" };
  if (!unpackPackages(folder)) return { missing: 'apt-get cannot download the packages' };
  const root = join(folder, 'unpacked');
  const find = (pattern: string): string | undefined =>
    [...globSync(join(root, pattern)).toSorted(), ...globSync(pattern).toSorted()][0];
  const found = {
    etcd: find('/usr/bin/etcd'),
    patroni: find('/usr/bin/patroni'),
    pgbouncer: find('/usr/sbin/pgbouncer'),
    postgres: find('/usr/lib/postgresql/*/bin/postgres'),
  };
  const missing = Object.entries(found).find(([, path]) => path === undefined)?.[0];
  if (missing !== undefined) return { missing: `the packages do not contain ${missing}` };
  const libraries = globSync(join(root, 'usr/lib/*-linux-gnu*'));
  return {
    etcd: found.etcd!,
    patroni: found.patroni!,
    pgbouncer: found.pgbouncer!,
    postgresBin: join(found.postgres!, '..'),
    env: {
      PATH: '/usr/bin:/bin',
      HOME: folder,
      LANG: 'C.UTF-8',
      PYTHONPATH: join(root, 'usr/lib/python3/dist-packages'),
      LD_LIBRARY_PATH: libraries.join(':'),
    },
  };
}

/** Tries the package lists of this machine first. A new container has none, so it then reads its own. */
function unpackPackages(folder: string): boolean {
  const archives = join(folder, 'archives');
  for (const path of [join(archives, 'partial'), join(folder, 'lists/partial')])
    mkdirSync(path, { recursive: true });
  const settings = [
    'Acquire::Retries=3',
    'Debug::NoLocking=1',
    `Dir::Cache=${folder}`,
    `Dir::Cache::archives=${archives}`,
    // Otherwise root's apt-get downloads as another user, who may not write into this folder.
    'APT::Sandbox::User=root',
  ];
  const own = settings.flatMap((setting) => ['-o', setting]);
  const ownLists = [...own, '-o', `Dir::State::lists=${join(folder, 'lists')}`];
  const install = ['install', '--download-only', '--yes', '--no-install-recommends', ...PACKAGES];
  const isDownloaded =
    run('apt-get', [...own, ...install]) ||
    (run('apt-get', [...ownLists, 'update']) && run('apt-get', [...ownLists, ...install]));
  if (!isDownloaded) return false;
  return globSync(join(archives, '*.deb')).every((archive) =>
    run('dpkg-deb', ['-x', archive, join(folder, 'unpacked')]),
  );
}

/** Returns whether the command ran and exited with 0. Its errors are shown. */
function run(command: string, args: readonly string[]): boolean {
  return spawnSync(command, args, { stdio: ['ignore', 'ignore', 'inherit'] }).status === 0;
}
