/**
 * `letterhaus templates import`: a template in Handlebars or of Resend, which the service translates to Liquid and
 * stores as a draft. Nothing is stored if a part of it has no translation, unless --partial is given.
 */
import { basename } from 'node:path';
import { type Command, Option } from 'commander';
import type { TranslatedTemplate } from '../../sdk/src/api.ts';
import { type Api, apiCommand, type ApiOptions } from '../cli/api.ts';
import {
  type Cli,
  type CommandResult,
  parseName,
  readContent,
  usageFailure,
} from '../cli/command.ts';
import { printable, printableLines } from '../cli/table.ts';
import { addDeclaration } from '../templates/commands/variable-options.ts';
import type { TemplateVariable } from '../templates/template-store.ts';
import { declarationsOf, type ForeignTemplate, readForeign } from './template-translation.ts';
import { type Syntax, SYNTAXES } from './translate.ts';

export function describeImport(templates: Command, cli: Cli): void {
  apiCommand(templates, cli, {
    name: 'import',
    about: 'translate a template of Handlebars or Resend',
    examples: [
      "templates import welcome.hbs --syntax handlebars --subject 'Welcome, {{name}}'",
      'templates import template.json --syntax resend --dry-run',
    ],
    environment: 'live',
    run: importTemplate,
  })
    .argument('<file>', 'HTML, text (.txt), or the JSON of another API; - is standard input')
    .addOption(
      new Option('--syntax <syntax>', 'the language that it is written in')
        .choices(SYNTAXES)
        .makeOptionMandatory(),
    )
    .option('--name <name>', 'display name (default: that of the file)', parseName)
    .option('--alias <alias>', 'name to use instead of the id')
    .option('--subject <subject>', 'subject, in the same language')
    .option('--text-file <file>', 'content as plain text, in the same language')
    .option(
      '--variable <name:type=default>',
      'declare a variable whose type or default cannot be inferred; repeatable',
      addDeclaration,
    )
    .option('--partial', 'store the template without the parts that have no translation')
    .option('--dry-run', 'print the translation and store nothing');
}

type ImportOptions = ApiOptions & {
  syntax: Syntax;
  name?: string;
  alias?: string;
  subject?: string;
  textFile?: string;
  variable?: TemplateVariable[];
  partial?: boolean;
  dryRun?: boolean;
};

async function importTemplate(
  api: Api,
  options: ImportOptions,
  [file]: [string],
): Promise<CommandResult> {
  const source = await sourceOf(file, options);
  if (typeof source === 'string') return usageFailure(source);
  const translation = await translate(api, options, source);
  if (options.dryRun) return outcomeOfDryRun(translation);
  if (translation.problems.length > 0 && !options.partial) {
    const { data, text } = report(translation);
    const count = translation.problems.length;
    const what = count === 1 ? '1 place has' : `${count} places have`;
    const next = `Nothing is stored: ${what} no translation. --partial stores it without them.`;
    return { data: { ...data, template: null }, text: `${text}\n${next}`, exitCode: 1 };
  }
  if (source.subject === null) {
    return usageFailure('The file has no subject; give it with --subject.');
  }
  return store(api, translation, { ...source, name: source.name ?? basename(file).slice(0, 100) });
}

/** The service translates and stores nothing; declared types take precedence over inferred ones. */
async function translate(
  { client }: Api,
  { syntax, variable = [] }: ImportOptions,
  source: ForeignTemplate,
): Promise<TranslatedTemplate> {
  const { subject, html, text } = source;
  const translation = await client.templates.translate({ syntax, subject, html, text });
  const needed = translation.variables as TemplateVariable[];
  return { ...translation, variables: declarationsOf(needed, [...variable, ...source.variables]) };
}

async function store(
  { client, cli }: Api,
  translation: TranslatedTemplate,
  { name, alias }: { name: string; alias: string | null },
): Promise<CommandResult> {
  const { subject, html, text: plain, variables } = translation;
  const created = await client.templates.create({
    name,
    alias,
    subject: subject ?? '',
    html,
    text: plain,
    variables,
  });
  const { data, text } = report(translation);
  const nameOrId = alias ?? created.id;
  return {
    data: { ...data, template: created },
    text: `${text}\nStored as a draft. Then:  ${cli.program} templates preview ${nameOrId}, and publish ${nameOrId}`,
  };
}

/** @returns a sentence when a file cannot be read */
async function sourceOf(file: string, options: ImportOptions): Promise<ForeignTemplate | string> {
  const { name = null, alias = null, subject = null, textFile } = options;
  try {
    const content = (await readContent(file)) ?? '';
    const text = (await readContent(textFile)) ?? null;
    if (content.includes('\0') || content.includes('\ufffd'))
      return `${file} is not text in UTF-8.`;
    const plain = file.endsWith('.txt')
      ? { html: null, text: content }
      : { html: content, text: null };
    const found = readForeign(content) ?? {
      ...plain,
      name: null,
      alias: null,
      subject: null,
      variables: [],
    };
    return {
      ...found,
      name: name ?? found.name,
      alias: alias ?? found.alias,
      subject: subject ?? found.subject,
      text: text ?? found.text,
    };
  } catch (error) {
    return `The content cannot be read: ${(error as Error).message}.`;
  }
}

function report(translation: TranslatedTemplate) {
  const { problems, translated, variables } = translation;
  const notes = problems.map(({ field, line, message }) => `${field}, line ${line}: ${message}`);
  const declared = variables.map(({ name, type, default: fallback }) =>
    fallback === undefined ? `${name}: ${type}` : `${name}: ${type} = ${JSON.stringify(fallback)}`,
  );
  const counts = `${translated} tags translated, ${problems.length} not.`;
  const text = [...notes, counts, `Variables: ${declared.join(', ') || 'none'}`].map(printable);
  return { data: translation, text: text.join('\n') };
}

function outcomeOfDryRun(translation: TranslatedTemplate): CommandResult {
  const { data, text } = report(translation);
  const { subject, html, text: plain } = translation;
  const parts = [subject === null ? null : `Subject: ${subject}`, html, plain];
  const content = parts.filter((part) => part !== null).map(printableLines);
  return {
    data,
    text: [...content, text].join('\n\n'),
    ...(translation.problems.length > 0 && { exitCode: 1 as const }),
  };
}
