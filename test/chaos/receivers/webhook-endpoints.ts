/**
 * Receives webhooks: one server with an endpoint for each path, whose requests fail while faults go on. The reference
 * verifier checks every signature on arrival, because it also checks the age.
 */
import { Webhook } from 'standardwebhooks';
import {
  type Behaviour,
  type Received,
  startReceiver,
  verified,
} from '../../support/webhook-receiver.ts';
import type { RandomSource } from '../random.ts';
import type { WebhookSet } from '../ledger/ledger-types.ts';

export type Endpoint = {
  path: string;
  /** Owner of the endpoint. Endpoints of the attacker do not respond before `settle`. */
  owner: 'acme' | 'attacker';
  environment: 'live' | 'test';
  /** Event types that the endpoint subscribes to; null: all. */
  types: readonly string[] | null;
};

const OWN_ENDPOINTS: readonly Endpoint[] = [
  { path: '/all', owner: 'acme', environment: 'live', types: null },
  {
    path: '/endings',
    owner: 'acme',
    environment: 'live',
    types: ['email.delivered', 'email.bounced'],
  },
  { path: '/test', owner: 'acme', environment: 'test', types: null },
];

/** Endpoints of the attacker, more than the webhooks that a project may have under way at once. */
const HOSTILE_ENDPOINTS = Array.from({ length: 12 }, (_, n): Endpoint => ({
  path: `/hostile/${n}`,
  owner: 'attacker',
  environment: 'test',
  types: null,
}));

export const ENDPOINTS: readonly Endpoint[] = [...OWN_ENDPOINTS, ...HOSTILE_ENDPOINTS];

const WEBHOOK_FAULTS: readonly Behaviour[] = [
  500,
  503,
  { status: 429, headers: { 'retry-after': '1' } },
  { status: 301, headers: { location: 'http://127.0.0.1:9/' } },
  'break off',
  'hang',
];

/**
 * Maximum requests of a fault, slightly above the number that suspends an endpoint. A fault lasts for a number of
 * requests, not for a time, because a failing endpoint is suspended for longer each time.
 */
const REQUESTS_MAX = 8;

export type Hooks = AsyncDisposable & {
  url: string;
  /** Sets the secret of an endpoint. Earlier requests count as wrongly signed. */
  setSecret(path: string, secret: string): void;
  /** Makes a random endpoint fail for its next requests, if it has recovered from its last fault. */
  changeFault(random: RandomSource): void;
  settle(): void;
  /** Accepts any age of signatures from now on, because the clocks of nodes are wrong. */
  forgiveAge(): void;
  received(path: string): WebhookSet['received'];
  count(): number;
};

export async function startHooks(): Promise<Hooks> {
  const secrets = new Map<string, string>();
  const byPath = new Map(
    ENDPOINTS.map(({ path }) => [
      path,
      new Map<string, { bodies: Set<string>; isVerified: boolean }>(),
    ]),
  );
  const faults = new Map<string, { behaviour: Behaviour; left: number }>();
  /** Paths of endpoints that have responded with 200 since their last fault. */
  const hasRecovered = new Set<string>();
  const silent = new Set(HOSTILE_ENDPOINTS.map(({ path }) => path));
  let isAgeForgiven = false;
  const receiver = await startReceiver((webhook) => {
    note(webhook);
    // Only the notes are kept, because a long run has a hundred thousand webhooks.
    receiver.received.length = 0;
    if (silent.has(webhook.path)) return 'hang';
    const fault = faults.get(webhook.path);
    if (fault === undefined || fault.left === 0) {
      hasRecovered.add(webhook.path);
      return 200;
    }
    fault.left -= 1;
    return fault.behaviour;
  });
  const note = (webhook: Received): void => {
    const set = byPath.get(webhook.path)!;
    const before = set.get(webhook.id) ?? { bodies: new Set<string>(), isVerified: true };
    before.bodies.add(webhook.body);
    before.isVerified &&= isSigned(secrets.get(webhook.path) ?? '', webhook, isAgeForgiven);
    set.set(webhook.id, before);
  };
  return {
    url: receiver.url,
    setSecret: (path, secret) => void secrets.set(path, secret),
    changeFault(random) {
      const { path } = random.pick(OWN_ENDPOINTS);
      const fault = {
        behaviour: random.pick(WEBHOOK_FAULTS),
        left: random.between(1, REQUESTS_MAX),
      };
      if (hasRecovered.delete(path)) faults.set(path, fault);
    },
    settle() {
      faults.clear();
      silent.clear();
    },
    forgiveAge: () => void (isAgeForgiven = true),
    received: (path) => byPath.get(path)!,
    count: () => [...byPath.values()].reduce((sum, { size }) => sum + size, 0),
    [Symbol.asyncDispose]: () => receiver[Symbol.asyncDispose](),
  };
}

function isSigned(secret: string, webhook: Received, isAgeForgiven: boolean): boolean {
  try {
    verified(secret, webhook);
    return true;
  } catch {
    return isAgeForgiven && isSignedSometime(secret, webhook);
  }
}

function isSignedSometime(secret: string, { id, body, headers }: Received): boolean {
  const at = new Date(Number(headers['webhook-timestamp']) * 1_000);
  return secret !== '' && new Webhook(secret).sign(id, at, body) === headers['webhook-signature'];
}
