/**
 * Translates templates in Handlebars, or with the variables of Resend, to Liquid. Pure, and evaluates nothing.
 *
 *     {{x}}                       {{ x }}               escaped in html
 *     {{{x}}}, {{&x}}             {{ x | raw }}         in html; nothing is escaped in subject and text
 *     {{#if x}} {{else}} {{/if}}  {% if … %} {% else %} {% endif %}, also unless, {{else if y}} and {{^x}}
 *     {{#each x}}                 {% for item in x %}   with @index, @first, @last, this, ../ and @root
 *     {{#with x}}                 {% if … %}            its names are members of x
 *
 * In Handlebars "", 0, false, null and [] are false; in Liquid only false and nil are. Conditions therefore
 * name all of them. Handlebars prints nothing for a missing member, but Letterhaus refuses the email. Members
 * therefore get a default. Constructs without a translation are left out and reported with their line:
 * partials, helpers, subexpressions, decorators, raw blocks.
 */
import type { TemplateVariable } from '../templates/template-store.ts';
import {
  isElse,
  excerpt,
  type Tag,
  type Token,
  tokensOf,
  withoutStandaloneLines,
  type Word,
} from './handlebars.ts';
import { Names, type Resolved, type Use } from './translate-names.ts';

export const SYNTAXES = ['handlebars', 'resend'] as const;
export type Syntax = (typeof SYNTAXES)[number];

export type TranslationProblem = { line: number; message: string };

export type TranslatedPart = {
  liquid: string;
  names: Names;
  translated: number;
  problems: TranslationProblem[];
};

const PROBLEMS_MAX = 100;
/** Limits of Liquid (templates/liquid.ts). The rest is not translated, so the work stays small. */
const TAGS_MAX = 2_000;
const DEPTH_MAX = 32;

export function translatePart(
  source: string,
  { syntax, isHtml }: { syntax: Syntax; isHtml: boolean },
): TranslatedPart {
  return syntax === 'resend' ? fromResend(source) : new Translator(source, isHtml).run();
}

export function variablesOfParts(parts: readonly TranslatedPart[]): TemplateVariable[] {
  return Names.variablesOf(parts.map(({ names }) => names));
}

const RESEND_TAG = /\{\{\{\s*([\w.]{1,200})\s*(?:\|([^{}]{0,500}))?\}\}\}|\{\{\{?|\{%/g;
const FILLED_BY_RESEND = new Set(['UNSUBSCRIBE_URL', 'RESEND_UNSUBSCRIBE_URL']);

/** Values are escaped in html, as in templates that arrive in Resend's wire format. */
function fromResend(source: string): TranslatedPart {
  const names = new Names(source);
  const part: TranslatedPart = { liquid: '', names, translated: 0, problems: [] };
  let [at, line] = [0, 1];
  let tags = 0;
  for (const match of source.matchAll(RESEND_TAG)) {
    tags += 1;
    if (tags > TAGS_MAX) {
      part.problems = [{ line, message: `has more than ${TAGS_MAX} tags` }];
      return part;
    }
    const text = source.slice(at, match.index);
    line += text.split('\n').length - 1;
    part.liquid += literal(text, false) + resendTag(match, { part, line });
    line += match[0].split('\n').length - 1;
    at = match.index + match[0].length;
  }
  part.liquid += source.slice(at);
  return part;
}

function resendTag(
  [all, name, fallback]: RegExpExecArray,
  { part, line }: { part: TranslatedPart; line: number },
): string {
  const { names } = part;
  if (name === undefined) {
    if (all !== '{%') {
      addProblem(
        part,
        line,
        'double braces are text at Resend; a variable has three, as {{{NAME}}}',
      );
    }
    return `{{ "${all}" }}`;
  }
  if (FILLED_BY_RESEND.has(name)) {
    addProblem(
      part,
      line,
      `${name} is filled in by Resend; see unsubscribe in docs/unsubscribe.md`,
    );
    return '';
  }
  const found = names.resolve(name);
  if ('problem' in found) {
    addProblem(part, line, found.problem);
    return '';
  }
  names.use(found, fallback === undefined ? 'output' : 'optional');
  part.translated += 1;
  if (fallback === undefined) return `{{ ${outputOf(found)} }}`;
  const quoted = quote(fallback.trim());
  return quoted === null
    ? `{{ ${outputOf(found)} }}`
    : `{{ ${found.expression} | default: ${quoted} }}`;
}

function addProblem(part: TranslatedPart, line: number, message: string): void {
  if (part.problems.length < PROBLEMS_MAX) part.problems.push({ line, message });
}

/** Writes text that Liquid would read as a tag as an output of that text. */
function literal(text: string, isBeforeTag: boolean): string {
  const safe = text.replaceAll(/\{\{+|\{%/g, (found) => `{{ "${found}" }}`);
  return isBeforeTag && safe.endsWith('{') ? `${safe.slice(0, -1)}{{ "{" }}` : safe;
}

/**
 * Quotes text for liquidjs, which reads a backslash as an escape. Returns null for text with both kinds of quotes,
 * because Liquid can escape neither.
 */
function quote(text: string): string | null {
  const escaped = text.replaceAll('\\', String.raw`\\`);
  if (!text.includes('"')) return `"${escaped}"`;
  return text.includes("'") ? null : `'${escaped}'`;
}

function outputOf({ expression, isMember }: Resolved): string {
  return isMember ? `${expression} | default: ""` : expression;
}

/** Returns a condition that is true where Handlebars is. */
function truthOf({ expression }: Resolved, { includesZero = false } = {}): string {
  const notEmpty = `${expression} and ${expression} != empty`;
  return includesZero ? notEmpty : `${notEmpty} and ${expression} != 0`;
}

type Block = {
  name: string;
  line: number;
  /** Closing tag without delimiters; null when the block is not translated. */
  end: string | null;
  /** True when it has names of its own, up to `{{else}}`. */
  hasScope: boolean;
  /** `{{else if}}` may continue it. */
  isCondition: boolean;
  hasElse?: boolean;
};

const COMPARISONS: Readonly<Record<string, string>> = {
  equals: '==',
  notEquals: '!=',
  greaterThan: '>',
  lessThan: '<',
};

class Translator {
  readonly #tokens: readonly Token[];
  readonly #isHtml: boolean;
  readonly #part: TranslatedPart;
  readonly #names: Names;
  readonly #blocks: Block[] = [];
  #index = 0;

  constructor(source: string, isHtml: boolean) {
    this.#tokens = withoutStandaloneLines(tokensOf(source, TAGS_MAX));
    this.#isHtml = isHtml;
    this.#names = new Names(source);
    this.#part = { liquid: '', names: this.#names, translated: 0, problems: [] };
  }

  run(): TranslatedPart {
    for (const [index, token] of this.#tokens.entries()) {
      this.#index = index;
      if (token.kind === 'text') this.#part.liquid += literal(token.text, this.#isBeforeTag());
      else if (token.kind === 'problem') addProblem(this.#part, token.line, token.message);
      else this.#part.liquid += this.#tag(token);
    }
    for (const { name, line, end } of this.#blocks.toReversed()) {
      addProblem(this.#part, line, `{{#${excerpt(name)}}} is not closed`);
      if (end !== null) this.#part.liquid += `{% ${end} %}`;
    }
    return this.#part;
  }

  /** A block that is not closed is closed at the end. */
  #isBeforeTag(): boolean {
    return this.#tokens[this.#index + 1] !== undefined || this.#blocks.length > 0;
  }

  #tag(tag: Tag): string {
    switch (tag.type) {
      case 'comment':
        return spaced(tag, '');
      case 'output':
        if (isElse(tag)) return this.#else(tag);
        return this.#output(tag);
      case 'raw':
        return this.#output(tag);
      case 'open':
        return this.#open(tag);
      case 'inverse':
        return tag.words.length === 0 ? this.#else(tag) : this.#open(tag);
      case 'close':
        return this.#close(tag);
      case 'partial':
        return this.#refuse(
          tag,
          `the partial {{> ${tag.source}}} is not supported; insert its content`,
        );
      case 'other':
        return this.#refuse(tag, `the decorator {{* ${tag.source}}} has no translation`);
    }
  }

  #refuse({ line }: Tag, message: string): string {
    addProblem(this.#part, line, message);
    return '';
  }

  #write(tag: Tag, liquid: string, kind: 'output' | 'tag'): string {
    this.#part.translated += 1;
    const [open, close] = kind === 'output' ? ['{{', '}}'] : ['{%', '%}'];
    const { before, after } = tag.trim;
    return `${open}${before ? '-' : ''} ${liquid} ${after ? '-' : ''}${close}`;
  }

  #output(tag: Tag): string {
    const [first, ...rest] = tag.words;
    const raw = tag.type === 'raw' && this.#isHtml ? ' | raw' : '';
    if (first === undefined) return this.#refuse(tag, 'a tag is empty');
    if (first.kind !== 'path') return this.#refuse(tag, `{{${tag.source}}} has no translation`);
    if (first.text === 'insert' && rest.length > 0) return this.#insert(tag, rest, raw);
    if (rest.length > 0) {
      return this.#refuse(tag, `the helper ${excerpt(first.text)} is not known to Liquid`);
    }
    const found = this.#names.resolve(first.text);
    if ('problem' in found) return this.#refuse(tag, found.problem);
    this.#names.use(found, 'output');
    return this.#write(tag, `${outputOf(found)}${raw}`, 'output');
  }

  /** Translates SendGrid's `{{insert name "default=friend"}}`. */
  #insert(tag: Tag, words: readonly Word[], raw: string): string {
    const [path, given, ...more] = words;
    const value = given?.kind === 'literal' ? given.value : '';
    const quoted = quote(String(value ?? '').replace(/^default=/, ''));
    if (path?.kind !== 'path' || more.length > 0 || quoted === null) {
      return this.#refuse(tag, `{{${tag.source}}} has no translation`);
    }
    const found = this.#names.resolve(path.text);
    if ('problem' in found) return this.#refuse(tag, found.problem);
    this.#names.use(found, 'optional');
    return this.#write(tag, `${found.expression} | default: ${quoted}${raw}`, 'output');
  }

  #open(tag: Tag): string {
    const [first, ...rest] = tag.words;
    const name = first?.kind === 'path' ? first.text : '';
    const { line } = tag;
    const included = /^[>*]\s*(\S*)/.exec(tag.source);
    if (included !== null) {
      const { 1: of = '' } = included;
      this.#blocks.push({ name: of, line, end: null, hasScope: false, isCondition: false });
      return this.#refuse(
        tag,
        `the block {{#${tag.source}}} has no translation; put its content in`,
      );
    }
    if (this.#blocks.length >= DEPTH_MAX) {
      this.#blocks.push({ name, line, end: null, hasScope: false, isCondition: false });
      return this.#refuse(tag, `{{#${tag.source}}} is nested more than ${DEPTH_MAX} deep`);
    }
    if (name === 'each' && tag.type === 'open') return this.#each(tag, rest);
    if (name === 'with' && tag.type === 'open') return this.#with(tag, rest);
    const isSection = tag.type === 'inverse';
    const condition = this.#condition(
      tag,
      isSection ? 'unless' : name,
      isSection ? tag.words : rest,
    );
    if ('problem' in condition) {
      this.#blocks.push({ name, line, end: null, hasScope: false, isCondition: false });
      return this.#refuse(tag, condition.problem);
    }
    const word = isSection || name === 'unless' ? 'unless' : 'if';
    this.#blocks.push({ name, line, end: `end${word}`, hasScope: false, isCondition: true });
    return this.#write(tag, `${word} ${condition.liquid}`, 'tag');
  }

  #condition(
    { source }: Tag,
    helper: string,
    words: readonly Word[],
  ): { liquid: string } | { problem: string } {
    const option = words.at(-2);
    const includesZero = option?.kind === 'hash' && option.name === 'includeZero';
    const [left, right, ...more] = includesZero ? words.slice(0, -2) : words;
    const operator = Object.hasOwn(COMPARISONS, helper) ? COMPARISONS[helper] : undefined;
    if (operator !== undefined && right !== undefined && more.length === 0) {
      return this.#comparison(left, operator, right);
    }
    const isCondition = helper === 'if' || helper === 'unless';
    if (!isCondition) {
      return {
        problem: `the block {{#${source}}} has no translation: write {{#if}}, {{#each}} or {{#with}} for what it does`,
      };
    }
    if (left?.kind !== 'path' || right !== undefined) {
      return { problem: `the condition of {{#${source}}} has no translation; make it a variable` };
    }
    const found = this.#names.resolve(left.text);
    if ('problem' in found) return found;
    this.#names.use(found, 'test');
    return { liquid: truthOf(found, { includesZero }) };
  }

  #comparison(
    left: Word | undefined,
    operator: string,
    right: Word,
  ): { liquid: string } | { problem: string } {
    const use = useOf(operator, [left, right]);
    const sides: string[] = [];
    for (const word of [left, right]) {
      if (word?.kind === 'literal') {
        const text = typeof word.value === 'string' ? quote(word.value) : String(word.value);
        if (text === null)
          return { problem: 'a text with both kinds of quotes has no translation' };
        sides.push(text);
        continue;
      }
      if (word?.kind !== 'path') return { problem: 'a comparison of this has no translation' };
      const found = this.#names.resolve(word.text);
      if ('problem' in found) return found;
      this.#names.use(found, use);
      sides.push(found.expression);
    }
    return { liquid: sides.join(` ${operator} `) };
  }

  #each(tag: Tag, words: readonly Word[]): string {
    const over = this.#scoped(tag, words);
    if (over === null) return '';
    this.#names.use(over.found, 'each');
    const { found, aliases } = over;
    const list = found.isMember ? this.#names.unusedName('list') : found.expression;
    const item = this.#names.enterLoop(aliases);
    this.#blocks.push({
      name: 'each',
      line: tag.line,
      end: 'endfor',
      hasScope: true,
      isCondition: false,
    });
    // A missing member has no items.
    const before = found.isMember ? `{% assign ${list} = ${found.expression} | default: "" %}` : '';
    const loop = this.#write(tag, `for ${item} in ${list}`, 'tag');
    return tag.trim.before && before !== '' ? `{%- ${before.slice(3)}${loop}` : before + loop;
  }

  #with(tag: Tag, words: readonly Word[]): string {
    const over = this.#scoped(tag, words);
    if (over === null) return '';
    this.#names.use(over.found, 'with');
    this.#names.enter(over.found, over.aliases);
    this.#blocks.push({
      name: 'with',
      line: tag.line,
      end: 'endif',
      hasScope: true,
      isCondition: false,
    });
    return this.#write(tag, `if ${truthOf(over.found)}`, 'tag');
  }

  /** Resolves the subject of a block and its names. Returns null when the block is refused. */
  #scoped(tag: Tag, words: readonly Word[]): { found: Resolved; aliases: string[] } | null {
    const [path, names, ...more] = words;
    const problem = ((): string | null => {
      if (path?.kind !== 'path' || more.length > 0) return `{{#${tag.source}}} has no translation`;
      return names === undefined || names.kind === 'names'
        ? null
        : `{{#${tag.source}}} has no translation`;
    })();
    const found = path?.kind === 'path' ? this.#names.resolve(path.text) : null;
    const reason = problem ?? (found !== null && 'problem' in found ? found.problem : null);
    if (reason === null && found !== null && !('problem' in found)) {
      return { found, aliases: names?.kind === 'names' ? names.names : [] };
    }
    this.#refuse(tag, reason ?? `{{#${tag.source}}} has no translation`);
    // Names within a refused block are unknown.
    this.#names.enterUnknown();
    const name = String(tag.source.split(/\s/)[0]);
    this.#blocks.push({ name, line: tag.line, end: null, hasScope: true, isCondition: false });
    return null;
  }

  #else(tag: Tag): string {
    const block = this.#blocks.at(-1);
    if (block === undefined) return this.#refuse(tag, '{{else}} is outside of a block');
    if (block.hasScope) {
      this.#names.leave();
      block.hasScope = false;
    }
    const [, ...words] = tag.words;
    const [helper, ...rest] = words;
    if (block.end === null) return '';
    if (block.hasElse === true) {
      return this.#refuse(
        tag,
        `{{#${excerpt(block.name)}}} of line ${block.line} has an {{else}} already`,
      );
    }
    block.hasElse = helper === undefined;
    if (helper === undefined) return this.#write(tag, 'else', 'tag');
    const name = helper.kind === 'path' ? helper.text : '';
    const condition = block.isCondition
      ? this.#condition(tag, name, rest)
      : { problem: `{{${tag.source}}} has no translation here; nest the blocks` };
    if ('problem' in condition) return this.#refuse(tag, condition.problem);
    if (name === 'unless')
      return this.#refuse(tag, '{{else unless}} has no translation; nest the blocks');
    return this.#write(tag, `elsif ${condition.liquid}`, 'tag');
  }

  #close(tag: Tag): string {
    const block = this.#blocks.at(-1);
    if (block === undefined) return this.#refuse(tag, `{{/${tag.source}}} closes no block`);
    if (block.name !== tag.source && tag.source !== '') {
      const message = `{{/${tag.source}}} does not close {{#${excerpt(block.name)}}} of line ${block.line}`;
      return this.#refuse(tag, message);
    }
    this.#blocks.pop();
    if (block.hasScope) this.#names.leave();
    return block.end === null ? '' : this.#write(tag, block.end, 'tag');
  }
}

function useOf(operator: string, words: readonly (Word | undefined)[]): Use {
  const values = words.map((word) => (word?.kind === 'literal' ? typeof word.value : null));
  if (values.includes('boolean')) return 'test';
  const isOrder = operator === '>' || operator === '<';
  return isOrder || values.includes('number') ? 'number' : 'output';
}

/** Adds an empty tag of Liquid that applies `~`, for tags that write nothing. */
function spaced({ trim: { before, after } }: Tag, liquid: string): string {
  if (!before && !after) return liquid;
  return `{%${before ? '-' : ''} # ${after ? '-' : ''}%}`;
}
