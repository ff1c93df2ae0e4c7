/**
 * Counts requests towards the limits of their project, and sets the rate-limit headers. Every response below 500 of a
 * limited route has them, and a 429 also has Retry-After (core/limits.ts contains the rules). The page of an
 * unsubscribe link that was changed too often is a 429 without them.
 */
import type { FastifyReply, FastifyRequest, onSendHookHandler } from 'fastify';
import { type Limit, limitRefusal, type LimitState } from '../../core/limits.ts';
import { refuse, setLimitHeaders } from '../../http/errors.ts';
import { isFromLocalOperator } from '../../http/socket/local-operator.ts';
import type { HttpServices } from '../../http/services.ts';
import { peekLimit, type RequestCategory, countRequest } from './limit-store.ts';

/** Returns a hook that sets the headers even if the request failed before it was counted, if the database answers. */
export function createLimitHeadersHook({ db, config }: HttpServices): onSendHookHandler {
  return (request, reply, _payload, done) => {
    const { caller, routeOptions } = request;
    const { limit: category } = routeOptions.config;
    const isSet = reply.hasHeader('ratelimit-limit') || reply.statusCode >= 500;
    if (isSet || caller === null || category === undefined) return done();
    peekLimit(db, { ...caller, category }, config.limits[category])
      .then((state) => setLimitHeaders(reply, state))
      .then(
        () => done(),
        () => done(),
      );
  };
}

/** Counts a request towards its limit and sets the headers. @returns false when the response was a 429 */
export async function countTowardsLimit(
  { db, config }: HttpServices,
  request: FastifyRequest,
  reply: FastifyReply,
  category: RequestCategory,
): Promise<boolean> {
  const { caller } = request;
  if (caller === null) throw new Error('a route with a limit has a caller');
  // Limits protect a project against its own programs, not against its operator.
  if (isFromLocalOperator(request)) return true;
  const size =
    category === 'dry_runs'
      ? limitOf(await peekLimit(db, { ...caller, category: 'sending' }, config.limits.sending))
      : config.limits[category];
  const { allowed, limit } = await countRequest(db, { ...caller, category }, size);
  if (allowed) {
    setLimitHeaders(reply, limit);
    return true;
  }
  refuse(reply, limitRefusal(category, limit));
  return false;
}

/** Returns the limit of dry runs, which is the sending limit of the project. */
function limitOf({ limit, windowS }: LimitState): Limit {
  return { max: limit, windowS };
}
