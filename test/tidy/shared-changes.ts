/**
 * In the dashboard nobody overwrites the change of another unseen. An operation that takes If-Match is called with it,
 * and only `changeIfSame` makes that header, because its result has the case that somebody else was first. Its callers
 * show both versions.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { isTest, type Rule } from './source.ts';

const ROOT = join(import.meta.dirname, '../..');
const MAKER = 'web/src/ui/shared-change.tsx';

/** The files that call `changeIfSame`, and how each shows what somebody else has changed. */
export const VIEWS: Readonly<Record<string, string>> = {
  'web/src/ui/shared-form.tsx': 'both versions of each field that differs',
  'web/src/ui/shared-action.tsx': 'what has changed, and an offer to go on',
  'web/src/features/templates/save.tsx': 'the lines that differ',
  'web/src/features/templates/copy-environment.tsx': 'a draft that it does not publish',
  [MAKER]: 'a sentence, because an undo is no more than an offer',
};

/** Calls that need no condition, by the file and the operation. */
export const UNCONDITIONAL: Readonly<Record<string, string>> = {
  'web/src/features/webhooks/verdict.tsx updateWebhook':
    'enables a webhook and changes nothing else',
};

type Operation = { operationId?: string; parameters?: unknown[] };

/** Returns the operations that take If-Match. */
export function conditionalOperations(): ReadonlySet<string> {
  const { paths } = JSON.parse(readFileSync(join(ROOT, 'docs/openapi.json'), 'utf8')) as {
    paths: Record<string, Record<string, Operation>>;
  };
  const operations = Object.values(paths).flatMap((methods) => Object.values(methods));
  const taking = operations.filter(({ parameters = [] }) =>
    /"name":"if-match"/i.test(JSON.stringify(parameters)),
  );
  return new Set(taking.flatMap(({ operationId }) => operationId ?? []));
}

export const changesAreSeen =
  (operations: ReadonlySet<string>): Rule =>
  (files) =>
    files
      .filter((file) => !isTest(file) && file.path.startsWith('web/src/'))
      .flatMap(({ path, text }) => [
        ...(/['"]if-match['"]\s*:/i.test(text) && path !== MAKER
          ? [`${path} makes If-Match itself; use changeIfSame of ${MAKER}.`]
          : []),
        ...(/\bchangeIfSame\(/.test(text) && !(path in VIEWS)
          ? [`${path} calls changeIfSame; say in VIEWS what it shows of the other change.`]
          : []),
        ...callsIn(text)
          .filter(({ operation }) => operations.has(operation))
          .filter(({ rest }) => !/\bheaders\b/.test(rest))
          .filter(({ operation }) => !(`${path} ${operation}` in UNCONDITIONAL))
          .map(({ operation }) => `${path} calls ${operation} without If-Match.`),
      ]);

/** The calls of operations, each with the text of its arguments. */
function callsIn(text: string): { operation: string; rest: string }[] {
  return [...text.matchAll(/\bcall\(\s*'(\w+)'/g)].map(({ 1: operation = '', index }) => ({
    operation,
    rest: argumentsAt(text, text.indexOf('(', index)),
  }));
}

/** Returns the text to the parenthesis that closes the one at `start`. */
function argumentsAt(text: string, start: number): string {
  let depth = 0;
  for (let at = start; at < text.length; at += 1) {
    if (text[at] === '(') depth += 1;
    if (text[at] === ')') depth -= 1;
    if (depth === 0) return text.slice(start, at);
  }
  return text.slice(start);
}
