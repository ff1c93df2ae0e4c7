/**
 * Finds the variables that a template reads, from its parsed form. LiquidJS can do this, but it searches the source
 * for the line of each place: 4,500 places took a second.
 */
import { type RangeToken, type Template, toValueSync, TypeGuards, Value } from 'liquidjs';

/** Returns each variable that is read where the template has not assigned it. */
export function variablesOf(templates: readonly Template[]): string[] {
  const read = new Set<string>();
  collectNames(templates, { read, assigned: new Set(), inBlock: new Set() });
  return [...read];
}

type CollectedNames = {
  read: Set<string>;
  /** Assigned by `assign` or `capture` anywhere before. */
  assigned: Set<string>;
  inBlock: ReadonlySet<string>;
};

function collectNames(templates: readonly Template[], names: CollectedNames): void {
  const { read, assigned, inBlock } = names;
  for (const template of templates) {
    for (const argument of template.arguments?.() ?? []) {
      const found = [...namesIn(argument)];
      const isOwn = (name: string) => assigned.has(name) || inBlock.has(name);
      const unassigned = found.filter((name) => !isOwn(name));
      for (const name of unassigned) read.add(name);
    }
    for (const { content } of template.localScope?.() ?? []) assigned.add(content);
    const children = template.children?.(false, true);
    if (!children) continue;
    const within = new Set([...inBlock, ...(template.blockScope?.() ?? [])]);
    collectNames(toValueSync(children), { ...names, inBlock: within });
  }
}

/** Yields the ranges in a value with its filters, or in a token of the library: `(1..x)`. */
export function* rangesIn(argument: unknown): Generator<RangeToken> {
  if (TypeGuards.isRangeToken(argument)) yield argument;
  if (!(argument instanceof Value)) return;
  for (const operand of argument.initial.postfix) yield* rangesIn(operand);
  for (const filter of argument.filters) {
    for (const value of filter.args) yield* rangesIn(Array.isArray(value) ? value[1] : value);
  }
}

function* namesIn(argument: unknown): Generator<string> {
  if (argument instanceof Value) {
    for (const operand of argument.initial.postfix) yield* namesIn(operand);
    for (const filter of argument.filters) {
      for (const value of filter.args) yield* namesIn(Array.isArray(value) ? value[1] : value);
    }
  } else if (TypeGuards.isRangeToken(argument)) {
    yield* namesIn(argument.lhs);
    yield* namesIn(argument.rhs);
  } else if (TypeGuards.isPropertyAccessToken(argument)) {
    // The part before the first dot: a name, a text in quotes, or `["a name"]`.
    const [first, ...others] = argument.props;
    const root = argument.variable ?? first;
    if (TypeGuards.isWordToken(root) || TypeGuards.isQuotedToken(root)) yield root.content;
    for (const property of argument.variable ? argument.props : others) yield* namesIn(property);
  }
}
