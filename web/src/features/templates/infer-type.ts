/** Infers the type of a variable from how the parts of a template use it, so that it can be declared in one click. */
import type { VariableType } from './draft.ts';

const NUMBER_FILTERS = 'abs|at_least|at_most|ceil|divided_by|floor|minus|modulo|plus|round|times';
const LIST_FILTERS = 'compact|concat|first|join|last|map|reverse|sort|sort_natural|sum|uniq|where';

/** @param sources subject, html and text; `name` is a word */
export function inferType(name: string, sources: readonly string[]): VariableType {
  const source = sources.join('\n');
  const word = `(?<![\\w.'"])${name}(?![\\w'"])`;
  const has = (pattern: string): boolean => new RegExp(pattern).test(source);
  const inTag = (pattern: string): boolean => has(`\\{[{%][^{}%]*${pattern}`);
  if (has(`\\{%-?\\s*for\\s+\\w+\\s+in\\s+${name}\\b(?!\\.)`)) return 'list';
  if (inTag(`${word}\\s*\\|\\s*(?:${LIST_FILTERS})\\b`)) return 'list';
  if (inTag(`${word}\\.(?!size\\b)\\w`)) return 'object';
  if (inTag(`${word}\\s*\\|\\s*(?:${NUMBER_FILTERS})\\b`)) return 'number';
  if (inTag(`${word}\\s*(?:[<>]=?|==|!=)\\s*-?\\d`)) return 'number';
  if (inTag(`-?\\d\\s*[<>]=?\\s*${word}`)) return 'number';
  const isCondition = has(
    `\\{%-?\\s*(?:if|elsif|unless)\\s+(?:[^%]*\\b(?:and|or)\\s+)?${name}\\s*(?:-?%\\}|and\\b|or\\b)`,
  );
  const isPrinted = has(`\\{\\{-?\\s*${name}\\b`);
  return isCondition && !isPrinted ? 'boolean' : 'string';
}
