/**
 * The rules for all files of code. Each rule takes files and returns one sentence for each violation. code.test.ts
 * applies the rules to the repository and shows that each can fail.
 */
import { roleOf } from './rooms.ts';
import { codeOf, importsOf, isTest, type Rule } from './source.ts';

/** The clock, randomness and the environment come from outside: from a World, or as a value. */
const OUTSIDE_WORLD =
  /\bprocess\.(env|hrtime)\b|\bDate\.now\b|\bnew Date\(\)|\bMath\.random\b|\bperformance\.now\b/g;

export const theOutsideWorldIsAnArgument: Rule = (files) =>
  files
    .filter(
      (file) => !isTest(file) && !['command', 'config', 'service'].includes(roleOf(file.path)),
    )
    .flatMap((file) => {
      const found = codeOf(file).match(OUTSIDE_WORLD) ?? [];
      return found.map((name) => `${file.path} reads ${name}; take a World or the value.`);
    });

export const nothingIsExportedAsDefault: Rule = (files) =>
  files
    .filter((file) => /^export default\b|^export \{[^}]*\bas default\b/m.test(file.text))
    .map((file) => `${file.path} has a default export; name it.`);

/**
 * A second way to one thing hides where it lives, and makes cycles. Named types are excepted: a
 * module may pass on the ones that its own functions take.
 */
export const nothingIsExportedTwice: Rule = (files) =>
  files.flatMap((file) => {
    if (file.path.endsWith('/index.ts')) {
      return [`${file.path} is a barrel; import from the files themselves.`];
    }
    const passesOn = /^export\s(?:(?:type\s)?\*|\{[^}]*\})[^;'"]*\sfrom\s/m.test(file.text);
    return passesOn ? [`${file.path} passes on what lives elsewhere.`] : [];
  });

/** `log.warn({ …`, with what stands between the braces. */
const LOG_FACTS = /\blog\.(?:trace|debug|info|warn|error|fatal)\(\s*\{([^{}]*)\}/g;

/** One spelling of fields makes the log searchable. test/journey/log.test.ts checks fields that come from elsewhere. */
export const logFieldsAreSnakeCase: Rule = (files) =>
  files
    .filter((file) => !isTest(file))
    .flatMap((file) =>
      [...codeOf(file).matchAll(LOG_FACTS)].flatMap(([, facts = '']) =>
        facts
          .split(',')
          .map((fact) => /^\s*(\w*[a-z][A-Z]\w*)\s*(?::|$)/.exec(fact)?.[1])
          .filter((name) => name !== undefined)
          .map((name) => `${file.path} logs ${name}; fields of the log are in snake_case.`),
      ),
    );

/** A clone may lie in "My Projects": there a URL's pathname says `%20`. */
export const pathsSurviveSpaces: Rule = (files) =>
  files
    .filter((file) => /import\.meta\.url\)\s*\.pathname/.test(codeOf(file)))
    .map((file) => `${file.path} takes a path from a URL's pathname; use fileURLToPath.`);

const LINES_MAX = 500;

/** @param exceptions path → why it is one piece although it is long */
export const filesStayShort =
  (exceptions: Record<string, string>): Rule =>
  (files) =>
    files.flatMap((file) => {
      const lines = file.text.split('\n').length - 1;
      const excused = exceptions[file.path] !== undefined;
      if (lines > LINES_MAX && !excused) {
        return [`${file.path} has ${lines} lines (${LINES_MAX} at most): split it by purpose.`];
      }
      return excused && lines <= LINES_MAX ? [`${file.path} needs no exception any more.`] : [];
    });

/** A file in a cycle can be neither read nor tested first. Types count: they are read too. */
export const importsHaveNoCycles: Rule = (files) => {
  const imports = new Map(files.map((file) => [file.path, importsOf(file)]));
  const done = new Set<string>();
  const cycles: string[] = [];
  const visit = (path: string, way: string[]): void => {
    const start = way.indexOf(path);
    if (start >= 0) {
      cycles.push(`${path} is in a cycle: ${[...way.slice(start), path].join(' → ')}.`);
    }
    if (start >= 0 || done.has(path)) return;
    for (const target of imports.get(path) ?? []) visit(target, [...way, path]);
    done.add(path);
  };
  for (const file of files) visit(file.path, []);
  return cycles;
};

/** Another project of this field has the name that this one had first. */
const FORMER_NAME = new RegExp(['post', 'horn'].join(''), 'i');

export const theFormerNameIsNowhere: Rule = (files) =>
  files.flatMap(({ path, text }) => {
    const line = text.split('\n').findIndex((one) => FORMER_NAME.test(one));
    if (FORMER_NAME.test(path)) return [`${path} has the former name.`];
    return line < 0 ? [] : [`${path} has the former name in line ${line + 1}.`];
  });
