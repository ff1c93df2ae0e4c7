/**
 * Routes of the dashboard: static files below /dashboard/, which use the API like any other client.
 *
 * Its pages have paths below /dashboard/ (/dashboard/…/emails/ID), which all return the same document;
 * web/src/router.tsx chooses the page. All other paths of the root belong to the API.
 */
import { fileURLToPath } from 'node:url';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { type BuiltFile, readBuiltFiles, sendBuiltFile } from './built-files.ts';
import { type HttpFailure, sendFailure } from '../errors.ts';
import { strangersPolicy } from './html-page.ts';
import type { App, HttpServices } from '../services.ts';

const FOLDER = fileURLToPath(new URL('../../../web/dist', import.meta.url));
const BASE = '/dashboard/';
/** Folder of files whose names contain the hash of their content. */
const ASSETS = 'assets/';

/** Scripts and styles are separate files, and nothing is loaded from elsewhere. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "font-src 'self'",
  "connect-src 'self'",
  // Frames show HTML of strangers: pages of emails/share-routes.ts and the frame below, with their own policies.
  "frame-src 'self'",
  "form-action 'none'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
].join('; ');

const PAGE_HEADERS = {
  'content-security-policy': POLICY,
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'x-robots-tag': 'noindex, nofollow',
} as const;
const ASSET_HEADERS = { 'cache-control': 'public, max-age=31536000, immutable' } as const;

const NOT_BUILT: HttpFailure = {
  status: 503,
  code: 'service_unavailable',
  message: 'The dashboard was not built: start the service once as the owner of its folder.',
};
const NO_SUCH_FILE: HttpFailure = {
  status: 404,
  code: 'not_found',
  message: 'The dashboard has no such file; reload its page.',
};

/** Empty, because the dashboard fills it (web/src/ui/html-frame.tsx). Its policy applies to that content. */
const FRAME = '<!doctype html><title>Preview</title>';

export function registerDashboardRoutes(app: App, { config }: HttpServices): void {
  let files: Promise<Map<string, BuiltFile> | null> | null = null;
  const publicRoute = { config: { access: 'public' }, schema: { hide: true } } as const;

  app.get(BASE.slice(0, -1), {
    ...publicRoute,
    handler: (_request, reply) => reply.redirect(BASE),
  });
  // The link of the first start leads here. Browsers keep its fragment in the redirect.
  app.get('/sign-in', {
    ...publicRoute,
    handler: (_request, reply) => reply.redirect(`${BASE}sign-in`),
  });
  registerFrame(app, config);
  app.get(`${BASE}*`, {
    ...publicRoute,
    handler: async (request, reply) => {
      files ??= readBuiltFiles(FOLDER, 'handbook');
      const builtFiles = await files;
      if (isOfTrackingHost(request.host, config)) return sendFailure(reply, NO_SUCH_FILE);
      if (builtFiles === null) {
        files = null; // it may be built later
        return sendFailure(reply, NOT_BUILT);
      }
      const { '*': path } = request.params as { '*': string };
      const isAsset = path.startsWith(ASSETS);
      const file = builtFiles.get(isAsset ? path : fileNameFor(path, builtFiles));
      if (file === undefined) return sendFailure(reply, NO_SUCH_FILE);
      return sendBuiltFile(reply.headers(isAsset ? ASSET_HEADERS : PAGE_HEADERS), file);
    },
  });
}

/** Serves the frame for previews. It has an origin, so the dashboard can fill it, but no script runs in it. */
function registerFrame(app: App, config: HttpServices['config']): void {
  app.get(`${BASE}frame`, {
    config: { access: 'public' },
    schema: { hide: true, querystring: z.object({ remote: z.string().optional() }) },
    handler: (request, reply) => {
      if (isOfTrackingHost(request.host, config)) return sendFailure(reply, NO_SUCH_FILE);
      const remote = request.query.remote === 'yes';
      const policy = strangersPolicy({ remote }, 'allow-same-origin');
      return (reply as FastifyReply)
        .headers({
          ...PAGE_HEADERS,
          'x-content-type-options': 'nosniff',
          'x-dns-prefetch-control': 'off',
        })
        .header('content-security-policy', policy)
        .header('content-type', 'text/html; charset=utf-8')
        .send(FRAME);
    },
  });
}

/** Returns whether a browser opens the root, which is no operation of the API. */
export function isBrowserVisit({ method, url, headers }: FastifyRequest): boolean {
  return method === 'GET' && url === '/' && headers.accept?.includes('text/html') === true;
}

export function redirectToDashboard(reply: FastifyReply): FastifyReply {
  return reply.header('vary', 'Accept').redirect(BASE);
}

/** Returns the name of a file beside the page (an icon). For every other path, returns the name of the page. */
function fileNameFor(path: string, files: ReadonlyMap<string, BuiltFile>): string {
  return files.has(path) ? path : 'index.html';
}

/** Returns whether the host only counts opens and clicks: it does not serve the dashboard. */
function isOfTrackingHost(
  host: string,
  { trackingUrl, publicUrl }: Pick<HttpServices['config'], 'trackingUrl' | 'publicUrl'>,
): boolean {
  const tracking = hostOf(trackingUrl);
  return host === tracking && tracking !== hostOf(publicUrl);
}

function hostOf(url: string | null): string | null {
  return url === null ? null : new URL(url).host;
}
