/** Decides what an endpoint's response means for the webhook delivery and for the endpoint. */
import { webhookRetryDelayMs } from '../../core/retry.ts';
import type { GuardedResponse } from '../../net/http/guarded-client.ts';
import type { WebhookOutcome } from './webhook-outcomes.ts';
import { DAY_MS, HOUR_MS } from '../../lib/units.ts';

export type AttemptOutcome = Pick<WebhookOutcome, 'kind' | 'retryMs' | 'suspendMs' | 'attempt'>;
type Attempt = NonNullable<AttemptOutcome['attempt']>;

/** The outcome of an attempt that was made. */
export type ResponseOutcome = AttemptOutcome & { attempt: Attempt };

/** Responses of an overloaded endpoint: their Retry-After applies to all of its deliveries. */
const OVERLOADED_STATUSES = [429, 502, 503, 504];
const RETRY_AFTER_MAX_MS = DAY_MS;
const SUSPENSION_MAX_MS = HOUR_MS;
/** Limit on the error text, because a certificate can name any number of hosts. */
const ERROR_KEPT_CHARACTERS = 500;

/**
 * Returns the outcome of an attempt from the endpoint's response, or from the failure to get one.
 * @param options.attempts failed attempts before this one
 * @param options.random a number, 0 (inclusive) to 1
 * @param options.nowMs wall time, for a Retry-After that names a date
 */
export function outcomeOfResponse(
  response: GuardedResponse,
  { attempts, random, nowMs }: { attempts: number; random: number; nowMs: number },
): ResponseOutcome {
  const attempt = attemptForLog(response);
  const status = response.kind === 'response' ? response.status : 0;
  if (status >= 200 && status < 300) {
    return { kind: 'delivered', retryMs: null, suspendMs: 0, attempt };
  }
  if (status === 410) return { kind: 'gone', retryMs: null, suspendMs: 0, attempt };
  const requestedMs = retryAfterMs(response, nowMs);
  const scheduledMs = webhookRetryDelayMs(attempts + 1, random);
  return {
    kind: 'failed',
    retryMs: scheduledMs === null ? null : Math.max(scheduledMs, requestedMs),
    suspendMs: OVERLOADED_STATUSES.includes(status) ? Math.min(requestedMs, SUSPENSION_MAX_MS) : 0,
    attempt,
  };
}

/** Returns the delay that Retry-After requests, in seconds or as a date (RFC 9110 §10.2.3); 0 without one. */
function retryAfterMs(response: GuardedResponse, nowMs: number): number {
  const text = response.kind === 'response' ? response.headers.retryAfter?.trim() : undefined;
  if (text === undefined) return 0;
  const ms = /^\d{1,10}$/.test(text) ? Number(text) * 1000 : Date.parse(text) - nowMs;
  return Number.isFinite(ms) ? Math.min(Math.max(ms, 0), RETRY_AFTER_MAX_MS) : 0;
}

function attemptForLog(response: GuardedResponse): Attempt {
  const latency_ms = response.latencyMs;
  if (response.kind === 'failed') {
    const error = response.publicMessage.replaceAll('\0', '\uFFFD').slice(0, ERROR_KEPT_CHARACTERS);
    return { status: null, latency_ms, answer: null, error };
  }
  const isRedirect = response.status >= 300 && response.status < 400;
  const error = isRedirect ? 'redirects are not followed: register the final URL' : null;
  return { status: response.status, latency_ms, answer: response.bodyStart, error };
}
