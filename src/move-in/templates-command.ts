/**
 * `letterhaus templates import`: a template in Handlebars or of Resend, translated to Liquid
 * (move-in/template-translation.ts) and stored as a draft. Nothing is stored if a part of it has no translation,
 * unless --partial is given.
 */
import { basename } from 'node:path';
import { type Command, Option } from 'commander';
import { isRefusal } from '../core/refusals.ts';
import type { TemplateVariable } from '../templates/template-store.ts';
import { presentTemplate } from '../templates/view.ts';
import { TemplateService } from '../templates/templates.ts';
import { type Syntax, SYNTAXES } from './translate.ts';
import {
  declarationsOf,
  type ForeignTemplate,
  presentTranslation,
  readForeign,
  translateTemplate,
  type Translation,
} from './template-translation.ts';
import {
  type Cli,
  failure,
  isFailure,
  type Outcome,
  parseName,
  readContent,
  usageFailure,
} from '../cli/command.ts';
import { printable } from '../cli/table.ts';
import { chooseScope, type ScopeOptions, withStore } from '../cli/store.ts';
import { addDeclaration } from '../templates/command-variables.ts';

export const IMPORT_EXAMPLES: readonly [string, ...string[]] = [
  "templates import welcome.hbs --syntax handlebars --subject 'Welcome, {{name}}'",
  'templates import template.json --syntax resend --dry-run',
];

export function describeImport(command: Command): Command {
  return command
    .argument('<file>', 'HTML, text (.txt), or the JSON of another API; - is standard input')
    .addOption(
      new Option('--syntax <syntax>', 'the language that it is written in')
        .choices(SYNTAXES)
        .makeOptionMandatory(),
    )
    .option('--name <name>', 'name for people; default: that of the file', parseName)
    .option('--alias <alias>', 'name for programs, in place of the id')
    .option('--subject <subject>', 'in the same language')
    .option('--text-file <file>', 'content as plain text, in the same language')
    .option(
      '--variable <name:type=default>',
      'declare a variable in another way than its use suggests; once for each',
      addDeclaration,
    )
    .option('--partial', 'store it without what has no translation')
    .option('--dry-run', 'print the translation and store nothing');
}

type ImportOptions = ScopeOptions & {
  syntax: Syntax;
  name?: string;
  alias?: string;
  subject?: string;
  textFile?: string;
  variable?: TemplateVariable[];
  partial?: boolean;
  dryRun?: boolean;
};

export async function importTemplate(
  cli: Cli,
  options: ImportOptions,
  [file]: [string],
): Promise<Outcome> {
  const source = await sourceOf(file, options);
  if (typeof source === 'string') return usageFailure(source);
  const { syntax, variable = [], partial = false, dryRun = false } = options;
  const translation = await translateTemplate(source, syntax);
  const declared = [...variable, ...source.variables];
  translation.variables = declarationsOf(translation.variables, declared);
  if (dryRun) return shownTranslation(translation);
  if (translation.problems.length > 0 && !partial) {
    const { data, text } = report(translation);
    const count = translation.problems.length;
    const what = count === 1 ? '1 place has' : `${count} places have`;
    const next = `Nothing is stored: ${what} no translation. --partial stores it without them.`;
    return { data: { ...data, template: null }, text: `${text}\n${next}`, exitCode: 1 };
  }
  const { name, alias } = source;
  if (source.subject === null) {
    return usageFailure('The file has no subject; give it with --subject.');
  }
  return withStore(cli, async ({ db }) => {
    const scope = await chooseScope(db, options);
    if (isFailure(scope)) return scope;
    const made = await new TemplateService({ db }).create(scope, {
      name: name ?? basename(file).slice(0, 100),
      alias,
      subject: translation.subject ?? '',
      html: translation.html,
      text: translation.text,
      variables: translation.variables,
    });
    if (isRefusal(made)) return failure(made);
    const { data, text } = report(translation);
    const called = alias ?? made.head.id;
    return {
      data: { ...data, template: presentTemplate(made, scope) },
      text: `${text}\nStored as a draft. Then:  ${cli.program} templates preview ${called}, and publish ${called}`,
    };
  });
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

function report(translation: Translation) {
  const { problems, translated, variables } = translation;
  const notes = problems.map(({ field, line, message }) => `${field}, line ${line}: ${message}`);
  const declared = variables.map(({ name, type, default: fallback }) =>
    fallback === undefined ? `${name}: ${type}` : `${name}: ${type} = ${JSON.stringify(fallback)}`,
  );
  const counts = `${translated} tags translated, ${problems.length} not.`;
  const text = [...notes, counts, `Variables: ${declared.join(', ') || 'none'}`].map(printable);
  return { data: presentTranslation(translation), text: text.join('\n') };
}

function shownTranslation(translation: Translation): Outcome {
  const { data, text } = report(translation);
  const { subject, html, text: plain } = translation;
  const parts = [subject === null ? null : `Subject: ${subject}`, html, plain];
  const content = parts.filter((part) => part !== null).map((part) => lines(part));
  return {
    data,
    text: [...content, text].join('\n\n'),
    ...(translation.problems.length > 0 && { exitCode: 1 as const }),
  };
}

/** Contents are not trusted, but for their line breaks. */
function lines(text: string): string {
  return text.split('\n').map(printable).join('\n');
}
