/**
 * Finds the files of the repository that a file needs to run: those that it imports, and those that it names by path
 * (`new URL('worker.ts', import.meta.url)`, `readFile('docs/rfcs.md')`), transitively.
 *
 * Type imports do not count: they are erased, and the compiler checks them. What a process runs that
 * is spawned through bin/letterhaus does not count either, since that is always all of src.
 */
import { readFileSync, statSync } from 'node:fs';
import { join, posix } from 'node:path';
import { ROOT } from './steps.ts';

const CODE = /\.(?:ts|js|mjs)$/;
const direct = new Map<string, readonly string[]>();

/**
 * The file and all that it needs, as paths relative to the repository, with the number of steps to each.
 * @param path relative to the repository, or absolute
 */
export function reachedFrom(path: string): ReadonlyMap<string, number> {
  const distances = new Map([[path, 0]]);
  for (const [file, distance] of distances) {
    if (!CODE.test(file)) continue;
    for (const target of needsOf(file)) {
      if (!distances.has(target)) distances.set(target, distance + 1);
    }
  }
  return distances;
}

function needsOf(path: string): readonly string[] {
  let needs = direct.get(path);
  if (needs === undefined) {
    needs = readNeeds(path);
    direct.set(path, needs);
  }
  return needs;
}

/** Relies on the formatter: a statement starts its line, and a path stands in single quotes. */
function readNeeds(path: string): string[] {
  const text = readFileSync(posix.resolve(ROOT, path), 'utf8')
    .replaceAll(/^(?:import|export) type\s[^'"]*'[^']*'/gm, '')
    .replaceAll(/^\s*(?:\/\*|\*|\/\/).*$/gm, '');
  const needs = [...text.matchAll(/'((?:\.{0,2}\/)?[\w.][\w./-]*\.\w+)'/g)]
    .flatMap(([, named = '']) => [posix.join(posix.dirname(path), named), posix.normalize(named)])
    .filter((target) => !target.endsWith('.test.ts') && isFile(target));
  return [...new Set(needs)];
}

function isFile(path: string): boolean {
  if (path.startsWith('..')) return false;
  return statSync(join(ROOT, path), { throwIfNoEntry: false })?.isFile() === true;
}
