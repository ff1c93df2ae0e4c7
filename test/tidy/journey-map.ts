/** The rules for ARCHITECTURE.md, which follows one email from file to file. */
import { basename } from 'node:path';
import type { Rule } from './rules.ts';
import type { SourceFile } from './source.ts';

const MAP = 'ARCHITECTURE.md';

export const mappedFilesExist: Rule = (files) => {
  const paths = new Set(files.map(({ path }) => path));
  const missing = namedIn(textOf(files)).filter((path) => !paths.has(path));
  return missing.map((path) => `${MAP} names ${path}, which is not there.`);
};

/** Of the files of each step, one says in its header which file of the next step goes on. */
export const theMapLeadsOn: Rule = (files) => {
  const headers = new Map(files.map((file) => [file.path, headerOf(file)]));
  const steps = [...textOf(files).matchAll(/^\| \d+ +\|([^|]*)\|/gm)].map(([, cell]) =>
    namedIn(cell),
  );
  const dead = steps.slice(1).filter((next, index) => {
    const said = steps[index]?.map((path) => headers.get(path)).join('\n') ?? '';
    return !next.some((path) => said.includes(basename(path)));
  });
  return dead.map(([next]) => `${MAP} leads to ${next}, but no header of the step before does.`);
};

function textOf(files: readonly SourceFile[]): string {
  return files.find(({ path }) => path === MAP)?.text ?? '';
}

/** `sending/draft.ts` and `src/main.ts` alike as paths in the tree. */
function namedIn(text = ''): string[] {
  const names = text.matchAll(/`((?:[\w-]+\/)+[\w.-]+\.ts)`/g);
  return [...names].map(([, name = '']) =>
    /^(src|test|bench)\//.test(name) ? name : `src/${name}`,
  );
}

function headerOf({ text }: SourceFile): string {
  return /^\/\*\*.*?\*\//s.exec(text)?.[0] ?? '';
}
