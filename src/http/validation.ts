/**
 * Validates params, query and body against the zod schemas of a route. Messages name the field as the client spelled
 * it: `to[2]: must be a string, not a number`.
 */
import type { FastifySchemaCompiler } from 'fastify';
import type { core, ZodType } from 'zod';
import { type FieldProblem, printableName } from '../core/refusals.ts';
import { badFields } from './errors.ts';

const FORMAT_MESSAGES: Readonly<Record<string, string>> = {
  uuid: 'must be an id, as this API returns it',
  datetime: 'must be a time in ISO 8601, like 2026-11-21T08:30:00Z',
  date: 'must be a date, like 2026-11-21',
  url: 'must be a URL',
};

const TYPE_NAMES: Readonly<Record<string, string>> = { int: 'whole number', record: 'object' };

type Issue = core.$ZodIssue;
type RawIssue = core.$ZodRawIssue;

/** Fastify's validator. Returns the parsed value, or an error with the problems that becomes a 422. */
export const validatorCompiler: FastifySchemaCompiler<ZodType> = ({ schema, httpPart }) => {
  // Schemas of headers only document them. The code that reads a header checks it and responds with 400.
  if (httpPart === 'headers') return () => true;
  return (data: unknown) => {
    const result = schema.safeParse(data, { error: messageOf });
    if (result.success) return { value: result.data };
    const problems = result.error.issues.flatMap((issue) => problemsOf(issue, httpPart));
    return { error: badFields(problems) };
  };
};

/** Validates one item of a body. Field names in problems are relative to the item. */
export function validateItem<Value>(
  schema: ZodType<Value>,
  item: unknown,
): { value: Value } | { problems: FieldProblem[] } {
  const result = schema.safeParse(item, { error: messageOf });
  if (result.success) return { value: result.data };
  return { problems: result.error.issues.flatMap((issue) => problemsOf(issue, 'item')) };
}

function problemsOf(issue: Issue, httpPart = 'body'): FieldProblem[] {
  if (issue.code === 'unrecognized_keys') {
    const what = httpPart === 'querystring' ? 'query parameter' : 'field';
    return issue.keys.map((key) => ({
      field: fieldName([...issue.path, key]),
      message: `is not a ${what} of this request; check the spelling`,
    }));
  }
  const { path, message } = issue.code === 'invalid_union' ? closestUnionIssue(issue) : issue;
  if (path.length > 0) return [{ field: fieldName(path), message }];
  // A schema's own message about the whole body is a sentence. Other messages are the end of one.
  const isSentence = issue.code === 'custom';
  return [{ field: '', message: isSentence ? message : `The ${httpPart} ${message}.` }];
}

/**
 * Returns the problem of the alternative of a union that matched furthest. Where a string or an array of strings is
 * expected and an array contains a number, the number is the problem.
 */
function closestUnionIssue(issue: core.$ZodIssueInvalidUnion): Pick<Issue, 'path' | 'message'> {
  const deepest = issue.errors
    .flat()
    .toSorted((a, b) => b.path.length - a.path.length)
    .at(0);
  if (!deepest || deepest.path.length === 0) {
    return { path: issue.path, message: joinExpectations(issue.errors.flat()) };
  }
  return { path: [...issue.path, ...deepest.path], message: deepest.message };
}

function joinExpectations(issues: readonly Issue[]): string {
  const expectations = issues.map(({ message }) => /^must be (.*?)(, not .*)?$/.exec(message)?.[1]);
  if (expectations.includes(undefined)) return issues[0]?.message ?? 'is not valid';
  return `must be ${[...new Set(expectations)].join(' or ')}`;
}

/** Returns names such as `to[2]`, `tags[0].name`, `headers.X-Entity`. */
function fieldName(path: readonly PropertyKey[]): string {
  return path.reduce<string>((name, part) => {
    if (typeof part === 'number') return `${name}[${part}]`;
    return name === '' ? printableName(String(part)) : `${name}.${printableName(String(part))}`;
  }, '');
}

/** Returns the message after the field name. A schema's own message takes precedence. */
function messageOf(issue: RawIssue): string {
  switch (issue.code) {
    case 'invalid_type':
      if (issue.input === undefined) return 'is required';
      // A query parameter that is not a number is NaN here.
      if (Number.isNaN(issue.input)) return 'must be a number';
      return `must be ${withArticle(issue.expected)}, not ${typeNameOf(issue.input)}`;
    case 'invalid_value':
      return `must be ${listValues(issue.values)}`;
    case 'too_small':
      return `must ${boundText(issue.origin, 'at least', Number(issue.minimum))}`;
    case 'too_big':
      return `must ${boundText(issue.origin, 'at most', Number(issue.maximum))}`;
    case 'invalid_format':
      return FORMAT_MESSAGES[issue.format] ?? 'has the wrong form';
    default:
      return 'is not valid';
  }
}

function withArticle(expected: string): string {
  const name = TYPE_NAMES[expected] ?? expected;
  return /^[aeiou]/.test(name) ? `an ${name}` : `a ${name}`;
}

function typeNameOf(input: unknown): string {
  if (input === null) return 'null';
  if (Array.isArray(input)) return 'an array';
  if (typeof input === 'number' && input % 1 !== 0) return 'a fraction';
  return withArticle(typeof input);
}

function listValues(values: readonly unknown[]): string {
  const texts = values.map((value) => JSON.stringify(value));
  return texts.length === 1 ? (texts[0] ?? '') : `one of ${texts.join(', ')}`;
}

function boundText(origin: string, relation: string, count: number): string {
  if (origin === 'string') {
    return `have ${relation} ${count} character${count === 1 ? '' : 's'}`;
  }
  if (origin === 'array') return `have ${relation} ${count} item${count === 1 ? '' : 's'}`;
  return `be ${relation} ${count}`;
}
