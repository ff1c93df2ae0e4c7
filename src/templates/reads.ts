/**
 * Which variables a template reads, from its parsed form. LiquidJS can say so itself, but with the
 * line of each place, for which it goes through the source again every time: 4,500 places took a
 * second.
 */
import { type RangeToken, type Template, toValueSync, TypeGuards, Value } from 'liquidjs';

/** The names of variables that are read where the template has not assigned them itself, each once. */
export function variablesOf(templates: readonly Template[]): string[] {
  const read = new Set<string>();
  visit(templates, { read, assigned: new Set(), inBlock: new Set() });
  return [...read];
}

type Names = {
  read: Set<string>;
  /** By `assign` and `capture`, anywhere before. */
  assigned: Set<string>;
  /** Of the loops around it. */
  inBlock: ReadonlySet<string>;
};

function visit(templates: readonly Template[], names: Names): void {
  const { read, assigned, inBlock } = names;
  for (const template of templates) {
    for (const argument of template.arguments?.() ?? []) {
      const found = [...namesIn(argument)];
      const own = (name: string) => assigned.has(name) || inBlock.has(name);
      for (const name of found.filter((one) => !own(one))) read.add(name);
    }
    for (const { content } of template.localScope?.() ?? []) assigned.add(content);
    const children = template.children?.(false, true);
    if (!children) continue;
    const within = new Set([...inBlock, ...(template.blockScope?.() ?? [])]);
    visit(toValueSync(children), { ...names, inBlock: within });
  }
}

/** The ranges in a value with its filters, or in a token of the library: `(1..x)`. */
export function* rangesIn(argument: unknown): Generator<RangeToken> {
  if (TypeGuards.isRangeToken(argument)) yield argument;
  if (!(argument instanceof Value)) return;
  for (const operand of argument.initial.postfix) yield* rangesIn(operand);
  for (const filter of argument.filters) {
    for (const value of filter.args) yield* rangesIn(Array.isArray(value) ? value[1] : value);
  }
}

/** @param argument a value with its filters, or a token of the library */
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
    // What stands before the first dot: a name, a text in quotes, or `["a name"]`.
    const [first, ...rest] = argument.props;
    const root = argument.variable ?? first;
    if (TypeGuards.isWordToken(root) || TypeGuards.isQuotedToken(root)) yield root.content;
    for (const property of argument.variable ? argument.props : rest) yield* namesIn(property);
  }
}
