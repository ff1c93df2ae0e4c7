/** Files, tests, headings and lists of threats that documents name are there, and their lines fit the page. */
import {
  mappedFilesExist,
  neighboursInTheMapExist,
  theMapIsAStraightLine,
  theMapIsShort,
} from './architecture-map.ts';
import { holds } from './holds.ts';
import { linksLead, namedTestsExist, threatsAreListed } from './links.ts';
import { CODE, pathsOf, readFiles } from './source.ts';
import { proseFitsThePage, tablesFitThePage } from './tables.ts';

const NAMED = [
  `[plain one](../src/a.test.ts)`,
  `[it's in two (2) parts](../src/a.test.ts)`,
  `[it's in three (2) parts](../src/a.test.ts)`,
  `[gone](../src/a.test.ts)`,
  `[plain one](../../src/a.test.ts)`,
];
const NAMING = [`test('plain one', f);`, "test(`it's in ${n} (2) parts`, f);", `for (two) f`];
holds(
  'the tests that documents name are there',
  readFiles(['docs/**/*.md', '{src,test}/**/*.test.ts']),
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
    ['docs/e/f.md', NAMED[4]!],
    ['src/a.test.ts', NAMING.join('\n')],
  ],
);

const MAP = [...CODE, ...readFiles(['ARCHITECTURE.md'])];
const GUIDES = [
  ...MAP,
  ...readFiles([
    'CONTRIBUTING.md',
    '{README,SECURITY,bench/README,test/README}.md',
    'docs/**/*.md',
  ]),
];
holds('the files that the guides name are there', GUIDES, mappedFilesExist, [
  ['ARCHITECTURE.md', '`mail/a.ts`, `test/b.ts`', 'names test/b.ts, which is not there.'],
  ['CONTRIBUTING.md', '`src/core/b.ts`', 'names src/core/b.ts, which is not there.'],
  ['docs/decisions/a.md', '`mail/c.ts`', 'names src/mail/c.ts, which is not there.'],
  ['docs/security/a.md', '`src/mail/a.ts`, `mail/a.ts`', 'names mail/a.ts, which is not there.'],
  ['src/mail/a.ts', ''],
]);
holds("ARCHITECTURE.md names the files of one email's way", MAP, theMapIsShort, [
  [
    'ARCHITECTURE.md',
    `## The path of one email\n${Array.from({ length: 31 }, (_, step) => `${step}. \`core/a${step}.ts\``).join('\n')}`,
    'names 31 files on the path of one email (30 at most).',
  ],
]);

holds(
  'a file that a step names without its folder is beside the one before',
  MAP,
  neighboursInTheMapExist,
  [
    ['src/core/a.ts', ''],
    ['src/core/b.ts', ''],
    [
      'ARCHITECTURE.md',
      '## The path of one email\n1. `core/a.ts`, `b.ts`\n2. `core/b.ts`,\n   `c.ts`',
      'names c.ts beside files of core/, where it is not.',
    ],
  ],
);

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
    '## The path of one email\n1. `core/a.ts`,\n   `core/b.ts`\n2. `mail/c.ts`, `mail/d.ts`',
  ],
]);

const DOCUMENTS = readFiles(['*.md', 'docs/**/*.md', '{bench,test}/README.md']);
holds('a row of a table fits the page', DOCUMENTS, tablesFitThePage, [
  ['docs/a.md', `a\n\n${'| a '.repeat(31)}|`, 'has a table row that is too long in line 3.'],
  ['docs/b.md', `${'| a '.repeat(29)}|\n${'a '.repeat(99)}`],
]);

const PROSE = readFiles([
  '*.md',
  'docs/{,alarms/,decisions/,security/}*.md',
  '{src/**,test,web}/README.md',
]);
holds('a line of prose fits the page', PROSE, proseFitsThePage, [
  ['a.md', `a\n\n${'word '.repeat(25)}`, 'has a line of prose that is too long in line 3.'],
  ['b.md', `\`\`\`\n${'a '.repeat(99)}\n\`\`\`\n\n    ${'a '.repeat(99)}\n| ${'a '.repeat(99)}`],
  ['c.md', `- [${'a '.repeat(70)}](test/a.test.ts).\n\`{${'a, '.repeat(50)}}\`.`],
]);

const PATHS = pathsOf(['*', '{bench,deploy,docs,sdk,src,test,web}/**']);
const LINKED = [...DOCUMENTS, ...readFiles(['{bench,sdk,src,test,web}/**/README.md'])];
holds('links in documents lead to files and headings', LINKED, linksLead(PATHS), [
  [
    'docs/a.md',
    '# A `b`, c\n[b](../src/), [c](#a-b-c), [d](b/d.md#x_y), [e](https://e.test/#e), `[f](f)`',
  ],
  ['docs/b/c.md', '[a](../A.md)', 'links to ../A.md, which is not there.'],
  ['docs/b/d.md', '## X_y\n[a](../a.md#b)', 'links to ../a.md#b, which is not there.'],
]);

holds(
  'the list of threats is that of the pages',
  readFiles(['docs/security{,/*}.md']),
  threatsAreListed,
  [
    [
      'docs/security.md',
      '### [A](security/a.md)\n\n- **B**: c.\n- **D**: e.\n### [F](security/f.md)\n',
    ],
    ['docs/security/a.md', '# A\n## B\n', 'does not describe "D", which docs/security.md lists.'],
    ['docs/security/f.md', '# F\n## G\n', 'describes "G", which docs/security.md does not list.'],
  ],
);
