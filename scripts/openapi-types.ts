/**
 * TypeScript of an OpenAPI document: a type for each schema, and for each operation its method, path,
 * query, body and result. The SDK and the dashboard are typed with it, so they cannot differ from the service.
 *
 * The SDK gets all operations but those of browsers alone, which the dashboard has besides. Knows what the
 * service's document uses; anything else throws.
 */
type Schema = {
  $ref?: string;
  anyOf?: Schema[];
  oneOf?: Schema[];
  enum?: unknown[];
  type?: string | string[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  description?: string;
};
type Content = { content?: Record<string, { schema: Schema }> };
type Operation = {
  operationId: string;
  summary: string;
  parameters?: {
    name: string;
    in: string;
    required?: boolean;
    description?: string;
    schema: Schema;
  }[];
  requestBody?: Content;
  responses: Record<string, Content>;
};
export type OpenApiDocument = {
  components: { schemas: Record<string, Schema> };
  paths: Record<string, Record<string, Operation>>;
};

const HEAD = '// Generated from docs/openapi.json by `npm run openapi`.\n';

/** @param document parsed docs/openapi.json @returns a module, in the layout of the formatter or close to it */
export function typesOf(document: OpenApiDocument): string {
  const schemas = Object.entries(document.components.schemas).map(
    ([name, schema]) => `${comment(schema, '')}export type ${name} = ${typeOf(schema, '')};\n`,
  );
  const operations = placesOf(document).filter(isForKeys);
  return [HEAD, ...schemas, ...modulePart('Operations', 'OPERATIONS', operations)].join('\n');
}

/** The operations of browsers alone; their schemas are those of the SDK. */
export function sessionTypesOf(document: OpenApiDocument): string {
  const operations = placesOf(document).filter((place) => !isForKeys(place));
  const parts = modulePart('SessionOperations', 'SESSION_OPERATIONS', operations);
  const named = new Set(parts.join('').match(/\b[A-Z]\w+/g));
  const schemas = Object.keys(document.components.schemas).filter((name) => named.has(name));
  const imports = `import type {\n  ${schemas.join(',\n  ')},\n} from '../../../sdk/src/api.ts';\n`;
  return [HEAD, imports, ...parts].join('\n');
}

function placesOf(document: OpenApiDocument): Place[] {
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
}

function modulePart(types: string, places: string, operations: readonly Place[]): string[] {
  return [
    `export type ${types} = {\n${operations.map(operationType).join('')}};\n`,
    `export const ${places} = {\n${operations.map(operationPlace).join('')}} as const;\n`,
  ];
}

type Place = { path: string; method: string; operation: Operation };

/**
 * Paths that only browsers call: sessions, the data of one member, findings that the dashboard hides. The command line
 * calls the rest.
 */
const OF_BROWSERS = /^\/v1\/(session|views|snoozes|invitations\/accept|emails\/\{id\}\/preview)\b/;

function isForKeys({ path }: Place): boolean {
  return !OF_BROWSERS.test(path);
}

function operationPlace({ path, method, operation }: Place): string {
  return `  ${operation.operationId}: ['${method.toUpperCase()}', '${path}'],\n`;
}

function operationType({ operation }: Place): string {
  const query = (operation.parameters ?? []).filter((one) => one.in === 'query');
  const fields = query.map((one) =>
    field(one.name, { ...one.schema, ...describedBy(one) }, one.required, '      '),
  );
  return [
    comment({ description: operation.summary }, '  '),
    `  ${operation.operationId}: {\n`,
    `    query: ${fields.length === 0 ? 'Record<never, never>' : `{\n${fields.join('')}    }`};\n`,
    `    body: ${contentType(operation.requestBody)};\n`,
    `    result: ${resultType(operation)};\n`,
    '  };\n',
  ].join('');
}

/** The description of a parameter, rather than that of its schema. */
function describedBy({ description }: { description?: string }): Pick<Schema, 'description'> {
  return description === undefined ? {} : { description };
}

/** Returns the type of the successful responses. Of several media types, JSON counts. */
function resultType(operation: Operation): string {
  const successes = Object.entries(operation.responses)
    .filter(([status]) => status.startsWith('2'))
    .map(([, response]) => contentType(response));
  return [...new Set(successes)].join(' | ');
}

function contentType(part: Content | undefined): string {
  const content = part?.content;
  if (content === undefined) return 'undefined';
  const json = content['application/json'];
  return json === undefined ? 'string' : typeOf(json.schema, '    ');
}

function typeOf(schema: Schema, indent: string): string {
  if (schema.$ref !== undefined) return schema.$ref.split('/').at(-1) ?? '';
  const alternatives = schema.anyOf ?? schema.oneOf;
  if (alternatives !== undefined) return unionOf(alternatives, indent);
  if (schema.enum !== undefined) return schema.enum.map(literal).join(' | ');
  if (Array.isArray(schema.type)) {
    const kinds = schema.type.map((type) => ({ ...schema, type }));
    return unionOf(kinds, indent);
  }
  switch (schema.type) {
    case 'string':
    case 'boolean':
    case 'null':
      return schema.type;
    case 'number':
    case 'integer':
      return 'number';
    case 'array':
      return arrayOf(typeOf(schema.items ?? {}, indent));
    case 'object':
      return objectOf(schema, indent);
    case undefined:
      return 'unknown';
    default:
      throw new Error(`No TypeScript is known for the type ${schema.type}`);
  }
}

function unionOf(schemas: Schema[], indent: string): string {
  return [...new Set(schemas.map((schema) => typeOf(schema, indent)))].join(' | ');
}

function arrayOf(item: string): string {
  return /[|{ ]/.test(item) ? `Array<${item}>` : `${item}[]`;
}

function objectOf(schema: Schema, indent: string): string {
  const properties = Object.entries(schema.properties ?? {});
  const others = schema.additionalProperties;
  if (properties.length === 0) {
    return `Record<string, ${typeof others === 'object' ? typeOf(others, indent) : 'unknown'}>`;
  }
  const required = new Set(schema.required);
  const deeper = `${indent}  `;
  const fields = properties.map(([name, one]) => field(name, one, required.has(name), deeper));
  return `{\n${fields.join('')}${indent}}`;
}

function field(
  name: string,
  schema: Schema,
  isRequired: boolean | undefined,
  indent: string,
): string {
  const key = /^[A-Za-z_]\w*$/.test(name) ? name : `'${name}'`;
  const type = typeOf(schema, indent);
  // With exactOptionalPropertyTypes, callers may still pass a variable that is undefined.
  const value = isRequired === true || type === 'unknown' ? type : `${type} | undefined`;
  return `${comment(schema, indent)}${indent}${key}${isRequired === true ? '' : '?'}: ${value};\n`;
}

function literal(value: unknown): string {
  return typeof value === 'string' ? `'${value.replaceAll("'", String.raw`\'`)}'` : String(value);
}

function comment({ description }: Pick<Schema, 'description'>, indent: string): string {
  return description === undefined
    ? ''
    : `${indent}/** ${description.replaceAll('*/', '* /')} */\n`;
}
