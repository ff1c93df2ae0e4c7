/**
 * `letterhaus templates`: templates in the database, by the code of the API. Contents come from options
 * or files, variables from options or a JSON file (command-variables.ts).
 */
import { type Command, InvalidArgumentError } from 'commander';
import { isRefusal, type Refusal } from '../core/refusals.ts';
import type { Scope } from '../core/scope.ts';
import type { Page } from '../database/page.ts';
import type { TemplateHead, TemplateVariable } from './template-store.ts';
import { presentRendered, presentTemplate, presentTemplateHead } from './view.ts';
import { TemplateService, type Template, type TemplateChange } from './templates.ts';
import {
  addCommand,
  type Cli,
  failure,
  isFailure,
  type Outcome,
  parseName,
  readContent,
  usageFailure,
} from '../cli/command.ts';
import { facts, printable, shortTime, table } from '../cli/table.ts';
import {
  chooseScope,
  chooseScopes,
  modeOption,
  projectOption,
  type ScopeOptions,
  type ScopesOptions,
  withStore,
} from '../cli/store.ts';
import { addDeclaration, addValue, allValues, type Values } from './command-variables.ts';
import { describeImport, IMPORT_EXAMPLES, importTemplate } from '../move-in/templates-command.ts';

/** More than a project can have. */
const PAGE: Page = { limit: 1_000, after: null, before: null };

const EXAMPLES = {
  list: ['templates list --mode live'],
  show: ['templates show receipt --version 2'],
  create: [
    "templates create --name Receipt --alias receipt --subject 'Your receipt, {{ name }}' --html-file receipt.html --variable name --variable items:list=[]",
  ],
  update: ['templates update receipt --html-file receipt.html'],
  publish: ['templates publish receipt'],
  import: IMPORT_EXAMPLES,
  remove: ['templates remove receipt'],
  preview: [`templates preview receipt --variable name=Jo --variable 'items:=[{"name": "Tea"}]'`],
} as const;

export function describeTemplates(templates: Command, cli: Cli): void {
  const command = (name: keyof typeof EXAMPLES, about: string, run: Run): Command =>
    addCommand(templates, cli, { name, about, examples: EXAMPLES[name], run }).addOption(
      projectOption(),
    );
  command('list', 'all templates', list).addOption(modeOption());
  command('show', 'one template with its content', show)
    .argument('<id>', 'or its alias')
    .option('--version <number>', 'another version than the latest', parseVersion)
    .addOption(modeOption().default('live'));
  describeContent(command('create', 'make a template, as a draft', create), '').addOption(
    modeOption().default('live'),
  );
  describeImport(
    command('import', 'translate one from Handlebars or Resend', importTemplate),
  ).addOption(modeOption().default('live'));
  describeContent(command('update', 'change a template, as a draft', update), ' another')
    .argument('<id>', 'or its alias')
    .addOption(modeOption().default('live'));
  command('publish', 'make emails of it from now on', publish)
    .argument('<id>', 'or its alias')
    .option('--version <number>', 'another version than the latest', parseVersion)
    .addOption(modeOption().default('live'));
  command('preview', 'render it as an email would have it', preview)
    .argument('<id>', 'or its alias')
    .option('--version <number>', 'another version than the latest', parseVersion)
    .option('--variable <name=value>', 'a text, or JSON as name:=json; once for each', addValue)
    .option('--variables-file <file>', 'a JSON object with variables')
    .addOption(modeOption().default('live'));
  command('remove', 'delete it with its versions', remove)
    .argument('<id>', 'or its alias')
    .addOption(modeOption().default('live'));
}

function describeContent(command: Command, another: string): Command {
  return command
    .option('--name <name>', `${another} name for people`.trim(), parseName)
    .option('--alias <alias>', `${another} name for programs, in place of the id`.trim())
    .option('--subject <liquid>', 'subject; without one, each email brings its own')
    .option('--html <liquid>', 'content as HTML')
    .option('--html-file <file>', 'the same from a file; - is standard input')
    .option('--text <liquid>', 'content as plain text')
    .option('--text-file <file>', 'the same from a file; - is standard input')
    .option(
      '--variable <name:type=default>',
      'a variable that it reads; all of them, once for each; type and default may be left out',
      addDeclaration,
    );
}

/** Each with its own options, which commander has parsed. */
type Run = (cli: Cli, options: never, args: never) => Promise<Outcome>;

type ContentOptions = ScopeOptions & {
  name?: string;
  alias?: string;
  subject?: string;
  html?: string;
  htmlFile?: string;
  text?: string;
  textFile?: string;
  variable?: TemplateVariable[];
};

type ChosenVersion = ScopeOptions & { version?: number };

type Work = (templates: TemplateService, scope: Scope) => Promise<Outcome | Refusal>;

/** Works on the templates of one environment of a project. */
function withTemplates(cli: Cli, options: ScopeOptions, work: Work): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const scope = await chooseScope(db, options);
    if (isFailure(scope)) return scope;
    const outcome = await work(new TemplateService({ db }), scope);
    return isRefusal(outcome) ? failure(outcome) : outcome;
  });
}

function list(cli: Cli, options: ScopesOptions): Promise<Outcome> {
  return withStore(cli, async ({ db }) => {
    const scopes = await chooseScopes(db, options);
    if (isFailure(scopes)) return scopes;
    const templates = new TemplateService({ db });
    const pages = await Promise.all(scopes.map((scope) => templates.list(scope, PAGE)));
    const found = pages.flatMap(({ rows }, index) =>
      rows.map((head) => ({ head, scope: scopes[index]! })),
    );
    return {
      data: {
        object: 'list',
        data: found.map(({ head, scope }) => presentTemplateHead(head, scope)),
        has_more: false,
      },
      text: table(cli, {
        columns: [
          'ID',
          { heading: 'ALIAS', cut: 2 },
          { heading: 'NAME', cut: 1 },
          'MODE',
          'PUBLISHED',
          'CHANGED',
        ],
        rows: found.map(({ head, scope }) => [
          head.id,
          head.alias ?? '-',
          head.name,
          scope.environment,
          publishedVersion(head),
          shortTime(head.updatedAt),
        ]),
        none: {
          says: 'There is no template yet.',
          toDo: 'To make one',
          command:
            "templates create --name Welcome --alias welcome --subject 'Welcome, {{ name }}' --text 'Hi {{ name }}!' --variable name",
        },
      }),
    };
  });
}

function publishedVersion({ publishedVersion: version, latestVersion }: TemplateHead): string {
  if (version === null) return 'no';
  return version === latestVersion
    ? `version ${version}`
    : `version ${version} of ${latestVersion}`;
}

function show(cli: Cli, options: ChosenVersion, [named]: [string]): Promise<Outcome> {
  return withTemplates(cli, options, async (templates, scope) => {
    const found = await templates.get(scope, named, options.version);
    return isRefusal(found) ? found : shown(found, scope);
  });
}

function shown(template: Template, scope: Scope, done?: string): Outcome {
  const { head, content } = template;
  const variables = content.variables.map(({ name, type, default: fallback }) => {
    const value = fallback === undefined ? '' : ` = ${JSON.stringify(fallback)}`;
    return `${name}: ${type}${value}`;
  });
  const text = facts([
    ['id', head.id],
    ['alias', head.alias],
    ['name', head.name],
    ['mode', scope.environment],
    ['published', publishedVersion(head)],
    ['version', String(content.version)],
    ['variables', variables.join(', ') || '-'],
    ['subject', content.subject],
  ]);
  const parts = [done, text, content.html, content.text].filter((part) => part != null);
  return { data: presentTemplate(template, scope), text: parts.map(lines).join('\n\n') };
}

function create(cli: Cli, options: ContentOptions): Promise<Outcome> {
  return withTemplates(cli, options, async (templates, scope) => {
    const { name, alias = null, subject = '', variable: variables = [] } = options;
    if (name === undefined) {
      return usageFailure('A template needs --name, and --html, --text or a file.');
    }
    const files = await filesOf(options);
    if (typeof files === 'string') return usageFailure(files);
    const { html = null, text = null } = files;
    const made = await templates.create(scope, { name, alias, subject, html, text, variables });
    if (isRefusal(made)) return made;
    return shown(
      made,
      scope,
      `It is a draft; letterhaus templates publish ${alias ?? made.head.id}`,
    );
  });
}

function update(cli: Cli, options: ContentOptions, [named]: [string]): Promise<Outcome> {
  return withTemplates(cli, options, async (templates, scope) => {
    const files = await filesOf(options);
    if (typeof files === 'string') return usageFailure(files);
    const { name, alias, subject, variable: variables } = options;
    const change: TemplateChange = { name, alias, subject, variables, ...files };
    const changed = await templates.update(scope, named, change);
    return isRefusal(changed) ? changed : shown(changed, scope);
  });
}

/** @returns a sentence when a file cannot be read */
async function filesOf(
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

function publish(cli: Cli, options: ChosenVersion, [named]: [string]): Promise<Outcome> {
  return withTemplates(cli, options, async (templates, scope) => {
    const found = await templates.publish(scope, named, options.version);
    if (isRefusal(found)) return found;
    const text = `Emails are made of version ${found.content.version} of ${found.head.name} from now on.`;
    return { data: presentTemplate(found, scope), text: printable(text) };
  });
}

type PreviewOptions = ChosenVersion & { variable?: Values; variablesFile?: string };

function preview(cli: Cli, options: PreviewOptions, [named]: [string]): Promise<Outcome> {
  return withTemplates(cli, options, async (templates, scope) => {
    const variables = await allValues(options);
    if (typeof variables === 'string') return usageFailure(variables);
    const { version } = options;
    const rendered = await templates.preview(scope, named, { variables, version });
    if (isRefusal(rendered)) return rendered;
    const { subject, html, text } = rendered;
    const parts = [`Subject: ${subject}`, html, text].filter((part) => part !== null);
    return { data: presentRendered(rendered), text: parts.map(lines).join('\n\n') };
  });
}

function remove(cli: Cli, options: ScopeOptions, [named]: [string]): Promise<Outcome> {
  return withTemplates(cli, options, async (templates, scope) => {
    const gone = await templates.delete(scope, named);
    if (isRefusal(gone)) return gone;
    const data = { object: 'template', id: gone.id, deleted: true };
    return { data, text: `The template ${gone.id} is deleted with its versions.` };
  });
}

/** Contents are not trusted, but for their line breaks. */
function lines(text: string): string {
  return text.split('\n').map(printable).join('\n');
}

function parseVersion(text: string): number {
  if (/^[1-9]\d{0,8}$/.test(text)) return Number(text);
  throw new InvalidArgumentError('A version is a number from 1 on.');
}
