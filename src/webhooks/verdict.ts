/**
 * What an answer means: delivered, to be tried again and when, or given up. Standard Webhooks: only
 * 2xx is success, a redirect is a failure like any other, 410 says that nobody listens any more.
 */
import { webhookRetryDelayMs } from '../core/retry.ts';
import type { GuardedAnswer } from '../net/http/guarded-client.ts';
import type { WebhookOutcome } from '../store/webhook-queue.ts';

export type Verdict = Pick<WebhookOutcome, 'verdict' | 'retryMs' | 'restMs' | 'attempt'>;
type Attempt = NonNullable<Verdict['attempt']>;

/** Answers with which a server says that it has too much to do. */
const BUSY = [429, 502, 503, 504];
/** A receiver may ask for patience, not for eternity. */
const RETRY_AFTER_MAX_MS = 24 * 3600_000;
const REST_MAX_MS = 3600_000;

/** An event that is older than what is kept cannot be told any more. */
export const NOTHING_TO_TELL: Verdict = {
  verdict: 'failed',
  retryMs: null,
  restMs: 0,
  attempt: null,
};

/**
 * @param context.attempts failed attempts before this one
 * @param context.dice a random number, 0 (inclusive) to 1
 * @param context.nowMs wall time, for a Retry-After that names a date
 */
export function judge(
  answer: GuardedAnswer,
  { attempts, dice, nowMs }: { attempts: number; dice: number; nowMs: number },
): Verdict & { attempt: Attempt } {
  const attempt = logged(answer);
  const status = answer.kind === 'answered' ? answer.status : 0;
  if (status >= 200 && status < 300) {
    return { verdict: 'delivered', retryMs: null, restMs: 0, attempt };
  }
  if (status === 410) return { verdict: 'gone', retryMs: null, restMs: 0, attempt };
  const askedMs = retryAfterMs(answer, nowMs);
  const waitMs = webhookRetryDelayMs(attempts + 1, dice);
  return {
    verdict: 'failed',
    retryMs: waitMs === null ? null : Math.max(waitMs, askedMs),
    restMs: BUSY.includes(status) ? Math.min(askedMs, REST_MAX_MS) : 0,
    attempt,
  };
}

/** RFC 9110 §10.2.3: seconds, or a date. */
function retryAfterMs(answer: GuardedAnswer, nowMs: number): number {
  const text = answer.kind === 'answered' ? answer.headers.retryAfter?.trim() : undefined;
  if (text === undefined) return 0;
  const ms = /^\d{1,10}$/.test(text) ? Number(text) * 1000 : Date.parse(text) - nowMs;
  return Number.isFinite(ms) ? Math.min(Math.max(ms, 0), RETRY_AFTER_MAX_MS) : 0;
}

function logged(answer: GuardedAnswer): Attempt {
  const latency_ms = answer.latencyMs;
  if (answer.kind === 'failed') {
    return { status: null, latency_ms, answer: null, error: answer.message };
  }
  const redirected = answer.status >= 300 && answer.status < 400;
  const error = redirected
    ? 'a redirect is never followed: register the address that it leads to'
    : null;
  return { status: answer.status, latency_ms, answer: answer.bodyStart, error };
}
