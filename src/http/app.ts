/**
 * The HTTP server: from bytes on a socket to a route, with one shape for all failures.
 *
 * Clients rely on the order of the checks: HTTP syntax (http/socket/raw-responses.ts), route and method, key and
 * permission, size and type of the body (access.ts), JSON (http/socket/json-body.ts), schema (validation.ts), the
 * route.
 */
import type { Server } from 'node:http';
import type { Server as TlsServer, ServerOptions } from 'node:https';
import type { TLSSocket } from 'node:tls';
import fastify, {
  type FastifyReply,
  type FastifyRequest,
  type onRequestHookHandler,
} from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import type { RefusedLogIn } from '../accounts/sign-in/refused-log-ins.ts';
import { Overloaded } from '../core/refusals.ts';
import { registerAccessChecks } from './access.ts';
import { registerAllRoutes } from './all-routes.ts';
import { isFromLocalOperator } from './socket/local-operator.ts';
import { registerRequestLog } from '../requests/http-log.ts';
import { auditChanges } from '../accounts/audit/http-audit.ts';
import { wholeBodyParser } from './socket/bodies.ts';
import {
  CONNECTION_LIMITS,
  type ConnectionLimits,
  ClientConnections,
  rawSocketOf,
} from './socket/client-connections.ts';
import {
  BODY_MAX_BYTES,
  createErrorHandler,
  malformed,
  PATH_TOO_LONG,
  sendFailure,
  STOPPING,
} from './errors.ts';
import { jsonBodyParser } from './socket/json-body.ts';
import {
  respondToClearText,
  respondToClientError,
  respondTooLate,
  refuseRawInput,
} from './socket/raw-responses.ts';
import { isBrowserVisit, redirectToDashboard } from './dashboard/routes.ts';
import type { RootFormat } from './root-format.ts';
import type { App, Certificate, HttpServices } from './services.ts';
import { FixedPaths, refuseUnknownRoute, withoutTrailingSlash } from './socket/paths.ts';
import { validatorCompiler } from './validation.ts';
import { plainAddress, sharedAddresses } from '../net/ip-addresses.ts';
import { hostProblem } from '../net/http/host-field.ts';

type HttpTimeouts = {
  headersMs: number;
  requestMs: number;
  /** Limit on the pause between two pieces of an upload (http/socket/bodies.ts). */
  silenceMs: number;
  /** Milliseconds that requests in progress may take when the service stops. */
  closeMs: number;
};

/** An API that is mounted at the root, beside `/v1`. */
export type RootMount = {
  format: RootFormat;
  registerRoutes(app: App, services: HttpServices): void;
};

export type AppOptions = {
  /** Absent when only `/v1` is served. */
  rootMount?: RootMount;
  timeouts?: HttpTimeouts;
  /** Registers plugins, which apply only to routes that are registered after them. */
  beforeRoutes?: (app: App) => void;
  connections?: Partial<ConnectionLimits>;
  /** Returns whether many clients share an address. By default: trusted proxies and this machine. */
  isShared?: (address: string) => boolean;
};

const TIMEOUTS: HttpTimeouts = {
  headersMs: 10_000,
  requestMs: 30_000,
  silenceMs: 30_000,
  closeMs: 10_000,
};
const PATH_MAX_LENGTH = 8 * 1024;
const TLS_MINIMUM = { minVersion: 'TLSv1.2' } as const;

/** Passed as factories, because fastify would otherwise load Ajv, which takes 60 ms of a worker's start. */
const COMPILERS = {
  buildValidator: () => validatorCompiler,
  buildSerializer: () => () => JSON.stringify,
};

export function buildApp(services: HttpServices, options: AppOptions = {}): App {
  const { timeouts = TIMEOUTS, rootMount } = options;
  const app = createFastify(services, timeouts, rootMount?.format ?? null);
  const connections = limitConnections(app, services, options);
  logRequests(app, services);
  countRequests(app, services.onResponseSent);
  app.addHook('onRequest', createFirstChecks(app, services, connections));
  registerAccessChecks(app, services, connections);
  auditChanges(app, services);
  registerRequestLog(app, services);
  app.addHook('preClose', (done) => {
    services.attachmentUrls.stop();
    done();
  });
  app.addHook('onClose', () => services.accounts.keyUsage.close());
  options.beforeRoutes?.(app);
  // Plugins load first, because they apply only to routes that are registered later.
  app.after(() => {
    registerAllRoutes(app, services, timeouts);
    rootMount?.registerRoutes(app, services);
  });
  return app;
}

function createFastify(
  services: HttpServices,
  timeouts: HttpTimeouts,
  rootFormat: RootFormat | null,
): App {
  const { world, config, certificate } = services;
  const handleError = createErrorHandler(services);
  const http = {
    headersTimeout: timeouts.headersMs,
    connectionsCheckingInterval: Math.min(1_000, timeouts.headersMs),
    // createFirstChecks refuses a wrong Host header in JSON; Node would refuse it in plain text.
    requireHostHeader: false,
  };
  const app = fastify({
    bodyLimit: BODY_MAX_BYTES,
    requestTimeout: timeouts.requestMs,
    http,
    // Fastify's types distinguish HTTPS servers. The parts used here are the same.
    ...(certificate === null
      ? {}
      : ({ https: { ...http, ...tlsOptions(certificate, timeouts.headersMs) } } as object)),
    // A parameter may be an address with every octet escaped, or a tracked link.
    routerOptions: { ignoreDuplicateSlashes: true, maxParamLength: 2_048 },
    trustProxy: config.trustedProxies.length > 0 && [...config.trustedProxies],
    rewriteUrl: ({ url = '/' }) => withoutTrailingSlash(url, rootFormat),
    genReqId: () => world.newId(),
    return503OnClosing: false,
    frameworkErrors: (error, request, reply) => void handleError(error, request, reply),
    clientErrorHandler: (error, socket) => respondToClientError(error, socket, services),
    // Fastify's types know only Ajv's compilers.
    ...({ schemaController: { compilersFactory: COMPILERS } } as object),
  }).withTypeProvider<ZodTypeProvider>();
  app.decorate('rootFormat', rootFormat);
  app.setErrorHandler(handleError);
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', wholeBodyParser(jsonBodyParser));
  refuseRawInput(app.server, services);
  if (certificate !== null) followCertificate(app.server, certificate, services);
  closeWithin(app, timeouts.closeMs);
  return app;
}

function limitConnections(
  app: App,
  services: HttpServices,
  options: AppOptions,
): ClientConnections {
  const { config, log, world } = services;
  const connections = new ClientConnections({
    limits: { ...CONNECTION_LIMITS, ...options.connections },
    isShared: options.isShared ?? sharedAddresses(config.trustedProxies),
    world,
    log,
    onTimeout: (socket) => respondTooLate(socket, services),
  });
  connections.observe(app.server);
  app.addHook('onSend', (_request, reply, payload, done) => {
    const isWhole = typeof payload === 'string' || Buffer.isBuffer(payload);
    try {
      connections.countResponse(reply.raw, isWhole ? payload.length : payload === null ? 0 : null);
      done(null, payload);
    } catch (error) {
      done(error as Error);
    }
  });
  app.addHook('onClose', () => connections.stop());
  return connections;
}

function createFirstChecks(
  app: App,
  services: HttpServices,
  connections: ClientConnections,
): onRequestHookHandler {
  const fixedPaths = new FixedPaths();
  app.addHook('onRoute', (route) => fixedPaths.add(route));
  return (request, reply, done) => {
    const { raw } = request;
    reply.header('x-request-id', request.id);
    const problem = hostProblem(raw, request.url);
    if (problem !== null) return void sendFailure(reply, malformed(problem));
    if (request.url.length > PATH_MAX_LENGTH) return void sendFailure(reply, PATH_TOO_LONG);
    if (request.is404 && isBrowserVisit(request)) return void redirectToDashboard(reply);
    if (request.is404 || fixedPaths.refuses(request)) {
      return void refuseUnknownRoute({ app, fixedPaths }, request, reply);
    }
    const { access } = request.routeOptions.config;
    const isPublic = access === 'public';
    if ((isPublic || access === 'sign_in') && !connections.admitAnonymous(request.ip, reply.raw))
      return done(tooManyRequests());
    if (services.isStopping() && !isPublic) {
      return void sendFailure(reply.header('connection', 'close'), STOPPING);
    }
    done();
  };
}

function tooManyRequests(): Overloaded {
  return new Overloaded('too many requests from your address are in progress');
}

/**
 * Closes all connections within `graceMs`, the time for requests that have begun. Node alone closes only the
 * connections that are idle at that moment and waits for the others without a limit: closing the server disables its
 * timeouts, and a connection whose request ends later stays open for the next one.
 */
function closeWithin(app: App, graceMs: number): void {
  let isClosing = false;
  app.addHook('onSend', (_request, reply, payload, done) => {
    if (isClosing) reply.header('connection', 'close');
    done(null, payload);
  });
  app.addHook('preClose', (done) => {
    isClosing = true;
    const closeTimer = setTimeout(() => app.server.closeAllConnections(), graceMs);
    app.server.once('close', () => clearTimeout(closeTimer));
    done();
  });
}

/**
 * Logs one line per request with ids and the client only, because paths, bodies and headers can contain mail addresses
 * or keys. A refused log-in has a separate line. When a flood of them is only counted, the requests have no line.
 */
function logRequests(app: App, { log, onLogInRefused }: HttpServices): void {
  app.decorateRequest('refusedLogIn', null);
  app.addHook('onResponse', (request, reply, done) => {
    const isLogged = request.refusedLogIn === null || onLogInRefused(refusedLogInOf(request));
    if (isLogged && log.isLevelEnabled('info')) logRequest(log, request, reply);
    done();
  });
}

function refusedLogInOf({ refusedLogIn, ip, id }: FastifyRequest): RefusedLogIn {
  return { ...refusedLogIn!, client: plainAddress(ip), ids: { request_id: id } };
}

function countRequests(app: App, onResponseSent: HttpServices['onResponseSent']): void {
  app.addHook('onResponse', (request, reply, done) => {
    const { access, limit } = request.routeOptions.config;
    const kind = limit === 'sending' ? 'accept' : access === 'sign_in' ? 'sign_in' : 'other';
    const { method } = request;
    onResponseSent({ kind, method, status: reply.statusCode, seconds: reply.elapsedTime / 1_000 });
    done();
  });
}

function loggedClient({ routeOptions, ip }: FastifyRequest): string | undefined {
  return routeOptions.config.isForRecipients === true ? undefined : plainAddress(ip);
}

function logRequest(log: HttpServices['log'], request: FastifyRequest, reply: FastifyReply): void {
  const { url: route = null } = request.routeOptions;
  const logFields = {
    method: request.method,
    route,
    status: reply.statusCode,
    duration_ms: Math.round(reply.elapsedTime * 10) / 10,
    request_id: request.id,
    client: isFromLocalOperator(request) ? 'command' : loggedClient(request),
    project_id: request.caller?.projectId,
  };
  log.info(logFields, 'request');
}

function tlsOptions(certificate: Certificate, handshakeMs: number): ServerOptions {
  return {
    ...certificate.pems(),
    ...TLS_MINIMUM,
    ALPNProtocols: ['http/1.1'],
    // A name without its own context gets the context of setSecureContext.
    SNICallback: (name, done) => done(null, certificate.contextFor?.(name) ?? undefined),
    handshakeTimeout: handshakeMs,
  };
}

/**
 * Uses a renewed certificate from the next connection on, and responds to plain HTTP with a hint.
 * @param server created with tlsOptions
 */
function followCertificate(
  server: Server,
  certificate: Certificate,
  services: Pick<HttpServices, 'log' | 'world'>,
): void {
  const tls = server as unknown as TlsServer;
  let currentPems = certificate.pems();
  // Runs before the handshake begins.
  tls.prependListener('connection', () => {
    const pems = certificate.pems();
    if (pems === currentPems || pems === null) return;
    currentPems = pems;
    tls.setSecureContext({ ...pems, ...TLS_MINIMUM });
  });
  tls.on('tlsClientError', (error: Error & { code?: string }, socket: TLSSocket) => {
    const raw = rawSocketOf(socket);
    if (error.code === 'ERR_SSL_HTTP_REQUEST' && raw) respondToClearText(raw, services);
  });
}
