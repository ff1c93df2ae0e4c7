/**
 * Translates a whole template of another service to Liquid. Its parts are translated (translate.ts) and then read,
 * so a translation without problems can be stored. It also reads the files in which services export templates.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { isObject, parseObject } from '../lib/json.ts';
import { ALIAS, type TemplateVariable, VARIABLE_TYPES } from '../templates/template-store.ts';
import { readPart, SOURCE_MAX } from '../templates/liquid.ts';
import { type Syntax, translatePart, type TranslatedPart, variablesOfParts } from './translate.ts';

const PARTS = ['subject', 'html', 'text'] as const;
type PartName = (typeof PARTS)[number];

export type ForeignContent = Readonly<Record<PartName, string | null>>;

export type Translation = Record<PartName, string | null> & {
  /** All variables that the parts read, with the types that their uses suggest. */
  variables: TemplateVariable[];
  translated: number;
  problems: { field: PartName; line: number; message: string }[];
};

export async function translateTemplate(
  content: ForeignContent,
  syntax: Syntax,
): Promise<Translation> {
  const result: Translation = {
    subject: null,
    html: null,
    text: null,
    variables: [],
    translated: 0,
    problems: [],
  };
  const parts: TranslatedPart[] = [];
  for (const field of PARTS) {
    const source = content[field];
    if (source === null) continue;
    await nextTurn();
    const isHtml = field === 'html';
    const part = translatePart(source, { syntax, isHtml });
    parts.push(part);
    result[field] = part.liquid;
    result.translated += part.translated;
    result.problems.push(...part.problems.map((problem) => ({ field, ...problem })));
    await nextTurn();
    const read = readPart(part.liquid, { isHtml });
    if ('problem' in read) {
      result.problems.push({ field, line: 1, message: `the translation ${read.problem}` });
    }
  }
  result.variables = variablesOfParts(parts);
  return result;
}

export function translationToWire(translation: Translation) {
  return { object: 'translated_template' as const, ...translation };
}

export type ForeignTemplate = ForeignContent & {
  name: string | null;
  alias: string | null;
  /** Variables declared in the file. Variables of Resend have types and fallbacks. */
  variables: TemplateVariable[];
};

type Json = Record<string, unknown>;

/**
 * Reads a template as the API of Resend, SendGrid (a version, or the template with its versions), Mailgun, Postmark
 * or Amazon SES returns it. Returns null for other text.
 */
export function readForeign(text: string): ForeignTemplate | null {
  const json = parse(text);
  if (json === null) return null;
  const inner = objectIn(json, 'Template') ?? objectIn(json, 'template') ?? json;
  const versions = Array.isArray(inner['versions']) ? inner['versions'].filter(isObject) : [];
  const version =
    objectIn(inner, 'version') ??
    versions.find((one) => one['active'] === 1) ??
    versions[0] ??
    objectIn(inner, 'TemplateContent') ??
    inner;
  const first = (...names: string[]): string | null =>
    names.map((name) => version[name] ?? inner[name]).find(isText) ?? null;
  const headers = objectIn(version, 'headers') ?? {};
  const found = {
    name: first('name', 'Name', 'TemplateName'),
    alias: first('alias', 'Alias'),
    subject: first('subject', 'Subject', 'SubjectPart') ?? textIn(headers, 'Subject'),
    html: first('html', 'html_content', 'template', 'HtmlBody', 'HtmlPart', 'Html'),
    text: first('text', 'plain_content', 'TextBody', 'TextPart', 'Text'),
  };
  if (found.html === null && found.text === null) return null;
  const alias = found.alias !== null && ALIAS.test(found.alias) ? found.alias : null;
  return { ...found, alias, variables: declaredIn(inner['variables']) };
}

function parse(text: string): Json | null {
  if (!text.trimStart().startsWith('{') || text.length > 4 * SOURCE_MAX) return null;
  return parseObject(text);
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== '';
}

function objectIn(json: Json, name: string): Json | null {
  const value = json[name];
  return isObject(value) ? value : null;
}

function textIn(json: Json, name: string): string | null {
  const value = json[name];
  return isText(value) ? value : null;
}

/** Reads Resend's declarations: `{key, type, fallback_value}`. */
function declaredIn(value: unknown): TemplateVariable[] {
  if (!Array.isArray(value)) return [];
  return value.filter(isObject).flatMap((variable) => {
    const { key: name, type } = variable;
    const fallback = variable['fallback_value'] ?? variable['fallbackValue'];
    const known = VARIABLE_TYPES.find((one) => one === type);
    if (!isText(name) || known === undefined) return [];
    return [{ name, type: known, ...(fallback != null && { default: fallback }) }];
  });
}

export function declarationsOf(
  needed: readonly TemplateVariable[],
  declared: readonly TemplateVariable[],
): TemplateVariable[] {
  return needed.map((one) => declared.find(({ name }) => name === one.name) ?? one);
}
