/**
 * Reads and renders the parts of a template: subject, html and text. Both keep the thread busy, so they take turns: a
 * project reads or renders one part at a time, and other work of the process runs in between.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { type FieldProblem, type Refusal, refuseFields } from '../core/refusals.ts';
import type { Scope } from '../core/scope.ts';
import { Turns } from '../lib/turns.ts';
import { readPart, type TemplatePart } from './liquid.ts';
import type * as store from './template-store.ts';
import { checkDeclarations, assignVariables, type GivenVariables } from './variables.ts';
import { type RequestWork, Work, WORK_MAX } from './work.ts';

export type RenderedTemplate = { subject: string; html: string | null; text: string | null };

export type TemplateParts = { [Part in keyof RenderedTemplate]?: TemplatePart | undefined };
const PARTS = ['subject', 'html', 'text'] as const;

/** Declared variables, and the values that a request gives. */
type VariableInput = { declared: readonly store.TemplateVariable[]; given: GivenVariables };

const TOO_MUCH_AT_ONCE: Refusal = refuseFields([
  {
    field: 'template',
    message:
      'the templates of this request take too much work to render; send fewer emails in one request',
  },
]);

/** Work that keeps the thread busy takes turns, in all services of the process. */
const turns = new Turns({ perOwner: 1 });

export function runInTurn<Result>(
  { projectId }: Scope,
  work: () => Result | Promise<Result>,
  signal?: AbortSignal,
): Promise<Result> {
  const next = async () => {
    await nextTurn();
    return work();
  };
  return turns.run(projectId, next, signal);
}

/** Reads the parts of a template. Every variable that they read must be declared. */
export function readInTurn(
  scope: Scope,
  content: store.TemplateContent,
): Promise<TemplateParts | Refusal> {
  return runInTurn(scope, () => readParts(content));
}

async function readParts(content: store.TemplateContent): Promise<TemplateParts | Refusal> {
  const problems: FieldProblem[] = checkDeclarations(content.variables, 'variables');
  const declared = new Set(content.variables.map(({ name }) => name));
  if (!content.html && !content.text) {
    problems.push({ field: 'html', message: 'is required, unless there is text' });
  }
  const parts: TemplateParts = {};
  for (const field of PARTS) {
    const source = content[field];
    // When the template has no subject, the email has its own.
    if (source === null || (field === 'subject' && source === '')) continue;
    await nextTurn();
    const part = readPart(source, { isHtml: field === 'html' });
    if ('problem' in part) {
      problems.push({ field, message: part.problem });
      continue;
    }
    parts[field] = part;
    for (const name of part.variables.filter((variable) => !declared.has(variable))) {
      const message = `uses ${name}, which is not declared in variables`;
      problems.push({ field, message });
    }
  }
  return problems.length > 0 ? refuseFields(problems) : parts;
}

/** All parts share one budget of work (work.ts). */
export function renderParts(
  parts: TemplateParts,
  { declared, given }: VariableInput,
  work = new Work(),
): RenderedTemplate | Refusal {
  const assigned = assignVariables(declared, given);
  if ('problems' in assigned) return refuseFields(assigned.problems);
  const rendered: RenderedTemplate = { subject: '', html: null, text: null };
  for (const name of PARTS) {
    const result = parts[name]?.render(assigned.values, work);
    if (result === undefined) continue;
    if ('problem' in result) {
      return refuseFields([{ field: 'template', message: `its ${name} ${result.problem}` }]);
    }
    rendered[name] = result.text;
  }
  return rendered;
}

/** Renders within the budget that earlier emails of the request have left. */
export function renderWithinBudget(
  budget: RequestWork,
  parts: TemplateParts,
  values: VariableInput,
): RenderedTemplate | Refusal {
  const limit = budget.nextBudget();
  if (limit === null) return TOO_MUCH_AT_ONCE;
  const work = new Work(limit);
  const rendered = renderParts(parts, values, work);
  budget.use(limit - work.left);
  return work.isExceeded && limit < WORK_MAX ? TOO_MUCH_AT_ONCE : rendered;
}
