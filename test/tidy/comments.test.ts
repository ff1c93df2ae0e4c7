/** Comments are sentences that fit the page, and name files and parameters that exist. */
import {
  commentsAreSentences,
  commentsFitThePage,
  commentsNameFilesThatExist,
  commentsNameParametersThatExist,
} from './comments.ts';
import { holds } from './holds.ts';
import { CODE, readFiles } from './source.ts';

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

holds('a parameter that a comment describes is there', CODE, commentsNameParametersThatExist, [
  [
    'src/core/a.ts',
    '/**\n * @param a the first\n * @param b.c,b.d of it\n */\nfunction f(a: A, b: { c: C; d: D }): void {',
  ],
  [
    'src/core/b.ts',
    '/** @param a.b half */\nexport const f =\n  ({ b }: A) =>\n  (c: C) => b + c;',
  ],
  [
    'src/core/c.ts',
    '/** @param gone the old name */\nfunction f(a: A): B {\n  const gone = 1;\n}',
    'describes a parameter that is not there: gone.',
  ],
  [
    'src/core/d.ts',
    '/** @param options.gone a field */\nfunction f(options: { b: B }): C {',
    'describes a parameter that is not there: options.gone.',
  ],
]);
