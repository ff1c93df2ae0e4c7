/** The files of the repository as data, and what they import. The rules in this folder look at them. */
import { globSync, readFileSync } from 'node:fs';
import { join, posix } from 'node:path';

/** `path` is relative to the repository, with slashes. */
export type SourceFile = { path: string; text: string };

/** Spares reviewers a search: takes files and returns a sentence for each offence. */
export type Rule = (files: readonly SourceFile[]) => string[];

const ROOT = join(import.meta.dirname, '../..');

export function readFiles(patterns: string[]): SourceFile[] {
  return globSync(patterns, { cwd: ROOT })
    .toSorted()
    .map((path) => ({ path, text: readFileSync(join(ROOT, path), 'utf8') }));
}

/** Returns the paths of files and folders, without those of packages. */
export function pathsOf(patterns: string[]): Set<string> {
  return new Set(globSync(patterns, { cwd: ROOT, exclude: ['**/node_modules'] }));
}

export const SOURCE = readFiles(['src/**/*.ts']);
export const DASHBOARD = readFiles(['web/src/**/*.{ts,tsx}']);
export const CODE = [
  ...SOURCE,
  ...readFiles(['{test,bench,scripts,web/handbook}/**/*.ts', 'web/build.js', 'bin/*']),
  ...DASHBOARD,
];

export function isTest(file: SourceFile): boolean {
  return file.path.endsWith('.test.ts');
}

/**
 * The folder of src/ that holds a file, which is its layer; `''` for main.ts beside the folders; null
 * outside of src/.
 */
export function layerOf(path: string): string | null {
  const [top, layer, rest] = path.split('/', 3);
  if (top !== 'src') return null;
  return rest === undefined ? '' : (layer ?? '');
}

/**
 * Returns the imports of a file, types included: repository paths for its own modules, otherwise the
 * specifier (`node:fs`, `pg`). Relies on the formatter: a statement starts its line.
 */
export function importsOf(file: SourceFile): string[] {
  const statements = /^(?:import|export)\s(?:[^'";]*?\sfrom\s*)?['"]([^'"]+)['"]/gm;
  const calls = /\bimport\(\s*['"]([^'"]+)['"]/g;
  return [...file.text.matchAll(statements), ...file.text.matchAll(calls)]
    .map((match) => match[1] ?? '')
    .map((specifier) => resolveFrom(file.path, specifier));
}

/** Returns the imports that run: without `import type` and without `type` members. */
export function valueImportsOf(file: SourceFile): string[] {
  const statements = /^import\s(?!type\s)([^'";]*?)\sfrom\s*['"]([^'"]+)['"]/gm;
  return [...file.text.matchAll(statements)]
    .filter(([, names = '']) => !/^\{(?:\s*type\s[^,}]*,?)*\s*\}$/.test(names))
    .map(([, , specifier = '']) => resolveFrom(file.path, specifier));
}

/** Returns the imports that only name types: `import type`. */
export function typeImportsOf(file: SourceFile): string[] {
  const values = valueImportsOf(file);
  return importsOf(file).filter((target) => !values.includes(target) && !isLoaded(file, target));
}

function isLoaded(file: SourceFile, target: string): boolean {
  const calls = file.text.matchAll(/\bimport\(\s*['"]([^'"]+)['"]|^import\s*['"]([^'"]+)['"]/gm);
  return [...calls].some(([, a, b]) => resolveFrom(file.path, a ?? b ?? '') === target);
}

function resolveFrom(path: string, specifier: string): string {
  return specifier.startsWith('.') ? posix.join(posix.dirname(path), specifier) : specifier;
}

/** The text without comments: prose may speak of what code must not do. */
export function codeOf(file: SourceFile): string {
  return file.text
    .split('\n')
    .filter((line) => !/^\s*(\/\*|\*|\/\/)/.test(line))
    .map((line) => line.replace(/\s\/\/ .*/, ''))
    .join('\n');
}
