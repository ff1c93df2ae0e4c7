/** Comments are sentences that say who does what, in lines that fit the page, about files and parameters that exist. */
import { dirname, posix } from 'node:path';
import { codeOf, type Rule, type SourceFile } from './source.ts';

const LINE_CHARS_MAX = 120;

/** A fragment that leans on the name below it, or a clause in place of a noun. */
const FRAGMENT = /^(?:Of|Whose|What|That of|Those of|Whoever|Likewise|Because|Which) /;

export const commentsAreSentences: Rule = (files) =>
  files.flatMap((file) =>
    commentsOf(file)
      .filter(({ text }) => FRAGMENT.test(text) && !/\?|:$/.test(text))
      .map(({ text }) => `${file.path} has a comment that is no sentence: ${text.slice(0, 60)}`),
  );

export const commentsFitThePage: Rule = (files) =>
  files.flatMap(({ path, text }) =>
    text
      .split('\n')
      .map((line, index) => ({ line, number: index + 1 }))
      .filter(({ line }) => isComment(line) && line.length > LINE_CHARS_MAX)
      .map(({ number }) => `${path} has a comment that is too long in line ${number}.`),
  );

/** Relative to src/ or the repository, to the file's own folder or to one above it. */
export const commentsNameFilesThatExist =
  (paths: ReadonlySet<string>): Rule =>
  (files) =>
    files.flatMap((file) =>
      commentsOf(file).flatMap(({ text }) =>
        [...text.matchAll(/(?<![\w.'/*-])((?:[\w-]+\/)*[\w-]+(?:\.test)?\.tsx?)\b(?!-)/g)]
          .map(([, name = '']) => name)
          .filter((name) => !placesOf(file.path, name).some((place) => paths.has(place)))
          .map((name) => `${file.path} names ${name}, which is not there.`),
      ),
    );

function placesOf(from: string, name: string): string[] {
  const places = [name, `src/${name}`, `test/${name}`];
  for (let folder = dirname(from); folder !== '.'; folder = dirname(folder)) {
    places.push(posix.join(folder, name));
  }
  return places;
}

/**
 * Each name after `@param` is a parameter of the function below the comment, or a field of one, as in `options.port`.
 * Any identifier of the signature counts as a parameter, and any identifier of the file as a field. The compiler checks
 * the comments of JavaScript.
 */
export const commentsNameParametersThatExist: Rule = (files) =>
  files
    .filter(({ path }) => /\.tsx?$/.test(path))
    .flatMap((file) =>
      [
        ...file.text.matchAll(/\/\*\*((?:(?!\*\/)[\s\S])*@param (?:(?!\*\/)[\s\S])*)\*\/\n/g),
      ].flatMap(({ 0: whole, 1: comment = '', index }) => {
        const signature = signatureIn(file.text.slice(index + whole.length));
        return [...comment.matchAll(/@param (\S+)/g)]
          .flatMap(([, names = '']) => names.split(','))
          .filter((name) => !isParameter(name, { signature, file }))
          .map((name) => `${file.path} describes a parameter that is not there: ${name}.`);
      }),
    );

/** A parameter that is taken apart (`{ port }`) has no name of its own. */
function isParameter(
  name: string,
  { signature, file }: { signature: string; file: SourceFile },
): boolean {
  const [parameter = '', ...fields] = name.split('.');
  if (fields.length === 0) return wordsOf(signature).has(parameter);
  const isNamed = wordsOf(signature).has(parameter) || /[(,]\s*\{/.test(signature);
  const known = wordsOf(codeOf(file));
  return isNamed && fields.every((field) => known.has(field));
}

/** The text up to the body of the function, or to the end of the statement where it has no body in braces. */
function signatureIn(text: string): string {
  let depth = 0;
  let isClosed = false;
  for (const { 0: sign, index } of text.matchAll(/[(){;]/g)) {
    if (sign === '(') depth += 1;
    else if (sign === ')') {
      depth -= 1;
      isClosed ||= depth === 0;
    } else if (isClosed && depth === 0) return text.slice(0, index);
  }
  return text;
}

function wordsOf(text: string): Set<string> {
  return new Set(text.match(/[A-Za-z_$][\w$]*/g));
}

function isComment(line: string): boolean {
  return /^\s*(?:\/\*\*|\*|\/\/)/.test(line);
}

/** Block comments, and lines of `//` (SQL: `--`) that follow one another, each as one text. */
function commentsOf({ path, text }: SourceFile): { text: string }[] {
  const sqlLines = path.endsWith('.sql') ? text.matchAll(/(?:^--.*\n)+/gm) : [];
  const blocks = [...text.matchAll(/^\s*\/\*\*([\s\S]*?)\*\//gm)].map(([, body = '']) => body);
  const lines = [...text.matchAll(/(?:^[ \t]*\/\/.*\n)+/gm), ...sqlLines].map(([body]) => body);
  return [...blocks, ...lines].map((body) => ({
    text: body.replaceAll(/\s*\n\s*(?:\*|\/\/|--)?\s*|^\s*(?:\/\/|--)\s*/g, ' ').trim(),
  }));
}
