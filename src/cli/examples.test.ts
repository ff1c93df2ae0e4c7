/** Every command has examples in `--help`, and each is a command line that works as it stands. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Command } from 'commander';
import { shellWords } from '../../test/support/shell-words.ts';
import { systemWorld } from '../service/machine/system-world.ts';
import { type Cli, examplesOf } from './command.ts';
import { createProgram } from './program.ts';

let printed = '';
const keep = (text: string) => void (printed += text);
const cli: Cli = { env: {}, world: systemWorld, program: 'letterhaus', out: keep, err: keep };

function* commandsBelow(command: Command, words: readonly string[] = []): Generator<Found> {
  yield { command, words };
  for (const part of command.commands) yield* commandsBelow(part, [...words, part.name()]);
}
type Found = { command: Command; words: readonly string[] };

const load = () => createProgram(cli, { json: false, isLoaded: () => true });

/** @returns the command that the words select, without running it; a commander error is thrown */
async function parsed(line: string): Promise<Command | null> {
  const program = await load();
  let ran: Command | null = null;
  for (const { command } of commandsBelow(program)) {
    // `bench` passes its words to the benchmark, which has a parser of its own.
    if (examplesOf(command).length > 0) command.action(() => void (ran = command));
  }
  await program.parseAsync(shellWords(line), { from: 'user' });
  return ran;
}

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
      const ran = await parsed(example);
      assert.notEqual(ran, null);
      const isLeaf = command.commands.length === 0;
      if (isLeaf) assert.equal(ran!.name(), words.at(-1));
    });
  }
}

test('an example with an unknown option, a wrong value or a missing one would not be accepted', async () => {
  for (const line of [
    'keys create --mode live --colour red',
    'keys create --mode prod',
    'keys create',
    'keys revoke',
    'keys revoke one two',
    'keys reveal one',
  ]) {
    await assert.rejects(parsed(line), { name: 'CommanderError' }, line);
  }
});
