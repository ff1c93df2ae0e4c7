/**
 * Renders the API reference from the OpenAPI document of this version: as a page of the handbook, and as a page of its
 * own without scripts, which the service serves while the handbook is not built.
 */
import { escapeHtml as escape, pageHeaders } from '../dashboard/html-page.ts';

type Schema = {
  $ref?: string;
  type?: string | string[];
  format?: string;
  description?: string;
  enum?: (string | null)[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  items?: Schema;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: unknown;
};
type Media = { schema?: Schema; example?: unknown };
type Parameter = {
  name: string;
  in: string;
  required?: boolean;
  description?: string;
  schema: Schema;
};
type Operation = {
  operationId: string;
  summary: string;
  description?: string;
  tags: string[];
  security?: object[];
  parameters?: Parameter[];
  requestBody?: { content: Record<string, Media> };
  responses: Record<string, { description: string; content?: Record<string, Media> }>;
};
export type ReferenceSource = {
  info: { title: string; description: string };
  tags: { name: string; description: string }[];
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, Schema> };
};

type Endpoint = Operation & { method: string; path: string };

/**
 * Renders the list of operations, and the operations with their fields and examples.
 * @param source docs/openapi.json, parsed
 */
export function referenceParts(source: ReferenceSource): { menu: string; main: string } {
  const endpoints = Object.entries(source.paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(([method, operation]) => ({ ...operation, method, path })),
  );
  const endpointsOf = (tag: string) => endpoints.filter(({ tags }) => tags.includes(tag));
  const menu = source.tags.map(
    ({ name }) => `<h2>${escape(name)}</h2><ul>${endpointsOf(name).map(menuEntry).join('')}</ul>`,
  );
  const parts = source.tags.map(
    ({ name, description }) =>
      `<section><h2>${escape(name)}</h2><p>${renderProse(description)}</p>
${endpointsOf(name)
  .map((endpoint) => renderEndpoint(endpoint, source.components.schemas))
  .join('\n')}</section>`,
  );
  const main = `<h1>API reference</h1>
${source.info.description.split('\n\n').map(renderParagraph).join('\n')}
${parts.join('\n')}`;
  return { menu: menu.join('\n'), main };
}

/** Renders the page without the handbook. */
export function renderReference(source: ReferenceSource): string {
  const { menu, main } = referenceParts(source);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>API reference · ${escape(source.info.title)}</title>
<style>${STYLE}</style>
</head>
<body>
<nav aria-label="Operations"><a class="home" href="#top">${escape(source.info.title)} API</a>${menu}
<p><a href="/openapi.json">openapi.json</a> · <a href="/llms.txt">llms.txt</a></p></nav>
<main id="top">
${main}
</main>
</body>
</html>
`;
}

/** Renders the reference as plain text for /llms.txt, in the format for language models. */
export function renderLlmsText({ info, tags, paths }: ReferenceSource): string {
  const lines = Object.entries(paths).flatMap(([path, operations]) =>
    Object.entries(operations).map(
      ([
        method,
        {
          tags: [tag],
          summary,
          description = '',
        },
      ]) => ({
        tag,
        line: `- ${method.toUpperCase()} ${path}: ${summary}. ${description}`.trimEnd(),
      }),
    ),
  );
  const sections = tags.map(({ name, description }) => {
    const own = lines.filter(({ tag }) => tag === name).map(({ line }) => line);
    return `## ${name}\n\n${description}\n\n${own.join('\n')}\n`;
  });
  const links =
    '- [API reference](/docs/reference): every field and response, with examples\n' +
    '- [OpenAPI 3.1](/openapi.json): the same for programs\n';
  const [first = '', ...others] = info.description.split('\n\n');
  const more = others.map((text) => `${text}\n`).join('\n');
  return `# ${info.title}\n\n> ${first}\n\n${more}\n${links}\n${sections.join('\n')}`;
}

function menuEntry({ operationId, method, summary }: Endpoint): string {
  return `<li><a href="#${operationId}"><span class="${method}">${method}</span> ${escape(summary)}</a></li>`;
}

function renderEndpoint(endpoint: Endpoint, schemas: Record<string, Schema>): string {
  const { operationId, method, path, summary, description, parameters = [], responses } = endpoint;
  const body = Object.entries(endpoint.requestBody?.content ?? {})[0];
  const rows = [
    ...parameters.map((parameter) =>
      fieldRow(parameter.name, { ...parameter, where: parameter.in }, schemas),
    ),
    ...(body?.[1].schema ? fieldRows(body[1].schema, schemas) : []),
  ];
  return `<article id="${operationId}">
<h3><a href="#${operationId}">${escape(summary)}</a></h3>
<p class="path"><code><b class="${method}">${method}</b> ${escape(path)}</code></p>
${description === undefined ? '' : renderParagraph(description)}
${rows.length === 0 ? '' : `<table><thead><tr><th>Field</th><th>What it is</th></tr></thead><tbody>${rows.join('\n')}</tbody></table>`}
<h4>Request</h4>
<pre tabindex="0"><code>${escape(curlExample(endpoint))}</code></pre>
${Object.entries(responses).map(renderResponse).join('\n')}
</article>`;
}

/** Returns rows for the fields of a body, each followed by the fields of its objects: `attachments[].filename`. */
function fieldRows(schema: Schema, schemas: Record<string, Schema>, prefix = ''): string[] {
  const resolved = resolve(schema, schemas);
  if (resolved.items) return fieldRows(resolved.items, schemas, `${prefix}[]`);
  const { properties = {}, required = [] } = resolved;
  return Object.entries(properties).flatMap(([name, field]) => {
    const path = prefix === '' ? name : `${prefix}.${name}`;
    const isRequired = required.includes(name);
    const about = field.description ?? resolve(field, schemas).description;
    return [
      fieldRow(
        path,
        { where: 'body', required: isRequired, description: about, schema: field },
        schemas,
      ),
      ...fieldRows(field, schemas, path),
    ];
  });
}

type Field = Omit<Parameter, 'name' | 'in' | 'description'> & {
  where: string;
  description?: string | undefined;
};

function fieldRow(name: string, field: Field, schemas: Record<string, Schema>): string {
  const { where, required = false, description, schema } = field;
  const about = [
    typeName(schema, schemas),
    ...(where === 'body' ? [] : [`in the ${where}`]),
    ...(required ? ['<b>required</b>'] : []),
  ];
  const text = description ?? schema.description ?? '';
  return `<tr><td><code>${escape(name)}</code></td><td><small>${about.join(', ')}</small>${text === '' ? '' : `<br>${renderProse(text)}`}</td></tr>`;
}

function typeName(schema: Schema, schemas: Record<string, Schema>): string {
  const resolved = resolve(schema, schemas);
  if (resolved.enum)
    return resolved.enum.map((value) => `<code>${escape(String(value))}</code>`).join(' ');
  const alternatives = resolved.anyOf ?? resolved.oneOf;
  if (alternatives)
    return alternatives.map((alternative) => typeName(alternative, schemas)).join(' or ');
  if (resolved.items) return `array of ${typeName(resolved.items, schemas)}`;
  const types = [resolved.type ?? 'any'].flat().map((type) => resolved.format ?? type);
  return escape(types.join(' or '));
}

function resolve(schema: Schema, schemas: Record<string, Schema>): Schema {
  const name = schema.$ref?.split('/').at(-1);
  return name === undefined ? schema : (schemas[name] ?? {});
}

function renderResponse([status, { description, content }]: [
  string,
  Operation['responses'][string],
]): string {
  const example = Object.values(content ?? {})[0]?.example;
  const head = `<b class="${Number(status) < 300 ? 'get' : 'delete'}">${status}</b> ${renderProse(description)}`;
  if (example === undefined) return `<p class="response">${head}</p>`;
  return `<details${status === '200' ? '' : ' open'}><summary>${head}</summary><pre tabindex="0"><code>${escape(bodyText(example, 2))}</code></pre></details>`;
}

function curlExample({ method, path, security, parameters = [], requestBody }: Endpoint): string {
  const [type, media] = Object.entries(requestBody?.content ?? {})[0] ?? [];
  const query = parameters.filter((parameter) => parameter.in === 'query' && parameter.required);
  const queryText = query.map(({ name }) => `${name}=…`).join('&');
  const lines = [
    `curl${method === 'get' ? '' : ` -X ${method.toUpperCase()}`} 'http://127.0.0.1:3000${path}${queryText && `?${queryText}`}'`,
    ...(security?.length === 0 ? [] : ['-H "Authorization: Bearer $LETTERHAUS_API_KEY"']),
    ...(type === undefined ? [] : [`-H 'Content-Type: ${type}'`]),
    ...(media?.example === undefined
      ? []
      : [`--data-binary '${bodyText(media.example, 2).replaceAll("'", String.raw`'\''`)}'`]),
  ];
  return lines.join(' \\\n  ');
}

function bodyText(example: unknown, indent: number): string {
  return typeof example === 'string' ? example : JSON.stringify(example, null, indent);
}

function renderParagraph(text: string): string {
  return `<p>${renderProse(text)}</p>`;
}

/** Descriptions contain `code` and no other markup. */
function renderProse(text: string): string {
  return escape(text).replaceAll(/`([^`]+)`/g, '<code>$1</code>');
}

const STYLE = `
:root{color-scheme:light dark;--ground:#fff;--side:#f7f7f4;--text:#1c1c1a;--soft:#5c5c57;--line:#dcdcd5;
--code:#f4f4f1;--green:#176639;--blue:#1f4fa8;--red:#a3262a;--amber:#8a5300}
@media (prefers-color-scheme:dark){:root{--ground:#161615;--side:#1b1b1a;--text:#f2f2ee;--soft:#b0b0a8;
--line:#3a3a36;--code:#20201e;--green:#7fd3a0;--blue:#9bbcf5;--red:#f29a9d;--amber:#e6b870}}
*{box-sizing:border-box}
html{scroll-behavior:smooth;scroll-padding-top:1rem}
@media (prefers-reduced-motion:reduce){html{scroll-behavior:auto}}
body{margin:0;display:grid;grid-template-columns:17rem minmax(0,1fr);background:var(--ground);
color:var(--text);font:1rem/1.6 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
a{color:inherit;text-decoration-color:var(--line);text-underline-offset:.2em}
a:hover{text-decoration-color:currentcolor}
:focus-visible{outline:3px solid var(--blue);outline-offset:2px}
nav{position:sticky;top:0;height:100vh;overflow:auto;padding:1.5rem;background:var(--side);
border-right:1px solid var(--line);font-size:.875rem}
nav .home{font-size:1.125rem;font-weight:600;text-decoration:none}
nav h2{margin:1.25rem 0 .25rem;font-size:.8125rem;color:var(--soft)}
nav ul{margin:0;padding:0;list-style:none}
nav li a{display:grid;grid-template-columns:3.5rem 1fr;align-items:baseline;padding:.125rem 0;
text-decoration:none}
nav li a:hover{text-decoration:underline}
nav li span{font-size:.6875rem;font-weight:600;text-transform:uppercase}
main{max-width:56rem;padding:2rem clamp(1rem,4vw,3rem) 6rem}
h1{font-size:2rem;line-height:1.2;margin:0 0 1rem}
section>h2{margin:3.5rem 0 0;font-size:1.5rem}
article{margin-top:2rem;padding-top:1.5rem;border-top:1px solid var(--line)}
h3{margin:0;font-size:1.125rem}
h3 a{text-decoration:none}
h4{margin:1.25rem 0 0;font-size:.875rem;color:var(--soft)}
.path{margin:.25rem 0}
b[class]{text-transform:uppercase;font-weight:600}
.get{color:var(--green)}.post{color:var(--blue)}.patch,.put{color:var(--amber)}.delete{color:var(--red)}
code,pre{font:.875em/1.55 ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
code{overflow-wrap:anywhere}
p code,td code{padding:.1em .3em;border-radius:.25rem;background:var(--code)}
pre{margin:.5rem 0;padding:1rem;overflow:auto;border:1px solid var(--line);border-radius:.5rem;
background:var(--code)}
pre code{overflow-wrap:normal}
table{width:100%;margin:1rem 0;border-collapse:collapse;font-size:.9375rem}
th,td{padding:.5rem .75rem .5rem 0;border-bottom:1px solid var(--line);text-align:left;vertical-align:top}
th{font-size:.8125rem;color:var(--soft)}
td:first-child{width:15rem}
small,.response{color:var(--soft)}
.response,summary{margin:.375rem 0;font-size:.9375rem}
summary{cursor:pointer}
@media (max-width:52rem){body{display:block}nav{position:static;height:auto;border:0;
border-bottom:1px solid var(--line)}nav ul{columns:2 12rem}td:first-child{width:40%}}
`;

export const REFERENCE_HEADERS = pageHeaders(STYLE, "'none'");
