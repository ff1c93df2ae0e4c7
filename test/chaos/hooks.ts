/**
 * The receivers of webhooks: one server, an endpoint per path, moods while faults go on. Every
 * signature is checked as it comes, by the reference verifier, which has an opinion on its age.
 */
import {
  type Behaviour,
  type Received,
  startReceiver,
  verified,
} from '../support/webhook-receiver.ts';
import type { Dice } from './dice.ts';
import type { WebhookSet } from './ledger-types.ts';

export type Endpoint = {
  path: string;
  environment: 'live' | 'test';
  /** null: all. */
  types: readonly string[] | null;
};

export const ENDPOINTS: readonly Endpoint[] = [
  { path: '/all', environment: 'live', types: null },
  { path: '/endings', environment: 'live', types: ['email.delivered', 'email.bounced'] },
  { path: '/test', environment: 'test', types: null },
];

const MOODS: readonly Behaviour[] = [
  500,
  503,
  { status: 429, headers: { 'retry-after': '1' } },
  { status: 301, headers: { location: 'http://127.0.0.1:9/' } },
  'break off',
  'hang',
];

export type Hooks = AsyncDisposable & {
  url: string;
  /** Of an endpoint; what comes to it before is taken for wrongly signed. */
  setSecret(path: string, secret: string): void;
  changeMood(dice: Dice): string;
  settle(): void;
  received(path: string): WebhookSet['received'];
  count(): number;
};

export async function startHooks(): Promise<Hooks> {
  const secrets = new Map<string, string>();
  const heard = new Map(
    ENDPOINTS.map(({ path }) => [
      path,
      new Map<string, { bodies: Set<string>; isVerified: boolean }>(),
    ]),
  );
  const moods = new Map<string, Behaviour>();
  const receiver = await startReceiver((webhook) => {
    note(webhook);
    // Only what is noted is kept: a long run has a hundred thousand of them.
    receiver.received.length = 0;
    return moods.get(webhook.path) ?? 200;
  });
  const note = (webhook: Received): void => {
    const set = heard.get(webhook.path)!;
    const before = set.get(webhook.id) ?? { bodies: new Set<string>(), isVerified: true };
    before.bodies.add(webhook.body);
    before.isVerified &&= isSigned(secrets.get(webhook.path) ?? '', webhook);
    set.set(webhook.id, before);
  };
  return {
    url: receiver.url,
    setSecret: (path, secret) => void secrets.set(path, secret),
    changeMood(dice) {
      const { path } = dice.pick(ENDPOINTS);
      const mood = dice.chance(0.5) ? 200 : dice.pick(MOODS);
      moods.set(path, mood);
      return `webhooks to ${path}: ${JSON.stringify(mood)}`;
    },
    settle: () => moods.clear(),
    received: (path) => heard.get(path)!,
    count: () => [...heard.values()].reduce((sum, { size }) => sum + size, 0),
    [Symbol.asyncDispose]: () => receiver[Symbol.asyncDispose](),
  };
}

function isSigned(secret: string, webhook: Received): boolean {
  try {
    verified(secret, webhook);
    return true;
  } catch {
    return false;
  }
}
