/** `letterhaus emails case-file`: writes the signed case file of an email. */
import { writeFile } from 'node:fs/promises';
import type { Command } from 'commander';
import { type Api, apiCommand, type ApiOptions, explainNotFound } from '../../cli/api.ts';
import {
  type Cli,
  type CommandResult,
  EXAMPLE_ID,
  type ExitCode,
  usageFailure,
} from '../../cli/command.ts';

type Options = ApiOptions & { recipient?: string; out?: string };

export function describeCaseFile(emails: Command, cli: Cli): void {
  apiCommand(emails, cli, {
    name: 'case-file',
    about: 'write the signed case file of an email, for the support of a provider',
    examples: [
      `emails case-file ${EXAMPLE_ID} --out case.json`,
      `emails case-file ${EXAMPLE_ID} --recipient jo@example.org > case.json`,
    ],
    environment: 'of_id',
    run: (api, options: Options, [id]: [string]) =>
      explainNotFound(
        writeCaseFile(api, id, options),
        `There is no email ${id}, or it has no such recipient.`,
      ),
  })
    .argument('<id>')
    .option('--recipient <address>', 'only this recipient; the file names no other one')
    .option('--out <file>', 'write the file here instead of to standard output');
}

async function writeCaseFile(
  api: Api,
  id: string,
  { recipient, out }: Options,
): Promise<CommandResult | ExitCode> {
  const file = await api.byId.emails.caseFile(id, { recipient });
  const text = `${JSON.stringify(file, null, 2)}\n`;
  if (out === undefined) {
    api.cli.out(text);
    return 0;
  }
  try {
    await writeFile(out, text);
  } catch (error) {
    return usageFailure(`${out} cannot be written: ${(error as Error).message}.`);
  }
  const { fingerprint } = file.signer;
  return {
    data: { object: 'case_file_export', file: out, fingerprint },
    text: `${out} is written, signed with the key ${fingerprint}.`,
  };
}
