/**
 * One attempt: opens the secrets, signs, posts. The loop and the test of an endpoint come through
 * here, so that a test shows what will happen. No transaction is open meanwhile.
 */
import type { World } from '../core/world.ts';
import type { AddressGuard } from '../net/addresses.ts';
import type { Resolver } from '../net/dns/resolver.ts';
import { type GuardedAnswer, guardedRequest, type HttpAgents } from '../net/http/guarded-client.ts';
import type { SecretBox } from '../store/secrets.ts';
import type { StoredEvent, SealedSecrets } from '../store/webhook-endpoints.ts';
import { signatureHeaders } from './sign.ts';

export type Outbound = {
  world: World;
  secrets: SecretBox;
  resolver: Pick<Resolver, 'a' | 'aaaa'>;
  guard: AddressGuard;
  /** Connections to be used again; without them each attempt makes its own. */
  agents?: HttpAgents;
};

export type Message = SealedSecrets & {
  endpointId: string;
  eventId: string;
  url: string;
  /** What payloadOf made. */
  body: string;
};

const TIMEOUT_MS = 15_000;
const ANSWER_KEPT_BYTES = 4_096;

/** The body on the wire. `data` goes in byte for byte as it was recorded. */
export function payloadOf({ type, createdAt, data }: StoredEvent): string {
  return `{"type":${JSON.stringify(type)},"created_at":"${createdAt}","data":${data}}`;
}

/** @throws when the secret does not open: POSTHORN_SECRET_KEY is another one than it was */
export function post(outbound: Outbound, message: Message): Promise<GuardedAnswer> {
  const { world, guard, resolver, agents } = outbound;
  const { eventId, url, body } = message;
  const timestampS = Math.floor(world.now() / 1000);
  return guardedRequest({
    url,
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'user-agent': 'Posthorn-Webhooks',
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

function openSecrets({ secrets }: Outbound, message: Message): string[] {
  const { endpointId, secret, previousSecret } = message;
  const sealed = previousSecret === null ? [secret] : [secret, previousSecret];
  return sealed.map((one) => secrets.open(one, endpointId));
}
