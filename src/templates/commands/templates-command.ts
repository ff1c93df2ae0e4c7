/**
 * `letterhaus templates`: a client of the API. Contents come from options or files, variables from options or a
 * JSON file (variable-options.ts). `import` is in move-in/templates-command.ts.
 */
import { type Command, InvalidArgumentError } from 'commander';
import type { Template, TemplateSummary } from '../../../sdk/src/api.ts';
import { listInAll, type Api, apiCommand, type ApiOptions, listData } from '../../cli/api.ts';
import {
  type Cli,
  type CommandResult,
  parseName,
  readContent,
  usageFailure,
} from '../../cli/command.ts';
import { PAGE_MAX } from '../../cli/lists.ts';
import { facts, printableLines, printable, shortTime, table } from '../../cli/table.ts';
import { describeImport } from '../../move-in/templates-command.ts';
import { addDeclaration, addValue, readValues, type Values } from './variable-options.ts';
import type { TemplateVariable } from '../template-store.ts';

const EXAMPLES = {
  show: ['templates show receipt --version 2'],
  create: [
    "templates create --name Receipt --alias receipt --subject 'Your receipt, {{ name }}' --html-file receipt.html --variable name --variable items:list=[]",
  ],
  update: ['templates update receipt --html-file receipt.html'],
  publish: ['templates publish receipt'],
  remove: ['templates remove receipt'],
  preview: [`templates preview receipt --variable name=Jo --variable 'items:=[{"name": "Tea"}]'`],
} as const;

export function describeTemplates(templates: Command, cli: Cli): void {
  const command = (name: keyof typeof EXAMPLES, about: string, run: Run): Command =>
    apiCommand(templates, cli, { name, about, examples: EXAMPLES[name], environment: 'live', run });
  apiCommand(templates, cli, {
    name: 'list',
    about: 'list templates',
    examples: ['templates list --environment live'],
    environment: 'both',
    run: list,
  });
  describeVersion(command('show', 'show a template with its content', show));
  describeContent(command('create', 'create a template, as a draft', create), '');
  describeImport(templates, cli);
  describeContent(command('update', 'change a template, as a draft', update), ' another').argument(
    '<id>',
    'or its alias',
  );
  describeVersion(command('publish', 'use this version for emails from now on', publish));
  describeVersion(command('preview', 'render a template as in an email', preview))
    .option('--variable <name=value>', 'text, or JSON as name:=json; repeatable', addValue)
    .option('--variables-file <file>', 'a JSON object with variables');
  command('remove', 'delete a template with its versions', remove).argument('<id>', 'or its alias');
}

function describeVersion(command: Command): Command {
  return command
    .argument('<id>', 'or its alias')
    .option('--version <number>', 'version (default: the latest)', parseVersion);
}

function describeContent(command: Command, another: string): Command {
  return command
    .option('--name <name>', `${another} display name`.trim(), parseName)
    .option('--alias <alias>', `${another} name to use instead of the id`.trim())
    .option('--subject <liquid>', 'subject (default: each email gives its own)')
    .option('--html <liquid>', 'content as HTML')
    .option('--html-file <file>', 'HTML content from a file; - is standard input')
    .option('--text <liquid>', 'content as plain text')
    .option('--text-file <file>', 'plain text content from a file; - is standard input')
    .option(
      '--variable <name:type=default>',
      'declare a variable, type and default optional; repeat for every variable of the template',
      addDeclaration,
    );
}

/** Each with its own options, which commander has parsed. */
type Run = (api: Api, options: never, args: never) => Promise<CommandResult>;

type ContentOptions = ApiOptions & {
  name?: string;
  alias?: string;
  subject?: string;
  html?: string;
  htmlFile?: string;
  text?: string;
  textFile?: string;
  variable?: TemplateVariable[];
};

type ChosenVersion = ApiOptions & { version?: number };

async function list(api: Api): Promise<CommandResult> {
  const found = await listInAll(await api.all(), ({ templates }) =>
    templates.list({ limit: PAGE_MAX }),
  );
  return {
    data: listData(found),
    text: table(api.cli, {
      columns: [
        'ID',
        { heading: 'ALIAS', cut: 2 },
        { heading: 'NAME', cut: 1 },
        'ENVIRONMENT',
        'PUBLISHED',
        'CHANGED',
      ],
      rows: found.map((template) => [
        template.id,
        template.alias ?? '-',
        template.name,
        template.environment,
        publishedVersion(template),
        shortTime(template.updated_at),
      ]),
      none: {
        says: 'There is no template yet.',
        toDo: 'To create one',
        command:
          "templates create --name Welcome --alias welcome --subject 'Welcome, {{ name }}' --text 'Hi {{ name }}!' --variable name",
      },
    }),
  };
}

type Versions = Pick<TemplateSummary, 'published_version' | 'latest_version'>;

function publishedVersion({
  published_version: version,
  latest_version: latest,
}: Versions): string {
  if (version === null) return 'no';
  return version === latest ? `version ${version}` : `version ${version} of ${latest}`;
}

async function show(
  { client: { templates } }: Api,
  { version }: ChosenVersion,
  [id]: [string],
): Promise<CommandResult> {
  return describeTemplate(
    await (version === undefined ? templates.get(id) : templates.getVersion(id, version)),
  );
}

function describeTemplate(template: Template, note?: string): CommandResult {
  const variables = template.variables.map(({ name, type, default: fallback }) => {
    const value = fallback === undefined ? '' : ` = ${JSON.stringify(fallback)}`;
    return `${name}: ${type}${value}`;
  });
  const text = facts([
    ['id', template.id],
    ['alias', template.alias],
    ['name', template.name],
    ['environment', template.environment],
    ['published', publishedVersion(template)],
    ['version', String(template.version)],
    ['variables', variables.join(', ') || '-'],
    ['subject', template.subject],
  ]);
  const parts = [note, text, template.html, template.text].filter((part) => part != null);
  return { data: template, text: parts.map(printableLines).join('\n\n') };
}

async function create(api: Api, options: ContentOptions): Promise<CommandResult> {
  const { name, alias, subject, variable: variables } = options;
  if (name === undefined) {
    return usageFailure('A template needs --name, and --html, --text or a file.');
  }
  const files = await readContents(options);
  if (typeof files === 'string') return usageFailure(files);
  const created = await api.client.templates.create({ name, alias, subject, variables, ...files });
  return describeTemplate(
    created,
    `It is a draft; letterhaus templates publish ${alias ?? created.id}`,
  );
}

async function update(api: Api, options: ContentOptions, [id]: [string]): Promise<CommandResult> {
  const files = await readContents(options);
  if (typeof files === 'string') return usageFailure(files);
  const { name, alias, subject, variable: variables } = options;
  const change = { name, alias, subject, variables, ...files };
  return describeTemplate(await api.client.templates.update(id, change));
}

/** @returns a sentence when a file cannot be read */
async function readContents(
  options: ContentOptions,
): Promise<{ html?: string | undefined; text?: string | undefined } | string> {
  try {
    return {
      html: options.html ?? (await readContent(options.htmlFile)),
      text: options.text ?? (await readContent(options.textFile)),
    };
  } catch (error) {
    return `The content cannot be read: ${(error as Error).message}.`;
  }
}

async function publish(
  api: Api,
  { version }: ChosenVersion,
  [id]: [string],
): Promise<CommandResult> {
  const published = await api.client.templates.publish(id, { version });
  const text = `Emails are made of version ${published.version} of ${published.name} from now on.`;
  return { data: published, text: printable(text) };
}

type PreviewOptions = ChosenVersion & { variable?: Values; variablesFile?: string };

async function preview(api: Api, options: PreviewOptions, [id]: [string]): Promise<CommandResult> {
  const variables = await readValues(options);
  if (typeof variables === 'string') return usageFailure(variables);
  const { version } = options;
  const rendered = await api.client.templates.preview(id, { variables, version });
  const { subject, html, text } = rendered;
  const parts = [`Subject: ${subject}`, html, text].filter((part) => part !== null);
  return { data: rendered, text: parts.map(printableLines).join('\n\n') };
}

async function remove(api: Api, _options: ApiOptions, [id]: [string]): Promise<CommandResult> {
  const deleted = await api.client.templates.delete(id);
  return { data: deleted, text: `The template ${deleted.id} is deleted with its versions.` };
}

function parseVersion(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('A version is a number from 1 on.');
}
