/**
 * One part of a template (subject, html or text) in the Liquid language: read once, rendered for each email. Pure: no
 * files, includes, clock or prototypes. The language has only what this file and filters.ts list.
 *
 * Guarantee: reading and rendering end within 50 ms on the reference machine, whatever source and variables are. The
 * result is text or a sentence with the problem. Sources are bounded by size, number of tags and depth, rendering by
 * its work (work.ts). Output in html is escaped unless its last filter is `raw`.
 */
import {
  CaseTag,
  type Context,
  type Emitter,
  evalToken,
  ForTag,
  Liquid,
  LiquidError,
  TagToken,
  type Token,
  type Template,
  Tokenizer,
  TypeGuards,
  toValueSync,
} from 'liquidjs';
import { escapeOutput, meteredFilters, meteredOperators, plainOutput } from './filters.ts';
import { rangesIn, variablesOf } from './reads.ts';
import { isPlainObject, MeteredContext, type Work, workOf } from './work.ts';

export const SOURCE_MAX = 256 * 1024;
export const RENDERED_MAX = 1024 * 1024;
const TAGS_MAX = 2_000;
/** Limit on the characters between the delimiters of all tags together. */
const TAGS_LENGTH_MAX = 64 * 1024;
const DEPTH_MAX = 32;

const TAGS = 'assign break capture case comment continue for if raw unless #'.split(' ');
const BLOCKS = new Set(['capture', 'case', 'comment', 'for', 'if', 'unless']);
/** Their conditions are evaluated with the tag that they belong to. */
const BRANCHES = new Set(['elsif', 'when']);

export type TemplatePart = {
  variables: readonly string[];
  render: (variables: Readonly<Record<string, unknown>>, work: Work) => Rendered;
};

/** `problem` ends a sentence that begins with the name of the part. */
export type Rendered = { text: string } | { problem: string };

const html = createEngine(escapeOutput);
const plain = createEngine(plainOutput);

function createEngine(outputEscape: typeof escapeOutput): Liquid {
  const engine = new Liquid({
    templates: {},
    dynamicPartials: false,
    ownPropertyOnly: true,
    strictFilters: true,
    strictVariables: true,
    lenientIf: true,
    outputEscape: outputEscape as (value: unknown) => string,
    operators: meteredOperators(),
    locale: 'en-US',
    timezoneOffset: 0,
    parseLimit: SOURCE_MAX,
  });
  const { filters, tags } = engine as unknown as Record<string, Record<string, unknown>>;
  for (const name of Object.keys(tags!)) if (!TAGS.includes(name)) delete tags![name];
  for (const name of Object.keys(filters!)) engine.unregisterFilter(name);
  for (const [name, filter] of meteredFilters()) {
    engine.registerFilter(name, filter as Parameters<Liquid['registerFilter']>[1]);
  }
  return engine;
}

/** Reads a part. `problem` ends a sentence. */
export function readPart(
  source: string,
  { isHtml }: { isHtml: boolean },
): TemplatePart | { problem: string } {
  const engine = isHtml ? html : plain;
  try {
    const weights = weighTags(source, engine);
    if (typeof weights === 'string') return { problem: weights };
    const templates = engine.parse(source);
    chargeBeforeRendering(templates, weights);
    return {
      variables: variablesOf(templates),
      render: (variables, work) =>
        render(engine, templates, new MeteredContext(variables, engine, work)),
    };
  } catch (error) {
    return { problem: problemSentence(error) };
  }
}

/**
 * Returns the cost of each tag and output by its offset, or why the source is refused. The cost is the length of its
 * source, including that of its further conditions.
 */
function weighTags(source: string, engine: Liquid): Map<number, number> | string {
  if (source.length > SOURCE_MAX) return `is longer than ${SOURCE_MAX} characters`;
  const tokens = new Tokenizer(source).readTopLevelTokens(engine.options);
  const weights = new Map<number, number>();
  const open: number[] = [];
  let [count, length] = [0, 0];
  for (const token of tokens) {
    if (TypeGuards.isHTMLToken(token)) continue;
    const size = token.end - token.begin;
    weights.set(token.begin, size);
    count += 1;
    length += size;
    if (!(token instanceof TagToken)) continue;
    if (BLOCKS.has(token.name)) open.push(token.begin);
    else if (token.name.startsWith('end')) open.pop();
    const block = open.at(-1);
    if (BRANCHES.has(token.name) && block !== undefined) {
      weights.set(block, (weights.get(block) ?? 0) + size);
    }
    if (open.length > DEPTH_MAX) return `is nested more than ${DEPTH_MAX} tags deep`;
  }
  if (count > TAGS_MAX) return `has more than ${TAGS_MAX} tags and outputs`;
  return length > TAGS_LENGTH_MAX ? `has more than ${TAGS_LENGTH_MAX} characters in tags` : weights;
}

/** Charges the work of every part, at every depth, before the part is rendered. */
function chargeBeforeRendering(
  templates: readonly Template[],
  weights: ReadonlyMap<number, number>,
): void {
  for (const template of templates) {
    const { begin, end } = template.token;
    const weight = weights.get(begin) ?? (end - begin) / 16;
    const original = template.render.bind(template);
    const numbers = numbersIn(template);
    template.render = (context: Context, emitter: Emitter): unknown => {
      const work = workOf(context);
      work.use(weight);
      for (const token of numbers) refuseUnlessNumber(token, context);
      if (template instanceof ForTag) useForLoop(template, context, work);
      if (template instanceof CaseTag) useForCase(template, context, work);
      return original(context, emitter);
    };
    const inner = template.children?.(false, true);
    if (inner) chargeBeforeRendering(toValueSync(inner), weights);
  }
}

/** Returns the numbers of a tag or output outside of its filters: bounds of ranges, `limit` and `offset`. */
function numbersIn(template: Template): Token[] {
  const ranges = [...(template.arguments?.() ?? [])].flatMap((one) => [...rangesIn(one)]);
  const bounds = ranges.flatMap(({ lhs, rhs }) => [lhs, rhs]);
  if (!(template instanceof ForTag)) return bounds;
  const modifiers = Object.values(template.hash.hash).filter((one) => typeof one === 'object');
  return [...bounds, ...modifiers];
}

const NUMBER_TEXT_MAX = 32;

/** Converting a long text or a list at each use would cost time in proportion to its length. */
function refuseUnlessNumber(token: Token, context: Context): void {
  const value: unknown = toValueSync(evalToken(token, context, true));
  const isShort = typeof value === 'string' && value.length <= NUMBER_TEXT_MAX;
  if (value === null || isShort || !['string', 'object'].includes(typeof value)) return;
  throw new Error('a text, a list or an object is not a number');
}

/** `offset`, `limit` and `reversed` copy the list. An object becomes a list. */
function useForLoop({ collection }: ForTag, context: Context, work: Work): void {
  const over: unknown = toValueSync(evalToken(collection, context));
  if (Array.isArray(over)) work.use(over.length / 8);
  else if (isPlainObject(over)) work.use(6 * Object.keys(over).length);
}

function useForCase(template: CaseTag, context: Context, work: Work): void {
  const target: unknown = toValueSync(template.value.value(context, true));
  const values = template.branches.reduce((sum, branch) => sum + branch.values.length, 0);
  work.use((Array.isArray(target) ? 4 : 1) * values * work.useFor(target));
}

function render(engine: Liquid, templates: Template[], context: MeteredContext): Rendered {
  try {
    const text = String(engine.renderSync(templates, context));
    return text.length > RENDERED_MAX
      ? { problem: `is longer than ${RENDERED_MAX} characters when it is rendered` }
      : { text };
  } catch (error) {
    if (context.work.isExceeded) return { problem: TOO_MUCH_WORK };
    return { problem: problemSentence(error) };
  }
}

const TOO_MUCH_WORK =
  'takes too much work to render; use smaller lists, fewer loops within loops, or shorter texts';

function problemSentence(error: unknown): string {
  if (!(error instanceof Error)) throw error;
  if (!LiquidError.is(error)) {
    // The stack overflowed, or a string would be too long.
    if (error instanceof RangeError) return TOO_MUCH_WORK;
    throw error;
  }
  if (error.originalError instanceof RangeError) return TOO_MUCH_WORK;
  const [line, column] = error.token.getPosition();
  const at = `(line ${line}, column ${column})`;
  const reason = error.originalError?.message ?? error.message.replace(/, line:\d+, col:\d+$/, '');
  const unknown = /^undefined variable: (.*)$/s.exec(reason)?.[1];
  if (unknown !== undefined) return `uses ${printable(unknown)}, which has no value ${at}`;
  return `cannot be rendered: ${printable(reason)} ${at}`;
}

function printable(text: string): string {
  const plainText = text.replace(/[\u0000-\u001f\u007f-\u009f]/g, ' ');
  return plainText.length <= 120 ? plainText : `${plainText.slice(0, 120)}…`;
}
