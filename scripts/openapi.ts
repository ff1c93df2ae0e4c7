/** `npm run openapi`: writes docs/openapi.json anew from the schemas of the routes. */
import { writeFile } from 'node:fs/promises';
import { generateOpenApi } from '../src/http/openapi.ts';

const FILE = new URL('../docs/openapi.json', import.meta.url);

await writeFile(FILE, `${JSON.stringify(await generateOpenApi(), null, 2)}\n`);
