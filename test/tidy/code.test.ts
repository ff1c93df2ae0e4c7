/** Rules for what files of code contain. rooms.test.ts has the layers and rooms, comments.test.ts the comments. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as code from './code.ts';
import { holds } from './holds.ts';
import { CODE, DASHBOARD, readFiles, SOURCE } from './source.ts';

const EVERYTHING = readFiles([
  '*.{json,md}',
  '.npmrc',
  '.ci/*',
  'bin/*',
  'web/index.html',
  '{bench,deploy,docs,migrations,runtime,scripts,sdk,src,test,web/handbook,web/src,web/public}/**/*.*',
]).filter(({ path }) => !/node_modules|\.(png|pem)$/.test(path));

/** Long files that are one thing, with the reason. */
const LONG_FILES: Record<string, string> = {};

test('the files are found', () => {
  assert.ok(SOURCE.length > 20);
  assert.ok(CODE.length > SOURCE.length + 10);
});

holds(
  'only the outermost files read clock, randomness and environment',
  SOURCE,
  code.theOutsideWorldIsAnArgument,
  [
    ['src/core/a.ts', `const now = Date.now();`, 'reads Date.now; take a World or the value.'],
    ['src/core/b.ts', `// Date.now()\n/** Math.random() */\ncall(); // Date.now()`],
    ['src/store/a.ts', `new Date();`, 'reads new Date(); take a World or the value.'],
    ['src/store/b.ts', `const at = new Date(time);`],
    [
      'src/http/a.ts',
      `const url = 'http://x' + process.env['HOST'];`,
      'reads process.env; take a World or the value.',
    ],
    ['src/net/a.ts', `performance.now();`, 'reads performance.now; take a World or the value.'],
    ['src/net/b.ts', `Math.random();`, 'reads Math.random; take a World or the value.'],
    ['src/net/b.test.ts', `const now = Date.now();`],
    ['src/cli/a.ts', `const home = process.env['HOME'];`],
    ['src/service/worker/server.ts', `const now = Date.now();`],
  ],
);

const former = ['Post', 'horn'].join('');
holds('the former name is nowhere', EVERYTHING, code.theFormerNameIsNowhere, [
  ['src/core/a.ts', 'const letterhaus = 1;'],
  ['src/core/b.ts', `ok;\nconst ${former} = 1;`, 'has the former name in line 2.'],
  [`bin/${former}`, '', 'has the former name.'],
]);

holds('every export has a name', CODE, code.nothingIsExportedAsDefault, [
  ['src/core/a.ts', `export default a;`, 'has a default export; name it.'],
  ['src/core/b.ts', `export { a as default };`, 'has a default export; name it.'],
  ['src/core/c.ts', `import { default as a } from 'a';`],
]);

holds('there are no barrels', CODE, code.nothingIsExportedTwice, [
  ['src/core/index.ts', `export const a = 1;`, 'is a barrel; import from the files themselves.'],
  ['src/core/a.ts', `export * from './a.ts';`, 'passes on what lives elsewhere.'],
  ['src/core/b.ts', `export {\n  a,\n} from './a.ts';`, 'passes on what lives elsewhere.'],
  ['src/core/c.ts', `export type * from './a.ts';`, 'passes on what lives elsewhere.'],
  ['src/core/e.ts', `export type { A } from './a.ts';`],
  ['src/core/d.ts', `export const sql = \`select 1\n from 'x'\`;\nexport function f() {}`],
]);

holds('fields of the log have one spelling', SOURCE, code.logFieldsAreSnakeCase, [
  [
    'src/core/a.ts',
    `log.warn({ err: error, emailId }, 'x');`,
    'logs emailId; fields of the log are in snake_case.',
  ],
  [
    'src/core/b.ts',
    `this.#options.log.info(\n  { ...facts, domainId: id },\n  'x',\n);`,
    'logs domainId; fields of the log are in snake_case.',
  ],
  ['src/core/c.ts', `log.info({ email_id: emailId, ...ofAll, freed }, 'x');`],
]);

holds('a clone works in a folder with spaces', CODE, code.pathsSurviveSpaces, [
  [
    'src/store/a.ts',
    `const FOLDER = new URL('../x/', import.meta.url)\n.pathname;`,
    "takes a path from a URL's pathname; use fileURLToPath.",
  ],
  ['src/net/a.ts', `const path = new URL(location).pathname;`],
]);

holds('no file is too long to be read at once', CODE, code.filesStayShort(LONG_FILES), [
  ['src/core/a.ts', 'a;\n'.repeat(501), 'has 501 lines (500 at most): split it by purpose.'],
  ['src/core/b.ts', 'a;\n'.repeat(500)],
]);

const excused = { 'a.ts': 'one table', 'b.ts': 'one table' };
holds('an exception that is not needed has to go', [], code.filesStayShort(excused), [
  ['a.ts', 'a;\n'.repeat(501)],
  ['b.ts', 'a;\n', 'needs no exception any more.'],
]);

holds('no two files import each other', [...SOURCE, ...DASHBOARD], code.importsHaveNoCycles, [
  [
    'src/core/a.ts',
    `import { b } from './b.ts';`,
    'is in a cycle: src/core/a.ts → src/core/b.ts → src/core/c.ts → src/core/a.ts.',
  ],
  ['src/core/b.ts', `import { c } from './c.ts';`],
  ['src/core/c.ts', `import { a } from './a.ts';\nimport { d } from './d.ts';`],
  [
    'src/core/t.ts',
    `import type { T } from './u.ts';`,
    'is in a cycle: src/core/t.ts → src/core/u.ts → src/core/t.ts.',
  ],
  ['src/core/u.ts', `import type { U } from './t.ts';`],
]);
