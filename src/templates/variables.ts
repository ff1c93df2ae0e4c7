/**
 * The variables that a template declares. Checks the declarations, and the values that a request gives. All problems
 * are reported at once, each with the name of its field.
 */
import { type FieldProblem, printableName } from '../core/refusals.ts';
import type { TemplateVariable, VariableType } from './template-store.ts';
import { isPlainObject } from './work.ts';

export const VARIABLES_MAX = 100;
export const VARIABLE_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,63}$/;
/** Limit on the characters in all values together. Each item and member counts one more. */
export const VALUES_MAX = 256 * 1024;

export const RESERVED = new Set(
  'true false nil null empty blank and or not contains in forloop'.split(' '),
);

const VALUES_TOO_LARGE = `has more than ${VALUES_MAX} characters in its values`;

/** A number in JSON, but with leading zeros allowed. */
const NUMBER_TEXT = /^-?\d{1,32}(\.\d{1,32})?(e[+-]?\d{1,3})?$/i;

type Values = Readonly<Record<string, unknown>>;

/** @param field name of the list in the request */
export function checkDeclarations(
  variables: readonly TemplateVariable[],
  field: string,
): FieldProblem[] {
  const problems: FieldProblem[] = [];
  const seen = new Set<string>();
  for (const [index, variable] of variables.entries()) {
    const { name, type } = variable;
    const at = `${field}[${index}]`;
    if (seen.has(name))
      problems.push({ field: `${at}.name`, message: `the variable ${name} is declared twice` });
    if (RESERVED.has(name)) {
      problems.push({
        field: `${at}.name`,
        message: `${name} is a word of the template language; choose another name`,
      });
    }
    seen.add(name);
    const problem = variable.default === undefined ? null : typeProblem(type, variable.default);
    if (problem !== null) problems.push({ field: `${at}.default`, message: problem });
  }
  if (exceedsSize(variables, VALUES_MAX)) problems.push({ field, message: VALUES_TOO_LARGE });
  return problems;
}

export type GivenVariables = {
  values: Values;
  /** Name of the values in the request. */
  field: string;
  /** Accepts `"3.50"` as a number and keeps its text. Some clients cannot send numbers. */
  numbersAsText?: boolean | undefined;
};

export function assignVariables(
  variables: readonly TemplateVariable[],
  { values: given, field, numbersAsText = false }: GivenVariables,
): { values: Values } | { problems: FieldProblem[] } {
  const problems: FieldProblem[] = [];
  const values: Record<string, unknown> = {};
  const known = new Map(variables.map((variable) => [variable.name, variable]));
  if (exceedsSize(given, VALUES_MAX)) return { problems: [{ field, message: VALUES_TOO_LARGE }] };
  for (const name of Object.keys(given)) {
    if (known.has(name)) continue;
    const message = 'is not a variable of this template; check the spelling';
    problems.push({ field: `${field}.${printableName(name)}`, message });
  }
  for (const { name, type, default: fallback } of variables) {
    const value = Object.hasOwn(given, name) ? (given[name] ?? fallback) : fallback;
    const isNumber = numbersAsText && type === 'number' && isNumberText(value);
    const message =
      value === undefined ? 'is required' : isNumber ? null : typeProblem(type, value);
    if (message === null) values[name] = value;
    else problems.push({ field: `${field}.${name}`, message });
  }
  return problems.length > 0 ? { problems } : { values };
}

function isNumberText(value: unknown): boolean {
  return typeof value === 'string' && NUMBER_TEXT.test(value);
}

const FITS: Record<VariableType, (value: unknown) => boolean> = {
  string: (value) => typeof value === 'string',
  number: (value) => typeof value === 'number',
  boolean: (value) => typeof value === 'boolean',
  list: Array.isArray,
  object: isPlainObject,
};

/** Returns the end of a sentence, or null when the value fits. */
function typeProblem(type: VariableType, value: unknown): string | null {
  if (FITS[type](value)) return null;
  return `must be ${withArticle(type)}, not ${value === null ? 'null' : withArticle(typeOf(value))}`;
}

function typeOf(value: unknown): string {
  return Array.isArray(value) ? 'list' : typeof value;
}

function withArticle(type: string): string {
  return type === 'object' ? 'an object' : `a ${type}`;
}

/** Stops counting as soon as the limit is exceeded. */
function exceedsSize(value: unknown, max: number): boolean {
  let size = 0;
  const exceeds = (inner: unknown): boolean => {
    size += typeof inner === 'string' ? 1 + inner.length : 1;
    if (size > max) return true;
    if (Array.isArray(inner)) return inner.some(exceeds);
    if (!isPlainObject(inner)) return false;
    return Object.entries(inner).some(([name, member]) => exceeds(name) || exceeds(member));
  };
  return exceeds(value);
}
