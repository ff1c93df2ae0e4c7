/**
 * The interface of an API that is mounted at the root, beside `/v1`: which paths are its own, and the format of their
 * bodies and failures. The room of that API implements it, and the service mounts it (service/worker/server.ts), so
 * this room knows no other service's API.
 */
import type { FastifyRequest } from 'fastify';

/** A failure to render (errors.ts). */
export type RenderedFailure = {
  status: number;
  code: string;
  message: string;
  details?: readonly { field: string }[] | undefined;
};

export type RootFormat = {
  /** Returns whether a path is one of the mounted API. Called for every request. */
  hasPath(url: string): boolean;
  renderFailure(
    failure: RenderedFailure,
    context: { requestId: string; hasKey: boolean },
  ): { status: number; body: string };
  /** Rewrites the bytes of a JSON body before they are parsed. */
  rewriteJson(json: Buffer): Buffer;
};

declare module 'fastify' {
  interface FastifyInstance {
    /** Null when only `/v1` is served. */
    rootFormat: RootFormat | null;
  }
}

/** Returns the format of the mounted API when the request is for one of its paths; null for all others. */
export function rootFormatOf({
  server,
  url,
}: Pick<FastifyRequest, 'server' | 'url'>): RootFormat | null {
  const { rootFormat } = server;
  return rootFormat !== null && rootFormat.hasPath(url) ? rootFormat : null;
}
