/**
 * One attempt of a webhook delivery: opens the secrets, signs, posts, and reads the response. The sender and the test
 * of an endpoint share it, so a test behaves like a delivery. No transaction is open meanwhile.
 */
import {
  type GuardedResponse,
  guardedRequest,
  type HttpAgents,
} from '../../net/http/guarded-client.ts';
import { inSpan, type SpanOptions } from '../../lib/tracing/spans.ts';
import type { World } from '../../lib/world.ts';
import type { AddressGuard } from '../../net/ip-addresses.ts';
import type { Resolver } from '../../net/dns/resolver.ts';
import type { SecretBox } from '../../secrets/secret-box.ts';
import type { StoredEvent } from '../delivery-store.ts';
import type { PayloadFormat, SealedSecrets } from '../endpoint-store.ts';
import { outcomeOfResponse, type ResponseOutcome } from './response.ts';
import { formatPayload, type OtherFormats, signedHeaders } from './signed-request.ts';

export type WebhookAttemptOptions = {
  world: World;
  secrets: SecretBox;
  resolver: Pick<Resolver, 'a' | 'aaaa'>;
  guard: AddressGuard;
  agents?: HttpAgents;
  otherFormats: OtherFormats;
};

type WebhookRequest = SealedSecrets & {
  endpointId: string;
  eventId: string;
  url: string;
  format: PayloadFormat;
  event: StoredEvent;
  /** Failed attempts before this one. */
  attempts: number;
  /** The span that accepted the email of the event (lib/tracing/spans.ts). */
  traceparent?: string | null;
};

const TIMEOUT_MS = 15_000;
const RESPONSE_KEPT_BYTES = 4_096;

/** @throws SecretUnopenable when the current secret cannot be decrypted */
export async function attemptWebhook(
  options: WebhookAttemptOptions,
  request: WebhookRequest,
): Promise<ResponseOutcome> {
  const { world } = options;
  const { attempts } = request;
  return inSpan('webhook', spanOf(request), async (span) => {
    const response = await post(options, request, span?.traceparent ?? null);
    const outcome = outcomeOfResponse(response, {
      attempts,
      random: world.random(),
      nowMs: world.now(),
    });
    const { status } = outcome.attempt;
    span?.set({ 'http.response.status_code': status ?? undefined });
    if (outcome.kind !== 'delivered') span?.fail(status === null ? 'no_response' : String(status));
    return outcome;
  });
}

function spanOf({ url, event, endpointId, eventId, attempts, traceparent }: WebhookRequest) {
  return {
    kind: 'client',
    link: traceparent ?? null,
    attributes: {
      'http.request.method': 'POST',
      'server.address': new URL(url).hostname,
      'letterhaus.event.type': event.type,
      'letterhaus.event.id': eventId,
      'letterhaus.webhook.id': endpointId,
      'letterhaus.attempt': attempts + 1,
    },
  } satisfies SpanOptions;
}

function post(
  options: WebhookAttemptOptions,
  request: WebhookRequest,
  traceparent: string | null,
): Promise<GuardedResponse> {
  const { world, guard, resolver, agents, otherFormats } = options;
  const { eventId, url, event, format } = request;
  const body = formatPayload(event, format, otherFormats);
  const timestampS = Math.floor(world.now() / 1000);
  const secrets = openSecrets(options, request);
  return guardedRequest({
    url,
    method: 'POST',
    headers: {
      ...signedHeaders({ id: eventId, timestampS, body }, secrets),
      ...(traceparent !== null && { traceparent }),
    },
    body,
    guard,
    resolver,
    world,
    timeoutMs: TIMEOUT_MS,
    maxResponseBytes: RESPONSE_KEPT_BYTES,
    allowHttp: guard.allowPrivate,
    ...(agents && { agents }),
  });
}

/** Returns the valid secrets, newest first. */
function openSecrets({ secrets }: WebhookAttemptOptions, request: WebhookRequest): string[] {
  const { endpointId, secret, previousSecret, earlierSecret } = request;
  const current = secrets.open(secret, endpointId);
  // Skips earlier secrets that cannot be opened, so that a new secret repairs the endpoint.
  const earlier = [previousSecret, earlierSecret]
    .filter((sealed) => sealed !== null)
    .filter((sealed) => secrets.opens(sealed, endpointId));
  return [current, ...earlier.map((sealed) => secrets.open(sealed, endpointId))];
}
