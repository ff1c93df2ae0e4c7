/** `npm run openapi`: writes docs/openapi.json, and the types of the SDK and the dashboard, from the routes. */
import { writeFile } from 'node:fs/promises';
import { generateOpenApi } from '../src/http/openapi/openapi.ts';
import { type OpenApiDocument, sessionTypesOf, typesOf } from './openapi-types.ts';

const DOCUMENT = new URL('../docs/openapi.json', import.meta.url);
const TYPES = new URL('../sdk/src/api.ts', import.meta.url);
const SESSION_TYPES = new URL('../web/src/api/session-operations.ts', import.meta.url);

const text = JSON.stringify(await generateOpenApi(), null, 2);
const document = JSON.parse(text) as OpenApiDocument;
await writeFile(DOCUMENT, `${text}\n`);
await writeFile(TYPES, typesOf(document));
await writeFile(SESSION_TYPES, sessionTypesOf(document));
