/**
 * Splits a Handlebars template into its tags, in order. Pure, linear in the length of the source, and evaluates
 * nothing. translate.ts translates each tag to Liquid.
 *
 * Handlebars itself is not a dependency, because it compiles templates to JavaScript.
 */

export type Token =
  | { kind: 'text'; text: string; line: number }
  | {
      kind: 'tag';
      /** `{{` is `output`, which is escaped; `{{{` and `{{&` are `raw`. The first character decides the others. */
      type: 'output' | 'raw' | 'open' | 'inverse' | 'close' | 'comment' | 'partial' | 'other';
      words: Word[];
      source: string;
      line: number;
      /** `~` removes the white space before or after. */
      trim: { before: boolean; after: boolean };
    }
  | { kind: 'problem'; message: string; line: number };

export type Tag = Extract<Token, { kind: 'tag' }>;

export type Word =
  | { kind: 'path'; text: string }
  | { kind: 'literal'; value: string | number | boolean | null }
  | { kind: 'hash'; name: string }
  | { kind: 'names'; names: string[] }
  | { kind: 'expression' };

const TYPES: Readonly<Record<string, Tag['type']>> = {
  '&': 'raw',
  '#': 'open',
  '^': 'inverse',
  '/': 'close',
  '!': 'comment',
  '>': 'partial',
  '*': 'other',
};

/** @param tagsMax the rest is left out and reported first; escaped tags count, too */
export function tokensOf(source: string, tagsMax: number): Token[] {
  const tokens: Token[] = [];
  let tags = 0;
  let at = 0;
  let line = 1;
  const tooMany = (): Token[] => [
    { kind: 'problem', message: `has more than ${tagsMax} tags`, line },
    ...tokens,
  ];
  const text = (to: number): void => {
    if (to > at) tokens.push({ kind: 'text', text: source.slice(at, to), line });
    line += newlinesIn(source, at, to);
    at = to;
  };
  for (;;) {
    const next = source.indexOf('{{', at);
    if (next === -1) break;
    const slashes =
      source[next - 1] !== '\\' || next === at ? 0 : source[next - 2] === '\\' ? 2 : 1;
    // `\{{x}}` is text; `\\{{x}}` is a backslash and a tag.
    text(slashes > 0 ? next - 1 : next);
    at = next;
    tags += 1;
    if (slashes === 1) {
      if (tags > tagsMax) return tooMany();
      const close = source.indexOf('}}', next);
      text(close === -1 ? source.length : close + 2);
      continue;
    }
    const end = endOfTag(source, next);
    if (end === null) {
      tokens.push({ kind: 'problem', message: 'a tag is not closed', line });
      break;
    }
    const tag = tagOf(source.slice(next, end), line);
    if (tags > tagsMax) return tooMany();
    tokens.push(tag);
    line += newlinesIn(source, next, end);
    at = end;
  }
  text(source.length);
  return tokens;
}

const LINE_FEED = 10;

/** Stops at `to`. A search for the next line end would read the whole rest for each tag. */
function newlinesIn(source: string, from: number, to: number): number {
  let count = 0;
  for (let at = from; at < to; at += 1) {
    if (source.charCodeAt(at) === LINE_FEED) count += 1;
  }
  return count;
}

function endOfTag(source: string, from: number): number | null {
  const after = (closing: string, start: number): number | null => {
    const end = source.indexOf(closing, start);
    return end === -1 ? null : end + closing.length;
  };
  if (source.startsWith('{{{{', from)) return after('}}}}', from + 4);
  const isLongComment = /^\{\{~?!--/.test(source.slice(from, from + 6));
  if (isLongComment) return endOfComment(source, from + 5);
  if (/^\{\{~?!/.test(source.slice(from, from + 4))) return after('}}', from + 3);
  const closing = source.startsWith('{{{', from) ? '}}}' : '}}';
  let quote = '';
  for (let at = from + 2; at < source.length; at += 1) {
    const char = source[at] ?? '';
    if (quote !== '') quote = char === quote ? '' : quote;
    else if (char === '"' || char === "'") quote = char;
    else if (source.startsWith(closing, at)) return at + closing.length;
  }
  return null;
}

const COMMENT_END = /--~?\}\}/g;

/** A long comment ends at the first `--}}` or `--~}}`. Returns null when it is not closed. */
function endOfComment(source: string, from: number): number | null {
  COMMENT_END.lastIndex = from;
  return COMMENT_END.test(source) ? COMMENT_END.lastIndex : null;
}

/** Characters. Bounds the work for one tag. */
const TAG_MAX_LENGTH = 2_000;

function tagOf(tag: string, line: number): Token {
  const problem = (message: string): Token => ({ kind: 'problem', message, line });
  if (tag.startsWith('{{{{')) return problem(`the raw block ${excerpt(tag)} has no translation`);
  if (tag.length > TAG_MAX_LENGTH && !/^\{\{~?!/.test(tag)) {
    return problem(`a tag is longer than ${TAG_MAX_LENGTH} characters`);
  }
  const isRaw = tag.startsWith('{{{');
  const width = isRaw ? 3 : 2;
  let inner = tag.slice(width, -width);
  const trim = { before: inner.startsWith('~'), after: inner.endsWith('~') };
  inner = inner.slice(trim.before ? 1 : 0, trim.after ? -1 : undefined);
  const type = isRaw ? 'raw' : (TYPES[inner[0] ?? ''] ?? 'output');
  const hasMark = !isRaw && type !== 'output';
  const source = inner.slice(hasMark ? 1 : 0).trim();
  const words = type === 'comment' ? [] : wordsOf(source);
  return { kind: 'tag', type, words, source: excerpt(source), line, trim };
}

/**
 * No `[` within brackets, and none in the name before `=`: otherwise each unclosed one would be searched to the end.
 */
const WORD =
  /\s+|"([^"]*)"|'([^']*)'|as\s*\|([^|]*)\||([^\s"'()=|[]+)=|((?:\[[^\][]*\]|[^\s"'()=|[])+)|(.)/gsy;

/** A subexpression is one word, whatever it contains. */
function wordsOf(source: string): Word[] {
  const words: Word[] = [];
  let depth = 0;
  for (const match of source.matchAll(WORD)) {
    const [all, double, single, names, hash, path, other] = match;
    if (other === '(') {
      if (depth === 0) words.push({ kind: 'expression' });
      depth += 1;
    } else if (other === ')') depth = Math.max(0, depth - 1);
    else if (depth > 0 || all.trim() === '') continue;
    else if (hash !== undefined) words.push({ kind: 'hash', name: hash });
    else if (names !== undefined) {
      words.push({ kind: 'names', names: names.trim().split(/\s+/) });
    } else if (path !== undefined) words.push(pathOrLiteral(path));
    else if (other === undefined) words.push({ kind: 'literal', value: double ?? single ?? '' });
    else words.push({ kind: 'expression' });
  }
  return words;
}

const LITERALS: ReadonlyMap<string, boolean | null> = new Map([
  ['true', true],
  ['false', false],
  ['null', null],
  ['undefined', null],
]);

function pathOrLiteral(text: string): Word {
  const literal = LITERALS.get(text);
  if (literal !== undefined) return { kind: 'literal', value: literal };
  if (/^-?\d{1,15}(?:\.\d{1,15})?$/.test(text)) return { kind: 'literal', value: Number(text) };
  return { kind: 'path', text };
}

export function isElse({ words: [first] }: Tag): boolean {
  return first?.kind === 'path' && first.text === 'else';
}

const BLOCK_TYPES: ReadonlySet<Tag['type']> = new Set([
  'open',
  'inverse',
  'close',
  'comment',
  'partial',
]);

/** Removes lines that contain only a block, an {{else}} or a comment, as Handlebars does. */
export function withoutStandaloneLines(tokens: readonly Token[]): Token[] {
  const result = tokens.map((token) => ({ ...token }));
  for (const [index, token] of tokens.entries()) {
    if (token.kind !== 'tag' || !(BLOCK_TYPES.has(token.type) || isElse(token))) continue;
    if (!startsLine(tokens, index) || !endsLine(tokens, index)) continue;
    const [before, after] = [result[index - 1], result[index + 1]];
    if (before?.kind === 'text')
      before.text = before.text.slice(0, startOfTrailingBlanks(before.text));
    if (after?.kind === 'text') after.text = after.text.replace(/^[ \t]*(?:\r?\n)?/, '');
  }
  return result;
}

function startsLine(tokens: readonly Token[], index: number): boolean {
  const before = tokens[index - 1];
  if (before === undefined) return true;
  if (before.kind !== 'text') return false;
  const blank = startOfTrailingBlanks(before.text);
  return blank === 0 ? index === 1 : before.text[blank - 1] === '\n';
}

function endsLine(tokens: readonly Token[], index: number): boolean {
  const after = tokens[index + 1];
  if (after === undefined) return true;
  if (after.kind !== 'text') return false;
  const isLast = index + 2 === tokens.length;
  return /^[ \t]*\r?\n/.test(after.text) || (isLast && startOfTrailingBlanks(after.text) === 0);
}

function startOfTrailingBlanks(text: string): number {
  let at = text.length;
  while (at > 0 && (text[at - 1] === ' ' || text[at - 1] === '\t')) at -= 1;
  return at;
}

export function excerpt(text: string): string {
  const plain = text.replace(/[\u0000-\u001f\u007f-\u009f]+/g, ' ');
  return plain.length <= 60 ? plain : `${plain.slice(0, 60)}…`;
}
