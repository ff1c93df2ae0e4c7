/** Templates in requests and responses. liquid.ts decides which sources are valid. */
import { z } from 'zod';
import { ALIAS, VARIABLE_TYPES } from './template-store.ts';
import { SOURCE_MAX } from './liquid.ts';
import { SYNTAXES } from '../move-in/translate.ts';
import { VARIABLE_NAME, VARIABLES_MAX } from './variables.ts';
import {
  deleted,
  doc,
  entityTag,
  environment,
  idSchema,
  label,
  listOf,
  listQuery,
  optional,
  shown,
  time,
} from '../http/schemas.ts';

const SUBJECT_SOURCE_MAX = 2_000;

const name = label(100).meta({
  description: 'Display name of the template.',
  examples: ['Receipt'],
});

const alias = doc(
  z.string().regex(ALIAS, 'must be 1-64 of a-z, 0-9, _ and -, with a letter first'),
  'Name for use instead of the id, unique in its project and environment.',
  'receipt',
);

const named = {
  name: shown(
    z.string().regex(VARIABLE_NAME, 'must be 1-64 letters, digits and _, not a digit first'),
    'name',
  ),
  default: doc(
    z.unknown().optional(),
    'Value of the variable when a request omits it. A variable without a default is required.',
  ),
};
const type = z.enum(VARIABLE_TYPES).meta({ default: 'string' });
const variable = z.object({ ...named, type: type.optional() }).meta({ id: 'TemplateVariable' });
const variableDefinition = z
  .strictObject({ ...named, type: optional(type) })
  .meta({ id: 'TemplateVariableDefinition' });

const subject = label(SUBJECT_SOURCE_MAX, 0).meta({
  description: 'Subject: one line in Liquid. When it is empty, each email needs its own subject.',
  examples: ['Your receipt, {{ name }}'],
});

const source = (description: string, example: string | null) =>
  doc(z.string().max(SOURCE_MAX).nullable(), description, example);

const html = source(
  'HTML in Liquid. Values of variables are escaped. `html` or `text` is required.',
  '<p>Thank you, {{ name }}.</p>',
);
const text = source('Text in Liquid, or null to derive it from the html.', null);

const variables = doc(
  z.array(variableDefinition).max(VARIABLES_MAX),
  'All variables that the subject, html or text reads.',
);

export const templateQuery = listQuery({
  q: doc(
    label(100).optional(),
    'Returns only templates with this text in the name or alias, in any case.',
    'receipt',
  ),
});

export const templateCreation = z
  .strictObject({
    name,
    alias: alias.nullish(),
    subject: optional(subject),
    html: html.optional(),
    text: text.optional(),
    variables: optional(variables),
  })
  .meta({
    id: 'TemplateCreation',
    examples: [
      {
        name: 'Receipt',
        alias: 'receipt',
        subject: 'Your receipt, {{ name }}',
        html: '<p>Thank you, {{ name }}.</p>',
        variables: [{ name: 'name' }],
      },
    ],
  });

const changedContent = {
  subject: optional(subject),
  html: html.optional(),
  text: text.optional(),
  variables: optional(variables),
};

export const templateChange = z
  .strictObject({
    name: optional(name),
    alias: alias.nullish().describe('New alias. Null removes the alias.'),
    ...changedContent,
  })
  .meta({ id: 'TemplateChange', examples: [{ subject: 'Thank you, {{ name }}' }] });

const version = z.int().meta({ description: 'Number of the version, from 1.', examples: [1] });
const wantedVersion = (description: string) =>
  optional(z.int().min(1).max(2_147_483_647).describe(description));

export const templatePublication = z
  .strictObject({
    version: wantedVersion(
      'Version to publish. The default is the latest. An older version undoes changes.',
    ),
  })
  .meta({ id: 'TemplatePublication', examples: [{ version: 1 }] });

export const templatePreview = z
  .strictObject({
    variables: optional(z.record(z.string(), z.unknown())),
    version: wantedVersion('Version to render. The default is the latest, published or not.'),
    content: optional(
      doc(
        z.strictObject(changedContent),
        'Content that is not stored yet. Its fields replace the fields of the version.',
      ),
    ),
  })
  .meta({ id: 'TemplatePreview', examples: [{ variables: { name: 'Jo' } }] });

const headFields = {
  object: z.literal('template'),
  id: idSchema('The template.'),
  name,
  alias: alias.nullable(),
  latest_version: version,
  published_version: version
    .nullable()
    .describe('Version that emails use, or null until one is published.'),
  environment,
  created_at: time('Time of creation.'),
  updated_at: time('Time of the last change or publication.'),
};

const summary = z.object(headFields).meta({ id: 'TemplateSummary' });
export const templateList = listOf('TemplateList', summary);

const contentFields = { subject, html, text };

const publishedAt = time('Time of the first publication, or null for a draft.').nullable();

export const template = z
  .object({
    ...headFields,
    version: version.describe('Version of this content.'),
    ...contentFields,
    variables: z.array(variable),
    published_at: publishedAt,
    etag: entityTag,
  })
  .meta({ id: 'Template' });

const templateVersion = z
  .object({
    object: z.literal('template_version'),
    version,
    subject,
    created_at: time('Time of creation.'),
    saved_by: doc(
      z.string().nullable(),
      'Address of the member who saved this content last, or null when an API key or a command did.',
      'jo@acme.com',
    ),
    saved_at: time(
      'Time of the last change of this content, or null for versions of earlier builds.',
    ).nullable(),
    published_at: publishedAt,
  })
  .meta({ id: 'TemplateVersion' });

export const templateVersionList = listOf('TemplateVersionList', templateVersion);

export const renderedTemplate = z
  .object({
    object: z.literal('rendered_template'),
    subject: z.string().meta({ examples: ['Your receipt, Jo'] }),
    html: shown(z.string().nullable(), '<p>Thank you, Jo.</p>'),
    text: shown(z.string().nullable(), null),
  })
  .meta({ id: 'RenderedTemplate' });

export const templateDeleted = deleted('DeletedTemplate', 'template');

export const templateParams = z.object({
  id: z.string().meta({ description: 'Id or alias of the template.' }),
});

export const versionParams = templateParams.extend({
  version: z.string().meta({ description: 'Number of the version, from 1.', examples: ['1'] }),
});

export const emailTemplate = doc(
  z.strictObject({
    id: z.string().min(1).max(64).describe('Id or alias of the template.'),
    variables: optional(
      z.record(z.string(), z.unknown()).describe('Values of the variables, by name.'),
    ),
  }),
  'Renders subject, html and text from the published version of a template, instead of `html` and `text`. A ' +
    '`subject` of the email replaces that of the template and is not rendered.',
  { id: 'receipt', variables: { name: 'Jo' } },
);

const foreign = (example: string) => shown(z.string().max(SOURCE_MAX).nullish(), example);

export const templateTranslation = z
  .strictObject({
    syntax: z
      .enum(SYNTAXES)
      .describe('Syntax of the source. `resend` has only variables in three braces.'),
    subject: foreign('Your receipt, {{name}}'),
    html: foreign('<p>Thank you, {{name}}.</p>'),
    text: foreign('Thank you, {{name}}.'),
  })
  .refine(({ syntax: _syntax, ...parts }) => Object.values(parts).some((part) => part != null), {
    error: 'There is nothing to translate; give subject, html or text.',
  })
  .meta({
    id: 'TemplateTranslation',
    examples: [{ syntax: 'handlebars', html: '<p>Thank you, {{{name}}}.</p>' }],
  });

const translatedPart = (example: string | null) => shown(z.string().nullable(), example);

export const translatedTemplate = z
  .object({
    object: z.literal('translated_template'),
    subject: translatedPart(null),
    html: translatedPart('<p>Thank you, {{ name | raw }}.</p>'),
    text: translatedPart(null),
    variables: doc(
      z.array(variable),
      'All variables of the template, with the types that their uses suggest.',
    ),
    translated: doc(z.int().min(0), 'Number of translated tags and outputs.', 1),
    problems: doc(
      z.array(
        z.object({
          field: z.enum(['subject', 'html', 'text']),
          line: doc(z.int().min(1), 'Line of the problem, from 1.', 3),
          message: z.string().meta({ examples: ['the helper formatDate is not known to Liquid'] }),
        }),
      ),
      'Parts without a translation, which are left out. At most 100 for each field.',
    ),
  })
  .meta({ id: 'TranslatedTemplate' });
