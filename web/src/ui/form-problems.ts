/** Passes the refusal of one field of a form to that field, which shows it. */
import { createContext, useContext } from 'react';
import { ApiError, type FieldProblem } from '../api/client.ts';

export const FormProblems = createContext<readonly FieldProblem[]>([]);

/** The page itself refuses a field of a form. */
export class FieldRefusal extends Error {
  override readonly name = 'FieldRefusal';
  readonly field: string;

  constructor(field: string, message: string) {
    super(message);
    this.field = field;
  }
}

/** Returns what is wrong with a field, by its name; entries of a list count as the list. */
export function useProblemOf(name: string | undefined): string | null {
  const problems = useContext(FormProblems);
  const problem = problems.find(({ field }) => name !== undefined && isOf(field, name));
  return problem?.message ?? null;
}

/** Returns the problems that belong to fields of this form. */
export function problemsWithFields(form: HTMLFormElement, error: unknown): FieldProblem[] {
  const details = detailsOf(error);
  const names = [...form.elements].map((element) => element.getAttribute('name') ?? '');
  return details.filter(({ field }) => names.some((name) => name !== '' && isOf(field, name)));
}

/** Returns the first control of the form that was refused. */
export function firstRefused(
  form: HTMLFormElement,
  problems: readonly FieldProblem[],
): HTMLElement | undefined {
  const controls = [...form.elements].filter((element) => element instanceof HTMLElement);
  return controls.find((element) => {
    const name = element.getAttribute('name') ?? '';
    return name !== '' && problems.some(({ field }) => isOf(field, name));
  });
}

function detailsOf(error: unknown): readonly FieldProblem[] {
  if (error instanceof FieldRefusal) return [{ field: error.field, message: error.message }];
  return error instanceof ApiError ? error.details : [];
}

function isOf(field: string, name: string): boolean {
  return field === name || field.startsWith(`${name}.`) || field.startsWith(`${name}[`);
}
