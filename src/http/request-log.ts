/**
 * One line per request: what was asked, how it ended, how long it took. Ids only; no addresses, no
 * paths (a path can contain an address), no bodies, no keys.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { App, HttpServices } from './services.ts';

export function logRequests(app: App, log: HttpServices['log']): void {
  app.addHook('onResponse', (request, reply, done) => {
    logRequest(log, request, reply);
    done();
  });
}

function logRequest(log: HttpServices['log'], request: FastifyRequest, reply: FastifyReply): void {
  const facts = {
    method: request.method,
    route: request.routeOptions.url ?? null,
    status: reply.statusCode,
    ms: Math.round(reply.elapsedTime * 10) / 10,
    request_id: request.id,
    project_id: request.caller?.projectId,
  };
  log.info(facts, 'request');
}
