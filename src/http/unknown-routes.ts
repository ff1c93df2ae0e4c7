/** Routes of everything else: a path that does not exist, or a method that the path does not support. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { sendFailure } from './errors.ts';

const METHODS = ['GET', 'HEAD', 'POST', 'PATCH', 'PUT', 'DELETE'] as const;

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
      message: 'This path does not exist; /docs and /openapi.json list all paths.',
    });
  }
  return sendFailure(reply.header('allow', allowed.join(', ')), {
    status: 405,
    code: 'method_not_allowed',
    message: `This path does not support ${method}; it supports ${allowed.join(', ')}.`,
  });
}
