/**
 * A program folder as `letterhaus install` leaves it: this clone with the packages of the service alone, readable for
 * every user and writable for none. The packages are copied, because npm would need the network.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { temporaryFolder } from '../support/embedded.ts';

const ROOT = join(import.meta.dirname, '../..');
const NODE = dirname(dirname(process.execPath));
/** Not part of a clone. The packages follow one by one. */
const LEFT_OUT = new Set(['.git', 'data']);

type Entry = { dev?: true; link?: true };

/** @property folder a place beside the program, for what the user of the service owns */
export type ProgramFolder = Disposable & { program: string; folder: string };

export function makeProgramFolder(): ProgramFolder {
  const folder = temporaryFolder();
  const program = join(folder, 'letterhaus');
  const isCopied = (path: string) =>
    !LEFT_OUT.has(relative(ROOT, path)) && basename(path) !== 'node_modules';
  cpSync(ROOT, program, { recursive: true, filter: isCopied });
  const lockfile = readFileSync(join(ROOT, 'package-lock.json'), 'utf8');
  copyPackages(program, servicePackages(lockfile));
  const hash = createHash('sha256').update(lockfile).digest('hex');
  const stamp = `${process.platform}-${process.arch} ${hash} service\n`;
  writeFileSync(join(program, 'node_modules/.letterhaus-installed'), stamp);
  execFileSync('chmod', ['-R', 'a+rX,a-w', program]);
  return {
    program,
    folder,
    // So that it can be removed.
    [Symbol.dispose]: () => void execFileSync('chmod', ['-R', 'u+w', program]),
  };
}

/** Paths of the packages that are not only for tests and tools. */
function servicePackages(lockfile: string): string[] {
  const { packages } = JSON.parse(lockfile) as { packages: Record<string, Entry> };
  return Object.entries(packages)
    .filter(([path, { dev, link }]) => path.startsWith('node_modules/') && !dev && !link)
    .map(([path]) => path)
    .filter((path) => existsSync(join(ROOT, path)));
}

function copyPackages(program: string, paths: readonly string[]): void {
  for (const path of paths) {
    const from = join(ROOT, path);
    const isCopied = (file: string) =>
      file === from ||
      !(file.startsWith(join(NODE, 'include')) || basename(file) === 'node_modules');
    cpSync(from, join(program, path), { recursive: true, filter: isCopied });
  }
  mkdirSync(join(program, 'node_modules/.bin'));
  symlinkSync(join('..', basename(NODE), 'bin/node'), join(program, 'node_modules/.bin/node'));
}
