/**
 * Handles paths before routing: removes a slash at the end, prefers a fixed path to one with a parameter, and refuses
 * an unknown path or method before the body is read.
 */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { sendFailure } from '../errors.ts';
import type { RootFormat } from '../root-format.ts';

const METHODS = ['GET', 'HEAD', 'POST', 'PATCH', 'PUT', 'DELETE'] as const;

/**
 * Removes a slash at the end of an API path, on both mounts and for every method: `POST /v1/emails/` is
 * `POST /v1/emails`. Access rules, logs and metrics then see one path, and clients are not redirected. Other paths
 * (static files, links for recipients) and encoded slashes stay.
 * @param url path and query of a request
 */
export function withoutTrailingSlash(url: string, rootFormat: RootFormat | null): string {
  const queryStart = url.indexOf('?');
  const pathEnd = queryStart < 0 ? url.length : queryStart;
  if (url[pathEnd - 1] !== '/' || !isOfApi(url, rootFormat)) return url;
  let cutEnd = pathEnd;
  while (url[cutEnd - 1] === '/') cutEnd -= 1;
  return `${url.slice(0, cutEnd)}${url.slice(pathEnd)}`;
}

function isOfApi(url: string, rootFormat: RootFormat | null): boolean {
  return /^\/+v1\//.test(url) || rootFormat?.hasPath(url) === true;
}

/**
 * Paths without a parameter, and their methods. Without this check `DELETE /v1/suppressions/export` would match
 * `DELETE /v1/suppressions/{address}`.
 */
export class FixedPaths {
  readonly #methods = new Map<string, Set<string>>();

  add({ url, method }: { url: string; method: string | string[] }): void {
    if (url.includes(':')) return;
    const methods = this.#methods.get(url) ?? new Set();
    for (const name of [method].flat()) methods.add(name);
    this.#methods.set(url, methods);
  }

  methodsOf({ url }: FastifyRequest): ReadonlySet<string> | null {
    const path = url.split('?', 1)[0]!.replaceAll(/\/+/g, '/');
    return this.#methods.get(path) ?? null;
  }

  /** Returns whether the path is a fixed one that does not support the method of the request. */
  refuses(request: FastifyRequest): boolean {
    if (request.routeOptions.url?.includes(':') !== true) return false;
    return this.methodsOf(request)?.has(request.method) === false;
  }
}

/** Sends 405 with the methods of the path, else 404. Runs before the body is read. */
export function refuseUnknownRoute(
  { app, fixedPaths }: { app: Pick<FastifyInstance, 'findRoute'>; fixedPaths: FixedPaths },
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const { method, url } = request;
  const fixedMethods = fixedPaths.methodsOf(request);
  const allowed = METHODS.filter((candidate) =>
    fixedMethods === null
      ? app.findRoute({ method: candidate, url }) !== null
      : fixedMethods.has(candidate),
  );
  if (allowed.length === 0) {
    return sendFailure(reply, {
      status: 404,
      code: 'not_found',
      message: 'This path does not exist; /docs/reference and /openapi.json list all paths.',
    });
  }
  return sendFailure(reply.header('allow', allowed.join(', ')), {
    status: 405,
    code: 'method_not_allowed',
    message: `This path does not support ${method}; it supports ${allowed.join(', ')}.`,
  });
}
