/**
 * Variables of templates on the command line. Values: `name=Jo` is a text, `total:=12` is JSON, as are
 * the members of a file. Declarations: `name`, `total:number`, `items:list=[]` with a default.
 */
import { readFile } from 'node:fs/promises';
import { InvalidArgumentError } from 'commander';
import { isObject } from '../../lib/json.ts';
import { type TemplateVariable, VARIABLE_TYPES } from '../template-store.ts';

export type Values = Readonly<Record<string, unknown>>;

/** For an option that is given once for each variable. */
export function addValue(text: string, before: Values = {}): Values {
  const [, name, isJson, value = ''] = /^(\w+)(:)?=(.*)$/s.exec(text) ?? [];
  if (name === undefined) {
    throw new InvalidArgumentError('Write it as name=text, or as name:=json.');
  }
  return { ...before, [name]: isJson === undefined ? value : parseJson(value) };
}

/** For an option that is given once for each variable. */
export function addDeclaration(
  text: string,
  before: readonly TemplateVariable[] = [],
): TemplateVariable[] {
  const [, name, typeName = 'string', value] = /^(\w+)(?::(\w+))?(?:=(.*))?$/s.exec(text) ?? [];
  const type = VARIABLE_TYPES.find((one) => one === typeName);
  if (name === undefined || type === undefined) {
    throw new InvalidArgumentError(
      `Write it as name, name:type or name:type=default; types: ${VARIABLE_TYPES.join(', ')}.`,
    );
  }
  if (value === undefined) return [...before, { name, type }];
  return [...before, { name, type, default: type === 'string' ? value : parseJson(value) }];
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new InvalidArgumentError(`${JSON.stringify(text)} is not JSON.`);
  }
}

/** @returns the members of a JSON file and of the options, which win; or a sentence */
export async function readValues({
  variable = {},
  variablesFile,
}: {
  variable?: Values;
  variablesFile?: string;
}): Promise<Values | string> {
  if (variablesFile === undefined) return variable;
  try {
    const inFile: unknown = JSON.parse(await readFile(variablesFile, 'utf8'));
    if (!isObject(inFile)) return `${variablesFile} is not one JSON object.`;
    return { ...inFile, ...variable };
  } catch (error) {
    return `The variables cannot be read: ${(error as Error).message}.`;
  }
}
