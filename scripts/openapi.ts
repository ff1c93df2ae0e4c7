/** `npm run openapi`: writes docs/openapi.json, and the types of the SDK, anew from the schemas of the routes. */
import { writeFile } from 'node:fs/promises';
import { generateOpenApi } from '../src/http/openapi/openapi.ts';
import { type OpenApiDocument, typesOf } from './openapi-types.ts';

const DOCUMENT = new URL('../docs/openapi.json', import.meta.url);
const TYPES = new URL('../sdk/src/api.ts', import.meta.url);

const document = JSON.stringify(await generateOpenApi(), null, 2);
await writeFile(DOCUMENT, `${document}\n`);
await writeFile(TYPES, typesOf(JSON.parse(document) as OpenApiDocument));
