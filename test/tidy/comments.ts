/** Comments are sentences that say who does what, in lines that fit the page, about files that exist. */
import { dirname, posix } from 'node:path';
import type { Rule, SourceFile } from './source.ts';

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
