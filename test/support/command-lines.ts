/** Parses command lines of `letterhaus` without running them, for the examples of `--help` and of documents. */
import type { Command } from 'commander';
import { type Cli, examplesOf } from '../../src/cli/command.ts';
import { createProgram } from '../../src/cli/program.ts';
import { systemWorld } from '../../src/service/machine/system-world.ts';
import { shellWords } from './shell-words.ts';

export type FoundCommand = { command: Command; words: readonly string[] };

/** @param keep gets all that the program prints */
export function loadProgram(keep: (text: string) => void = () => {}): Promise<Command> {
  const cli: Cli = { env: {}, world: systemWorld, program: 'letterhaus', out: keep, err: keep };
  return createProgram(cli, { json: false, isLoaded: () => true });
}

export function* commandsBelow(
  command: Command,
  words: readonly string[] = [],
): Generator<FoundCommand> {
  yield { command, words };
  for (const part of command.commands) yield* commandsBelow(part, [...words, part.name()]);
}

/**
 * @param line without the name of the program
 * @returns the command that the words select; a commander error is thrown
 */
export async function parseCommandLine(line: string): Promise<Command | null> {
  const program = await loadProgram();
  let ran: Command | null = null;
  for (const { command } of commandsBelow(program)) {
    // `bench` passes its words to the benchmark, which has a parser of its own.
    if (examplesOf(command).length > 0) command.action(() => void (ran = command));
  }
  await program.parseAsync(shellWords(line), { from: 'user' });
  return ran;
}
