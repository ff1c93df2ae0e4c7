/**
 * Shell completion. `letterhaus completion bash` prints a short script for the shell, which calls
 * `letterhaus complete -- WORD...` at each Tab. So the candidates always match this version: commands, options, and the
 * values of options with a fixed set.
 */
import { Argument, type Command, type Option } from 'commander';
import { type Cli, type CommandResult, runnable } from './command.ts';

type Candidate = { word: string; about: string };

// Each script calls the program by the name on the command line, so `./bin/letterhaus` works as well. Without a
// candidate the shell completes file names, as for --html-file.
const SCRIPTS = {
  bash: `_letterhaus() {
  local IFS=$'\\n'
  COMPREPLY=($("\${COMP_WORDS[0]}" complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f 1))
}
complete -o default -F _letterhaus letterhaus`,
  zsh: `#compdef letterhaus
_letterhaus() {
  local -a found
  found=("\${(@f)$("\${words[1]}" complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "\${found[*]}" ]]; then compadd -- "\${(@)found%%$'\\t'*}"; else _files; fi
}
compdef _letterhaus letterhaus`,
  fish: `function __letterhaus_complete
  set -l words (commandline -opc)
  set -l found ($words[1] complete -- $words[2..-1] (commandline -ct) 2>/dev/null)
  if set -q found[1]; printf '%s\\n' $found; else; __fish_complete_path (commandline -ct); end
end
complete -c letterhaus -f -a '(__letterhaus_complete)'`,
} as const;

const NOTES = `To complete in every new shell:
  echo 'source <(letterhaus completion bash)' >> ~/.bashrc
  echo 'source <(letterhaus completion zsh)' >> ~/.zshrc`;
const EXAMPLES = [
  'completion bash',
  'completion fish > ~/.config/fish/completions/letterhaus.fish',
] as const;

export function describeCompletion(completion: Command, cli: Cli): void {
  const shell = new Argument('<shell>', 'the shell').choices(Object.keys(SCRIPTS));
  runnable(completion.addArgument(shell), cli, { examples: EXAMPLES, notes: NOTES, run: script });
}

function script(
  _cli: Cli,
  _options: object,
  [shell]: [keyof typeof SCRIPTS],
): Promise<CommandResult> {
  return Promise.resolve({ data: { shell, script: SCRIPTS[shell] }, text: SCRIPTS[shell] });
}

/**
 * @param words after the program's name up to the cursor; the last one, possibly empty, is incomplete
 * @returns one line per candidate: the word, a tab, its description
 */
export function complete(program: Command, words: readonly string[]): string {
  const beginning = words.at(-1) ?? '';
  const { command, option, argumentsBefore } = parseWords(program, words.slice(0, -1));
  return candidates(command, { option, argumentsBefore, beginning })
    .filter(({ word }) => word.startsWith(beginning))
    .map(({ word, about }) => `${word}\t${about}\n`)
    .join('');
}

/** Returns the command that the words select, and the option whose value is incomplete, if any. */
function parseWords(
  program: Command,
  words: readonly string[],
): { command: Command; option: Option | null; argumentsBefore: number } {
  let command = program;
  let option: Option | null = null;
  let argumentsBefore = 0;
  for (const word of words) {
    const found = command.options.find(({ short, long }) => word === short || word === long);
    const part = command.commands.find((one) => one.name() === word);
    if (option !== null && found === undefined) {
      if (!option.variadic) option = null;
    } else if (found !== undefined) {
      option = found.required || found.optional ? found : null;
    } else if (part !== undefined) {
      command = part;
      argumentsBefore = 0;
    } else {
      argumentsBefore += 1;
    }
  }
  return { command, option, argumentsBefore };
}

function candidates(
  command: Command,
  at: { option: Option | null; argumentsBefore: number; beginning: string },
): Candidate[] {
  if (at.option !== null && !at.beginning.startsWith('-')) return choices(at.option.argChoices);
  if (at.beginning.startsWith('-')) {
    return command
      .createHelp()
      .visibleOptions(command)
      .flatMap((option) =>
        option.long === undefined ? [] : [{ word: option.long, about: option.description }],
      );
  }
  const argument = command.registeredArguments[at.argumentsBefore];
  const parts = command.commands.map((one) => ({ word: one.name(), about: one.description() }));
  return [...parts, ...choices(argument?.argChoices)];
}

function choices(values: readonly string[] | undefined): Candidate[] {
  return (values ?? []).map((word) => ({ word, about: '' }));
}
