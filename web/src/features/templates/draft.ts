/** A template in the editor: every part is typed text, and each variable has a sample value. */
import type { Template, TemplateVariable } from '../../../../sdk/src/api.ts';

export const TYPES = ['string', 'number', 'boolean', 'list', 'object'] as const;
export type VariableType = (typeof TYPES)[number];

export type DraftVariable = {
  /** Stays while the name is typed. */
  key: number;
  name: string;
  type: VariableType;
  isOptional: boolean;
  /** Typed text: JSON, unless the type is string. */
  fallback: string;
  /** Typed text; '' leaves an optional variable out. */
  sample: string;
};

export type Draft = {
  subject: string;
  /** '': none. */
  html: string;
  /** '': derived from the html. */
  text: string;
  variables: readonly DraftVariable[];
};

/** The body of a change. */
export type Content = Pick<Template, 'subject' | 'html' | 'text' | 'variables'>;

let keys = 0;

export function draftOf({ subject, html, text, variables }: Content): Draft {
  return { subject, html: html ?? '', text: text ?? '', variables: variables.map(draftVariable) };
}

function draftVariable({ name, type = 'string', ...rest }: TemplateVariable): DraftVariable {
  const isOptional = 'default' in rest;
  const fallback = isOptional ? asTyped(type, rest.default) : '';
  return {
    ...newVariable(name),
    type,
    isOptional,
    fallback,
    sample: firstSample(name, type, isOptional),
  };
}

export function newVariable(name: string, type: VariableType = 'string'): DraftVariable {
  keys += 1;
  const sample = firstSample(name, type, false);
  return { key: keys, name, type, isOptional: false, fallback: '', sample };
}

/** A value for the preview until another one is typed. */
function firstSample(name: string, type: VariableType, isOptional: boolean): string {
  if (isOptional) return '';
  const samples = {
    string: name.replaceAll('_', ' '),
    number: '1',
    boolean: 'true',
    list: '[]',
    object: '{}',
  };
  return samples[type];
}

export function withType(variable: DraftVariable, type: VariableType): DraftVariable {
  const { name, isOptional } = variable;
  return { ...variable, type, fallback: '', sample: firstSample(name, type, isOptional) };
}

function asTyped(type: VariableType, value: unknown): string {
  return type === 'string' ? String(value) : JSON.stringify(value);
}

/** @throws Error with a sentence about the variable whose default cannot be read */
export function contentOf({ subject, html, text, variables }: Draft): Content {
  return {
    subject,
    html: html === '' ? null : html,
    text: text === '' ? null : text,
    variables: variables.map(({ name, type, isOptional, fallback }) => ({
      name,
      type,
      ...(isOptional && { default: read(type, fallback, `default of ${name}`) }),
    })),
  };
}

/** The values for a preview. @throws Error with a sentence about the one that cannot be read */
export function samplesOf(variables: readonly DraftVariable[]): Record<string, unknown> {
  const given = variables.filter(({ isOptional, sample }) => !isOptional || sample !== '');
  return Object.fromEntries(
    given.map(({ name, type, sample }) => [name, read(type, sample, `sample value of ${name}`)]),
  );
}

/** The values for the preview of a stored version. */
export function firstSamples(variables: readonly TemplateVariable[]): Record<string, unknown> {
  return samplesOf(variables.map(draftVariable));
}

const EXAMPLES = {
  number: '12.5',
  boolean: 'true',
  list: '[{"name": "Tea"}]',
  object: '{"city": "Paris"}',
};

function read(type: VariableType, typed: string, what: string): unknown {
  if (type === 'string') return typed;
  try {
    return JSON.parse(typed);
  } catch {
    throw new Error(`The ${what} is no ${type}; write it like ${EXAMPLES[type]}.`);
  }
}

/** The sample values that were typed for variables of the same name and type. */
function withSamplesOf(typed: Draft, draft: Draft): Draft {
  const variables = draft.variables.map((variable) => {
    const same = typed.variables.find(
      ({ name, type }) => name === variable.name && type === variable.type,
    );
    return same ? { ...variable, sample: same.sample } : variable;
  });
  return { ...draft, variables };
}

/** Returns whether both have the same content, whatever the sample values are. */
function isSameDraft(one: Draft, other: Draft): boolean {
  return plain(one) === plain(other);
}

function plain({ subject, html, text, variables }: Draft): string {
  const declared = variables.map(({ name, type, isOptional, fallback }) => [
    name,
    type,
    isOptional ? [spaced(type, fallback)] : [],
  ]);
  return JSON.stringify([subject, html, text, declared]);
}

/** JSON as the service writes it, so that spaces in it make no difference. */
function spaced(type: VariableType, typed: string): string {
  try {
    return asTyped(type, read(type, typed, ''));
  } catch {
    return typed;
  }
}

/** The typed draft, and the stored template that it started from. */
export type Editing = { base: Draft; draft: Draft };

/** Returns whether the draft has changes, and whether the stored template has changed since. */
export function stateOf({ base, draft }: Editing, stored: Draft) {
  const isChanged = !isSameDraft(draft, base);
  const isNewer = !isSameDraft(base, stored);
  const isSaved = isSameDraft(draft, stored);
  return { isChanged, isOutdated: isNewer && isChanged && !isSaved, isNewer, isSaved };
}

/** Follows the stored template while nothing is typed, or after the draft was saved. */
export function followed(editing: Editing, stored: Draft): Editing {
  const { isNewer, isOutdated, isSaved } = stateOf(editing, stored);
  if (!isNewer || isOutdated) return editing;
  return { base: stored, draft: isSaved ? editing.draft : withSamplesOf(editing.draft, stored) };
}

/** Restores the stored template, with the typed sample values. */
export function discarded({ draft }: Editing, stored: Draft): Editing {
  return { base: stored, draft: withSamplesOf(draft, stored) };
}
