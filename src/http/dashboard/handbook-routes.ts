/**
 * Routes of the handbook: static files at /docs, for everybody and without a key. web/handbook/ makes them, in the
 * version of the service.
 *
 * /docs/sending is the file sending.html, and /docs/sending.md its Markdown. While the handbook is not built, /docs and
 * /docs/reference have the API reference alone.
 */
import { readFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import type { FastifyReply } from 'fastify';
import { type HttpFailure, sendFailure } from '../errors.ts';
import {
  REFERENCE_HEADERS,
  type ReferenceSource,
  renderReference,
} from '../openapi/reference-page.ts';
import type { App } from '../services.ts';
import { type BuiltFile, readBuiltFiles, sendBuiltFile } from './built-files.ts';

const FOLDER = fileURLToPath(new URL('../../../web/dist/handbook', import.meta.url));
const OPENAPI_FILE = new URL('../../../docs/openapi.json', import.meta.url);
const BASE = '/docs';
const REFERENCE = 'reference';
/** Folder of files whose names contain the hash of their content. */
const ASSETS = 'assets/';

/** Scripts and styles are separate files, and nothing is loaded from elsewhere. */
const PAGE_HEADERS = {
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "font-src 'self'",
    "connect-src 'self'",
    "form-action 'none'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  // A browser asks each time whether the page has changed, because an upgrade changes it.
  'cache-control': 'no-cache',
  'referrer-policy': 'no-referrer',
  'x-robots-tag': 'noindex',
} as const;
const ASSET_HEADERS = { 'cache-control': 'public, max-age=31536000, immutable' } as const;

const NOT_BUILT: HttpFailure = {
  status: 503,
  code: 'service_unavailable',
  message: 'The handbook was not built: start the service once as the owner of its folder.',
};
const NO_SUCH_FILE: HttpFailure = {
  status: 404,
  code: 'not_found',
  message: 'The handbook has no such page; /docs lists all pages.',
};

/** The files of the handbook, read at the first request after they were built. */
export class Handbook {
  readonly #folder: string;
  #files: Promise<Map<string, BuiltFile> | null> | null = null;

  constructor(folder: string = FOLDER) {
    this.#folder = folder;
  }

  /** Returns null when the handbook has no such file or is not built. */
  async file(name: string): Promise<BuiltFile | null> {
    this.#files ??= readBuiltFiles(this.#folder);
    const files = await this.#files;
    if (files === null) this.#files = null; // it may be built later
    return files?.get(name) ?? null;
  }
}

export function registerHandbookRoutes(app: App, handbook: Handbook): void {
  const publicRoute = { config: { access: 'public' }, schema: { hide: true } } as const;
  app.get(BASE, { ...publicRoute, handler: (_request, reply) => sendPage(reply, handbook, '') });
  app.get(`${BASE}/*`, {
    ...publicRoute,
    handler: async (request, reply) => {
      const { '*': path } = request.params as { '*': string };
      return sendPage(reply, handbook, path.replace(/\/+$/, ''));
    },
  });
}

async function sendPage(
  reply: FastifyReply,
  handbook: Handbook,
  path: string,
): Promise<FastifyReply> {
  const name = path === '' ? 'index.html' : path;
  const file = (await handbook.file(name)) ?? (await handbook.file(`${path}.html`));
  if (file !== null) {
    const headers = path.startsWith(ASSETS) ? ASSET_HEADERS : PAGE_HEADERS;
    return sendBuiltFile(reply.headers(headers), file);
  }
  const notFound = await handbook.file('404.html');
  if (notFound !== null) return sendNoSuchPage(reply, notFound);
  if (path !== '' && path !== REFERENCE) return sendFailure(reply, NOT_BUILT);
  return reply.headers(REFERENCE_HEADERS).send(await plainReference());
}

/** Shows a page to browsers, and the failure of the API to programs. */
function sendNoSuchPage(reply: FastifyReply, page: BuiltFile): FastifyReply {
  if (reply.request.headers.accept?.includes('text/html') !== true)
    return sendFailure(reply, NO_SUCH_FILE);
  return reply.code(404).headers(PAGE_HEADERS).type(page.type).send(page.content);
}

let reference: string | null = null;

async function plainReference(): Promise<string> {
  reference ??= renderReference(
    JSON.parse(await readFile(OPENAPI_FILE, 'utf8')) as ReferenceSource,
  );
  return reference;
}
