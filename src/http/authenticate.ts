/**
 * Who is calling: the key is checked before the body is read and before anything else is said about
 * the request, then its permission.
 */
import type { FastifyReply, FastifyRequest, onRequestHookHandler } from 'fastify';
import { parseApiKey } from '../core/api-key.ts';
import type { Caller } from '../core/scope.ts';
import type { AuthLimiter } from '../auth/auth-limiter.ts';
import { clientOf } from '../net/addresses.ts';
import type { Connections } from './connections.ts';
import { refuse } from './errors.ts';
import type { KeyCache } from '../auth/key-cache.ts';
import type { KeyUse } from '../auth/key-use.ts';

const NO_KEY = 'There is no API key; send the header Authorization: Bearer <API key>.';
const NO_SUCH_FORM =
  'This is not an API key: keys begin with ph_live_ or ph_test_; perhaps it was not copied whole.';
/** Unknown, revoked and expired keys get this one message: which of them it is, is nobody's business. */
export const KEY_REFUSED = 'The API key is not valid; check it, or make a new one.';
const SENDING_ONLY =
  'This key may only send, and read what it sent; use a key with full access for this.';

/** The holder of the key. Every route that is not public has one. */
export function callerOf(request: FastifyRequest): Caller {
  if (request.caller === null) throw new Error('this route is public: it has no caller');
  return request.caller;
}

export type Authentication = {
  find: KeyCache['find'];
  limiter: AuthLimiter;
  use: KeyUse;
  connections: Connections;
};

/** The hook that lets only holders of a valid key pass. */
export function requireKey({
  find,
  limiter,
  use,
  connections,
}: Authentication): onRequestHookHandler {
  const pass = (request: FastifyRequest, caller: Caller): void => {
    request.caller = caller;
    use.note(caller);
    connections.know(request.raw.socket, caller.projectId);
  };
  const fail = async (request: FastifyRequest, reply: FastifyReply, message: string) => {
    const { allowed, limit } = await limiter.count(clientOf(request.ip));
    if (allowed) refuse(reply, { refused: 'authentication_error', message, limit });
    else refuse(reply, { refused: 'rate_limit_error', message: tooMany(limit.resetS), limit });
  };
  return (request, reply, done) => {
    const text = bearerToken(request.headers.authorization);
    if (text === null) return void fail(request, reply, NO_KEY).catch(done);
    const found = find(text);
    if (found !== null && !(found instanceof Promise)) {
      pass(request, found);
      return done();
    }
    Promise.resolve(found)
      .then((caller) => {
        if (caller === null) return fail(request, reply, whyRefused(text));
        pass(request, caller);
        return done();
      })
      .catch(done);
  };
}

/** After requireKey: turns away keys that may only send. */
export const requireFullAccess: onRequestHookHandler = (request, reply, done) => {
  if (callerOf(request).permission === 'full_access') return done();
  refuse(reply, { refused: 'authorization_error', message: SENDING_ONLY });
};

/** After requireKey: turns away keys for one domain, where what is asked for belongs to all of them. */
export const requireAllDomains: onRequestHookHandler = (request, reply, done) => {
  const { domain } = callerOf(request);
  if (domain === null) return done();
  const message = `This key is limited to ${domain}, and this belongs to all domains of the project; use a key without a domain.`;
  refuse(reply, { refused: 'authorization_error', message });
};

function whyRefused(text: string): string {
  return parseApiKey(text) === null ? NO_SUCH_FORM : KEY_REFUSED;
}

/** RFC 6750 §2.1; the name of the scheme in any case. */
export function bearerToken(header: string | undefined): string | null {
  return /^Bearer +([^ ]+)$/i.exec(header ?? '')?.[1] ?? null;
}

function tooMany(resetS: number): string {
  return `Too many requests without a valid API key came from your address; try again in ${resetS} s.`;
}
