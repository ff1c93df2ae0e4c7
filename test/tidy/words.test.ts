/** Identifiers and titles of tests have the words of docs/glossary.md. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { holds } from './holds.ts';
import { CODE, readFiles } from './source.ts';
import * as words from './words.ts';

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
