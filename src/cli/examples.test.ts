/** Every command has examples in `--help`, and each is a command line that works as it stands. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { commandsBelow, loadProgram, parseCommandLine } from '../../test/support/command-lines.ts';
import { examplesOf } from './command.ts';

let printed = '';
const load = () => loadProgram((text) => void (printed += text));
const all = [...commandsBelow(await load())];

test('every command shows an example of itself in --help', () => {
  assert.ok(all.length > 60, String(all.length));
  for (const { command, words } of all) {
    const examples = examplesOf(command);
    assert.ok(examples.length > 0, `${words.join(' ')} has no example`);
    for (const example of examples) {
      assert.ok(`${example} `.startsWith(words.map((word) => `${word} `).join('')), example);
    }
  }
});

test('--help ends with the examples, with the name of the program', async () => {
  for (const { command, words } of all.filter((one) => one.words[0] !== 'bench')) {
    printed = '';
    await (await load()).parseAsync([...words, '--help'], { from: 'user' }).catch(() => {});
    const lines = examplesOf(command).map((example) => `  letterhaus ${example}\n`);
    assert.ok(
      printed.endsWith(`s:\n${lines.join('')}`) || printed.endsWith(`Example:\n${lines.join('')}`),
      `${words.join(' ')}\n${printed}`,
    );
  }
});

for (const { command, words } of all) {
  for (const example of examplesOf(command)) {
    test(`the example is accepted: letterhaus ${example}`, async () => {
      const ran = await parseCommandLine(example);
      assert.notEqual(ran, null);
      const isLeaf = command.commands.length === 0;
      if (isLeaf) assert.equal(ran!.name(), words.at(-1));
    });
  }
}

test('an example with an unknown option, a wrong value or a missing one would not be accepted', async () => {
  for (const line of [
    'keys create --environment live --colour red',
    'keys create --environment prod',
    'keys create',
    'keys revoke',
    'keys revoke one two',
    'keys reveal one',
  ]) {
    await assert.rejects(parseCommandLine(line), { name: 'CommanderError' }, line);
  }
});
