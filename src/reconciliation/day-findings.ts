/** Adds up the findings of the steps over a day: the counts of its mail, and the problems with examples. */
import { type Difference, EXAMPLES_MAX, STATUS_COLUMNS, type Statuses } from './differences.ts';
import type { Accepted, Counts, DayStep, Problem } from './reconciliation-store.ts';

export class DayFindings {
  readonly counts: Counts = {
    emails: 0,
    recipients: 0,
    ...(Object.fromEntries(STATUS_COLUMNS.map((status) => [status, 0])) as Record<
      keyof Statuses,
      number
    >),
  };
  readonly #problems = new Map<Problem, { emails: number; examples: string[] }>();

  add({ counts, problems }: DayStep): void {
    for (const name of Object.keys(counts) as (keyof Counts)[]) this.counts[name] += counts[name];
    for (const { id, kinds } of problems) {
      for (const kind of kinds) {
        const found = this.#problems.get(kind) ?? { emails: 0, examples: [] };
        found.emails += 1;
        if (found.examples.length < EXAMPLES_MAX) found.examples.push(id);
        this.#problems.set(kind, found);
      }
    }
  }

  /** @param accepted null: the counters do not cover all mail of the day */
  differences(accepted: Accepted | null): Difference[] {
    const problems = [...this.#problems].map(([kind, found]) => ({ kind, ...found }));
    const counters = (['recipients', 'emails'] as const).flatMap((counter): Difference[] => {
      const [counted, stored] = [accepted?.[counter], this.counts[counter]];
      if (counted === undefined || counted === stored) return [];
      return [{ kind: 'accepted_differs', emails: 0, examples: [], counter, counted, stored }];
    });
    return [...counters, ...problems];
  }
}
