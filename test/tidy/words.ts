/**
 * One word for one thing: identifiers have the words of docs/glossary.md. The words in code type in the
 * column "Not" are refused as parts of identifiers (`heldBytes`, `TOLD`).
 */
import type { Rule, SourceFile } from './source.ts';

const GLOSSARY = 'docs/glossary.md';

/**
 * The identifiers that still have such a word, a line for each word. A rename takes its own out of the
 * list. `bytesWritten` is Node's.
 */
export const STILL_THERE = [
  'beat lease_before_beat',
  'held held_back held_by held_until',
  'bytesWritten written',
];

/**
 * Each exception is still an identifier somewhere.
 * @param exceptions lines of identifiers
 */
export function exceptionsAreNeeded(
  exceptions: readonly string[],
  files: readonly SourceFile[],
): string[] {
  const used = new Set(files.flatMap(({ text }) => identifiersOf(text)));
  return namesIn(exceptions)
    .filter((name) => !used.has(name))
    .map((name) => `No code has ${name} any more: take it out of STILL_THERE.`);
}

/** @param exceptions lines of identifiers that keep such a word for now */
export const identifiersHaveOurWords =
  (exceptions: readonly string[]): Rule =>
  (files) => {
    const refused = refusedWords(files);
    const kept = new Set(namesIn(exceptions));
    return files
      .filter(({ path }) => path.endsWith('.ts'))
      .flatMap((file) =>
        [...new Set(identifiersOf(file.text))]
          .filter((name) => !kept.has(name))
          .flatMap((name) => wordsOf(name).filter((word) => refused.has(word)))
          .map((word) => `${file.path} has an identifier with "${word}"; see ${GLOSSARY}.`),
      );
  };

/** Words of the glossary's column "Not" that a title needs in no other sense, and pronouns in place of a noun. */
const NOT_IN_TITLES = new RegExp(
  '\\b(?:told|hears?|heard|put off|errands?|hooks?|dice|brakes?|untold|whoever|whatever|nothing done)\\b',
  'i',
);

/** A title of a test says who does what, in our words. Values in `${}` are left out. */
export const titlesHaveOurWords: Rule = (files) =>
  files.flatMap(({ path, text }) =>
    titlesOf(text).flatMap((title) => {
      const [word] = NOT_IN_TITLES.exec(title.replaceAll(/\$\{[^}]*\}/g, '')) ?? [];
      return word === undefined
        ? []
        : [`${path} has a title with "${word.toLowerCase()}": ${title}.`];
    }),
  );

/** The quotes are written as codes, so that `identifiersOf` can read this file. */
const titlesOf = (text: string): string[] =>
  [...text.matchAll(/^ *(?:test|it|describe)\(\s*([\x22\x27\x60])((?:\\.|(?!\1)[^\\])*)\1/gms)].map(
    ([, , title = '']) => title,
  );

const namesIn = (lines: readonly string[]): string[] => lines.join(' ').split(' ');

/** The words in code type in the last column of the glossary's tables. */
function refusedWords(files: readonly SourceFile[]): Set<string> {
  const text = files.find(({ path }) => path === GLOSSARY)?.text ?? '';
  const cells = [...text.matchAll(/^\|.*\|([^|\n]*)\|$/gm)].map(([, cell = '']) => cell);
  return new Set(cells.flatMap((cell) => [...cell.matchAll(/`(\w+)`/g)].map(([, word]) => word!)));
}

/** `HELD_MAX_MS` and `heldMaxMs` alike as `held`, `max`, `ms`. */
function wordsOf(identifier: string): string[] {
  const spaced = identifier.replaceAll(/([a-z\d])([A-Z])/g, '$1_$2');
  return spaced
    .replaceAll(/([A-Z])([A-Z][a-z])/g, '$1_$2')
    .toLowerCase()
    .split(/[_$]+/);
}

/** Without those in comments and strings, but with those in the `${}` of templates. */
function identifiersOf(text: string): string[] {
  const tokens =
    /\/\*[\s\S]*?\*\/|\/\/.*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|\$\{|[A-Za-z_$][\w$]*|`|[{}]|\\./g;
  const found: string[] = [];
  /** Each open template or brace: whether it is text, which has no identifiers. */
  const open: ('text' | 'code')[] = [];
  for (let match = tokens.exec(text); match !== null; match = tokens.exec(text)) {
    const [token] = match;
    if (open.at(-1) === 'text') {
      // Quotes mean nothing in the text of a template: go on after the first character.
      if (token === '`') open.pop();
      else if (token === '${') open.push('code');
      else if (!token.startsWith('\\')) tokens.lastIndex = match.index + 1;
    } else if (token === '`') open.push('text');
    else if (token === '{') open.push('code');
    else if (token === '}') open.pop();
    else if (/^[A-Za-z_$]/.test(token)) found.push(token);
  }
  return found;
}
