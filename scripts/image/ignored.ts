/** The files that Docker sends to a build, by the rules of .dockerignore: the last line that fits decides. */
import { posix } from 'node:path';

/**
 * @param rules text of .dockerignore
 * @returns whether the file of this path, relative to the folder, is left out
 */
export function ignoredBy(rules: string): (path: string) => boolean {
  const lines = rules
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => ({
      keeps: line.startsWith('!'),
      pattern: expressionOf(line.replace(/^!/, '')),
    }));
  return (path) => {
    const last = lines.findLast(({ pattern }) => fits(path, pattern));
    return last !== undefined && !last.keeps;
  };
}

/** A pattern fits a path, and everything below it. */
function fits(path: string, expression: RegExp): boolean {
  for (let part = path; part !== '.'; part = posix.dirname(part)) {
    if (expression.test(part)) return true;
  }
  return false;
}

/** `*` also fits names that begin with a dot, unlike in a shell. */
function expressionOf(pattern: string): RegExp {
  const text = pattern
    .replaceAll(/[.+^${}()|[\]\\]/g, '\\$&')
    .replaceAll(/\*\*\/|\*/g, (stars) => (stars === '*' ? '[^/]*' : '(?:.*/)?'));
  return new RegExp(`^${text}$`);
}
