/**
 * The rate-limit headers, in both families of names: RateLimit-* (draft-ietf-httpapi-ratelimit-06)
 * and the plain names that the interface gives. Times are whole seconds from now. The policy says what
 * is counted where it is not requests.
 */
import type { FastifyReply, onSendHookHandler } from 'fastify';
import type { LimitState } from '../core/limits.ts';
import { peekLimit } from '../store/limits.ts';
import type { HttpServices } from './services.ts';

export function setLimitHeaders(reply: FastifyReply, state: LimitState): void {
  const counted = state.counts === undefined ? '' : `;comment="${state.counts}"`;
  reply.headers({
    'ratelimit-limit': state.limit,
    'ratelimit-remaining': state.remaining,
    'ratelimit-reset': state.resetS,
    'ratelimit-policy': `${state.limit};w=${state.windowS}${counted}`,
    limit: state.limit,
    remaining: state.remaining,
    reset: state.resetS,
  });
}

/**
 * The hook of a limited route: what failed before it came to counting still tells where the caller
 * stands. Without the database there is nothing to tell.
 */
export function limitHeadersAlways({ db, config }: HttpServices): onSendHookHandler {
  return (request, reply, _payload, done) => {
    const { caller, routeOptions } = request;
    const { limit: category } = routeOptions.config;
    const told = reply.hasHeader('ratelimit-limit') || reply.statusCode >= 500;
    if (told || caller === null || category === undefined) return done();
    peekLimit(db, { ...caller, category }, config.limits[category])
      .then((state) => setLimitHeaders(reply, state))
      .then(
        () => done(),
        () => done(),
      );
  };
}
