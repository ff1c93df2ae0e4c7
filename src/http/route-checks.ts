/**
 * Gives every route the checks that its `config` asks for (services.ts). A route that says nothing
 * gets them all: forgetting is safe.
 */
import type { onRequestHookHandler, preValidationHookHandler } from 'fastify';
import { AuthLimiter } from '../auth/auth-limiter.ts';
import { requireAllDomains, requireFullAccess, requireKey } from './authenticate.ts';
import { accountForBodies } from './body-budget.ts';
import type { Connections } from './connections.ts';
import { sendProblem } from './errors.ts';
import { KeyCache } from '../auth/key-cache.ts';
import { KeyUse } from '../auth/key-use.ts';
import { limitHeadersAlways } from './limit-headers.ts';
import type { App, HttpServices } from './services.ts';
import { BODY_MAX_BYTES, NOT_JSON, TOO_LARGE } from './problems.ts';

export function checkRoutes(app: App, services: HttpServices, connections: Connections): void {
  const { db, world, config } = services;
  const keys = new KeyCache(db, world);
  const use = new KeyUse(db);
  const accounts = accountForBodies();
  const limiter = new AuthLimiter(db, world, config.limits.auth);
  const checking = { limiter, use, connections };
  const needsKey = requireKey({ ...checking, find: (text) => keys.findNow(text) });
  // Accepting checks the key again in its own statement, so that memory will do before it.
  const needsKeyToSend = requireKey({ ...checking, find: (text) => keys.find(text) });
  const tellsLimit = limitHeadersAlways(services);
  app.decorateRequest('caller', null);
  app.decorateRequest('bodyAccount', null);
  app.decorate('forgetKey', (keyId: string) => keys.forget(keyId));
  app.addHook('onClose', () => use.close());
  app.addHook('onRoute', (route) => {
    const { access = 'full_access', limit, streams, withinDomain } = route.config ?? {};
    const checks: onRequestHookHandler[] = [];
    if (access !== 'public') checks.push(limit === 'sending' ? needsKeyToSend : needsKey);
    if (access === 'full_access') checks.push(requireFullAccess);
    if (access !== 'public' && !withinDomain) checks.push(requireAllDomains);
    if (limit) route.onSend = tellsLimit;
    if (streams) {
      route.onRequest = [...checks, streams];
      return;
    }
    route.onRequest = [...checks, refuseBody, accounts];
    if (route.schema?.body) route.preValidation = emptyBodyIsObject;
  });
}

/** Size and type of a body, before it is read. A GET may carry one, which is ignored. */
const refuseBody: onRequestHookHandler = (request, reply, done) => {
  const { headers, method } = request;
  if (method === 'GET' || method === 'HEAD') return done();
  if (Number(headers['content-length']) > BODY_MAX_BYTES) return void sendProblem(reply, TOO_LARGE);
  const { 'content-encoding': encoding = 'identity' } = headers;
  if (encoding.toLowerCase() !== 'identity') return void sendProblem(reply, NOT_JSON);
  done();
};

/** A POST without body and without type is a POST of `{}`. */
const emptyBodyIsObject: preValidationHookHandler = (request, _reply, done) => {
  request.body ??= {};
  done();
};
