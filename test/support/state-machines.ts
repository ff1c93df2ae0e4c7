/** Checks of state machines that are tables (src/lib/state-machine.ts). */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { nextState, type Transitions } from '../../src/lib/state-machine.ts';

type Table = Transitions<string, string>;

/** Returns the transitions of the table as arrows of a Mermaid diagram. */
function arrowsOf(table: Table): string[] {
  return Object.entries(table).flatMap(([state, events]) =>
    Object.entries(events).map(([event, next]) => `${state} --> ${next}: ${event}`),
  );
}

/** Asserts that all events lead to the states of the table or throw, and that every state is reachable. */
export function assertOnly(table: Table): void {
  const states = Object.keys(table);
  const events = new Set(Object.values(table).flatMap((row) => Object.keys(row)));
  const arrows = states.flatMap((state) =>
    [...events].flatMap((event) => {
      if (table[state]![event] !== undefined) {
        return `${state} --> ${nextState(table, state, event)}: ${event}`;
      }
      assert.throws(() => nextState(table, state, event), /cannot happen in the state/);
      return [];
    }),
  );
  assert.deepEqual(arrows.toSorted(), arrowsOf(table).toSorted());
  const reached = new Set(states.slice(0, 1));
  for (const state of reached) for (const next of Object.values(table[state]!)) reached.add(next!);
  assert.deepEqual([...reached].toSorted(), states.toSorted());
}

/** Asserts that the diagram below the heading in docs/delivery.md has exactly the arrows of the table. */
export async function assertDrawn(
  heading: string,
  table: Table,
  { start, end }: { start: string; end?: string },
): Promise<void> {
  const page = await readFile(new URL('../../docs/delivery.md', import.meta.url), 'utf8');
  const diagram = page.split(`\n### ${heading}\n`)[1]?.split('```')[1] ?? '';
  const drawn = diagram.split('\n').filter((line) => line.includes('-->'));
  const ends = end === undefined ? [] : [`${end} --> [*]`];
  const arrows = [`[*] --> ${start}`, ...arrowsOf(table), ...ends];
  assert.deepEqual(drawn.map((line) => line.trim()).toSorted(), arrows.toSorted());
}
