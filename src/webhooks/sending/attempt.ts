/**
 * One attempt: decrypts the secrets, signs, posts, and reads the response. The sender and the test of an endpoint
 * share it, so a test behaves like a delivery. No transaction is open meanwhile.
 *
 * Signatures follow the Standard Webhooks specification (v1, symmetric): HMAC-SHA256 over `id.timestamp.body`, one
 * signature per valid secret. The same three values are also sent under the `svix-` names, which older verifiers
 * read.
 */
import { createHmac } from 'node:crypto';
import { webhookRetryDelayMs } from '../../core/retry.ts';
import {
  type GuardedAnswer,
  guardedRequest,
  type HttpAgents,
} from '../../net/http/guarded-client.ts';
import type { World } from '../../lib/world.ts';
import type { AddressGuard } from '../../net/addresses.ts';
import type { Resolver } from '../../net/dns/resolver.ts';
import type { SecretBox } from '../../secrets/secret-store.ts';
import type { StoredEvent } from '../delivery-store.ts';
import type { PayloadFormat, SealedSecrets } from '../endpoint-store.ts';
import type { WebhookOutcome } from './webhook-outcomes.ts';
import { resendPayload } from '../../compat/resend/wire/webhook-payload.ts';

export type Outbound = {
  world: World;
  secrets: SecretBox;
  resolver: Pick<Resolver, 'a' | 'aaaa'>;
  guard: AddressGuard;
  agents?: HttpAgents;
};

type Message = SealedSecrets & {
  endpointId: string;
  eventId: string;
  url: string;
  format: PayloadFormat;
  event: StoredEvent;
  attempts: number;
};

export type AttemptOutcome = Pick<WebhookOutcome, 'meaning' | 'retryMs' | 'suspendMs' | 'attempt'>;
type Attempt = NonNullable<AttemptOutcome['attempt']>;

const TIMEOUT_MS = 15_000;
const ANSWER_KEPT_BYTES = 4_096;

/** @throws SecretUnopenable when the current secret cannot be decrypted */
export async function attemptWebhook(
  outbound: Outbound,
  message: Message,
): Promise<AttemptOutcome & { attempt: Attempt }> {
  const answer = await post(outbound, message);
  const { world } = outbound;
  const { attempts } = message;
  return judge(answer, { attempts, random: world.random(), nowMs: world.now() });
}

function post(outbound: Outbound, message: Message): Promise<GuardedAnswer> {
  const { world, guard, resolver, agents } = outbound;
  const { eventId, url, event, format } = message;
  const body = payloadOf(event, format);
  const timestampS = Math.floor(world.now() / 1000);
  return guardedRequest({
    url,
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'user-agent': 'Letterhaus-Webhooks',
      ...signatureHeaders({ id: eventId, timestampS, body }, openSecrets(outbound, message)),
    },
    body,
    guard,
    resolver,
    world,
    timeoutMs: TIMEOUT_MS,
    maxResponseBytes: ANSWER_KEPT_BYTES,
    allowHttp: guard.allowPrivate,
    ...(agents && { agents }),
  });
}

/** Returns the request body. It contains `data` byte for byte, except in another service's format. */
export function payloadOf(event: StoredEvent, format: PayloadFormat = 'letterhaus'): string {
  if (format === 'resend') return resendPayload(event);
  const { type, createdAt, data } = event;
  return `{"type":${JSON.stringify(type)},"created_at":"${createdAt}","data":${data}}`;
}

function openSecrets({ secrets }: Outbound, message: Message): string[] {
  const { endpointId, secret, previousSecret, earlierSecret } = message;
  const present = secrets.open(secret, endpointId);
  // Skips earlier secrets that cannot be opened, so that a new secret repairs the endpoint.
  const earlier = [previousSecret, earlierSecret].filter(
    (one) => one !== null && secrets.opens(one, endpointId),
  );
  return [present, ...earlier.map((one) => secrets.open(one!, endpointId))];
}

const SECRET_PREFIX = 'whsec_';

/** The specification requires 24 to 64. */
export const SECRET_BYTES = 32;

export function secretText(random: Buffer): string {
  return SECRET_PREFIX + random.toString('base64');
}

/**
 * Returns the headers of one attempt.
 * @param message.id id of the event, the same for all retries
 * @param message.timestampS time of this attempt, Unix seconds; verifiers refuse a difference of 5 minutes
 * @param secrets newest first; two or three within 24 hours of a rotation
 */
export function signatureHeaders(
  { id, timestampS, body }: { id: string; timestampS: number; body: string },
  secrets: readonly string[],
): Record<string, string> {
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.slice(SECRET_PREFIX.length), 'base64');
    const mac = createHmac('sha256', key).update(`${id}.${timestampS}.${body}`).digest('base64');
    return `v1,${mac}`;
  });
  const values = { id, timestamp: String(timestampS), signature: signatures.join(' ') };
  return Object.fromEntries(
    Object.entries(values).flatMap(([name, value]) => [
      [`webhook-${name}`, value],
      [`svix-${name}`, value],
    ]),
  );
}

const BUSY = [429, 502, 503, 504];
/** Limit on the error text, because a certificate can name any number of hosts. */
const ERROR_KEPT_CHARACTERS = 500;
const RETRY_AFTER_MAX_MS = 24 * 3600_000;
const SUSPEND_MAX_MS = 3600_000;

/**
 * Decides what the response means for the delivery and its endpoint.
 * @param context.attempts failed attempts before this one
 * @param context.random a number, 0 (inclusive) to 1
 * @param context.nowMs wall time, for a Retry-After that names a date
 */
export function judge(
  answer: GuardedAnswer,
  { attempts, random, nowMs }: { attempts: number; random: number; nowMs: number },
): AttemptOutcome & { attempt: Attempt } {
  const attempt = logged(answer);
  const status = answer.kind === 'answered' ? answer.status : 0;
  if (status >= 200 && status < 300) {
    return { meaning: 'delivered', retryMs: null, suspendMs: 0, attempt };
  }
  if (status === 410) return { meaning: 'gone', retryMs: null, suspendMs: 0, attempt };
  const askedMs = retryAfterMs(answer, nowMs);
  const waitMs = webhookRetryDelayMs(attempts + 1, random);
  return {
    meaning: 'failed',
    retryMs: waitMs === null ? null : Math.max(waitMs, askedMs),
    suspendMs: BUSY.includes(status) ? Math.min(askedMs, SUSPEND_MAX_MS) : 0,
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
    const error = answer.shown.replaceAll('\0', '\uFFFD').slice(0, ERROR_KEPT_CHARACTERS);
    return { status: null, latency_ms, answer: null, error };
  }
  const redirected = answer.status >= 300 && answer.status < 400;
  const error = redirected ? 'redirects are not followed: register the final URL' : null;
  return { status: answer.status, latency_ms, answer: answer.bodyStart, error };
}
