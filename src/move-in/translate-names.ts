/**
 * The names in a Handlebars template, for translate.ts. Resolves a path within its block to an expression of Liquid,
 * and infers the type of a variable from its uses.
 */
import type { TemplateVariable } from '../templates/template-store.ts';
import { excerpt } from './handlebars.ts';
import { RESERVED, VARIABLE_NAME } from '../templates/variables.ts';

export type Resolved = {
  expression: string;
  /** True for a member of a variable or an item, which may be missing. */
  isMember: boolean;
  /** The variable that it is or belongs to; null for an item of a loop. */
  variable: string | null;
};

type Found = Resolved | { problem: string };

/** `optional` means that the use has a default. */
export type Use = 'output' | 'optional' | 'test' | 'each' | 'with' | 'number';

type Uses = Set<Use | 'member'>;

type Scope = {
  /** Value of `this`. Null means all variables; undefined means unknown. */
  here: Resolved | null | undefined;
  aliases: ReadonlyMap<string, Resolved>;
  isLoop: boolean;
};

const ROOT: Scope = { here: null, aliases: new Map(), isLoop: false };

const LOOP_NAMES: Readonly<Record<string, string>> = {
  '@index': 'forloop.index0',
  '@first': 'forloop.first',
  '@last': 'forloop.last',
};

const FORLOOP = { isMember: false, variable: null } as const;

export class Names {
  readonly #words: Set<string>;
  readonly #numbers = new Map<string, number>();
  readonly #scopes: Scope[] = [ROOT];
  readonly #uses = new Map<string, Uses>();

  /** @param source the translation adds only names that are not words of this text */
  constructor(source: string) {
    this.#words = new Set(source.match(/\w+/g));
  }

  static variablesOf(parts: readonly Names[]): TemplateVariable[] {
    const all = new Map<string, Uses>();
    for (const [name, uses] of parts.flatMap((part) => [...part.#uses])) {
      all.set(name, new Set([...(all.get(name) ?? []), ...uses]));
    }
    return Array.from(all, ([name, uses]) => variableOf(name, uses));
  }

  use({ variable, isMember }: Resolved, use: Use): void {
    if (variable === null) return;
    const uses: Uses = this.#uses.get(variable) ?? new Set();
    this.#uses.set(variable, uses.add(isMember ? 'member' : use));
  }

  unusedName(base: string): string {
    let number = this.#numbers.get(base) ?? 0;
    let name: string;
    do {
      number += 1;
      name = number === 1 ? base : `${base}_${number}`;
    } while (this.#words.has(name));
    this.#numbers.set(base, number);
    this.#words.add(name);
    return name;
  }

  enterLoop([alias, index]: readonly string[]): string {
    const item = this.unusedName('item');
    const here = { expression: item, isMember: false, variable: null };
    const aliases = new Map<string, Resolved>();
    if (alias !== undefined) aliases.set(alias, here);
    if (index !== undefined) aliases.set(index, { ...FORLOOP, expression: 'forloop.index0' });
    this.#scopes.push({ here, aliases, isLoop: true });
    return item;
  }

  enter(here: Resolved, [alias]: readonly string[]): void {
    const aliases = new Map(alias === undefined ? [] : [[alias, here] as const]);
    this.#scopes.push({ here, aliases, isLoop: false });
  }

  enterUnknown(): void {
    this.#scopes.push({ here: undefined, aliases: new Map(), isLoop: false });
  }

  leave(): void {
    if (this.#scopes.length > 1) this.#scopes.pop();
  }

  resolve(path: string): Found {
    if (path.startsWith('@') && !path.startsWith('@root')) return this.#ofLoop(path);
    const { up, isRoot, rest } = parsePathStart(path);
    const segments = segmentsOf(rest);
    if (segments === null) return { problem: `the path ${excerpt(path)} cannot be read` };
    const aliased = up === 0 && !isRoot ? this.#aliased(segments) : null;
    if (aliased !== null) return aliased;
    const scope = isRoot ? ROOT : this.#scopes.at(-1 - up);
    if (scope === undefined) return { problem: `${excerpt(path)} is outside of the template` };
    if (scope.here === undefined) {
      return { problem: `${excerpt(path)} is within a block that has no translation` };
    }
    return scope.here === null ? resolveInRoot(segments, path) : membersOf(scope.here, segments);
  }

  #ofLoop(path: string): Found {
    const expression = Object.hasOwn(LOOP_NAMES, path) ? LOOP_NAMES[path] : undefined;
    if (expression === undefined) return { problem: `${excerpt(path)} has no translation` };
    const isInLoop = this.#scopes.some(({ isLoop }) => isLoop);
    return isInLoop
      ? { ...FORLOOP, expression }
      : { problem: `${excerpt(path)} is outside of {{#each}}` };
  }

  #aliased([first, ...rest]: readonly string[]): Found | null {
    if (first === undefined) return null;
    const found = this.#scopes.findLast(({ aliases }) => aliases.has(first))?.aliases.get(first);
    return found === undefined ? null : membersOf(found, rest);
  }
}

function parsePathStart(path: string): { up: number; isRoot: boolean; rest: string } {
  if (/^@root(?:[./]|$)/.test(path)) return { up: 0, isRoot: true, rest: path.slice(6) };
  let [up, rest] = [0, path];
  while (/^\.\.(?:\/|$)/.test(rest)) [up, rest] = [up + 1, rest.slice(3)];
  return { up, isRoot: false, rest: rest.replace(/^(?:this(?:[./]|$)|\.\/|\.$)/, '') };
}

const SEGMENT = /\[([^\]]*)\]|([^./[\]\s"'{}|%]+)|([./])|(.)/gs;

function segmentsOf(text: string): string[] | null {
  const segments: string[] = [];
  for (const [, bracketed, plain, , other] of text.matchAll(SEGMENT)) {
    if (other !== undefined) return null;
    const segment = bracketed ?? plain;
    if (segment !== undefined) segments.push(segment);
  }
  return segments;
}

function resolveInRoot([name, ...rest]: readonly string[], path: string): Found {
  if (name === undefined) return { problem: `${excerpt(path)} means all variables together` };
  if (!VARIABLE_NAME.test(name) || RESERVED.has(name)) {
    return { problem: `${excerpt(name)} cannot be the name of a variable; rename it` };
  }
  return membersOf({ expression: name, isMember: false, variable: name }, rest);
}

/** Limit in characters. Conditions and nested blocks repeat the expression of a path. */
const EXPRESSION_MAX_LENGTH = 1_000;

function membersOf(of: Resolved, segments: readonly string[]): Found {
  let { expression } = of;
  for (const segment of segments) {
    if (/^\d{1,9}$/.test(segment)) expression += `[${segment}]`;
    else if (VARIABLE_NAME.test(segment)) expression += `.${segment}`;
    else if (/["\\\r\n]/.test(segment))
      return { problem: `the member ${excerpt(segment)} cannot be named` };
    else expression += `["${segment}"]`;
  }
  if (expression.length > EXPRESSION_MAX_LENGTH) {
    return {
      problem: `the path ${excerpt(expression)} is longer than ${EXPRESSION_MAX_LENGTH} characters`,
    };
  }
  return { ...of, expression, isMember: of.isMember || segments.length > 0 };
}

/**
 * Gives a default to variables that may be omitted: those that are only tested, have a default in the text, or are a
 * list.
 */
function variableOf(name: string, uses: Uses): TemplateVariable {
  const has = (use: Use | 'member') => uses.has(use);
  if (has('each')) return { name, type: 'list', default: [] };
  if (has('member') || has('with')) {
    const isOptional = has('with') || has('test');
    return { name, type: 'object', ...(isOptional && { default: {} }) };
  }
  if (has('number')) return { name, type: 'number', ...(has('test') && { default: 0 }) };
  if (has('output') || has('optional')) {
    const isOptional = has('test') || !has('output');
    return { name, type: 'string', ...(isOptional && { default: '' }) };
  }
  return { name, type: 'boolean', default: false };
}
