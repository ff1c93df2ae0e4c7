/**
 * Replies instead of a mail server for test keys (docs/api.md). It never opens a connection.
 *
 * The local part without any `+label` decides the reply, at `simulator.test` or, for the names that Resend
 * documents, at `resend.dev`. Any other address is delivered.
 */
import {
  RESEND_DOMAIN,
  RESEND_NAMES,
  SIMULATOR_DOMAIN,
} from '../../suppressions/held-back-store.ts';
import type { World } from '../../lib/world.ts';
import { domainOf, localPartOf, type Address } from '../../mail/address.ts';
import type { SmtpReply } from '../../mail/replies/smtp-reply.ts';
import type { StoredMessage } from '../message/message-store.ts';
import type { ContentMemory } from '../memory/content-memory.ts';
import type { Delivery } from '../memory/delivery.ts';
import type { MessageBuilder } from '../message/message-builder.ts';
import { SUPPRESSED } from './outcomes-without-reply.ts';
import { type Disposition, attemptRecord, type AttemptResult, outcomeOf } from './outcome.ts';

type Simulated =
  | { kind: 'replied'; phase: 'rcpt' | 'data'; reply: SmtpReply; thenComplains: boolean }
  | { kind: 'suppressed' }
  | { kind: 'wait'; delayMs: number };

export const SIMULATOR_HOST = 'simulator.letterhaus.invalid';
/** The provider of test mail. It has no dot, so no destination or host has the same name. */
export const SIMULATOR_PROVIDER = 'simulator';

const SLOW_DELAY_MS = 30_000;
const DEFERRALS = 2;

const OK: SmtpReply = { code: 250, enhancedCode: '2.0.0', message: 'OK: simulated delivery' };

const REFUSALS: Readonly<Record<string, SmtpReply>> = {
  bounced: { code: 550, enhancedCode: '5.1.1', message: 'No such user here (simulated)' },
  blocked: { code: 550, enhancedCode: '5.7.1', message: 'Blocked by policy (simulated)' },
  full: { code: 452, enhancedCode: '4.2.2', message: 'Mailbox full (simulated)' },
};

const GREYLISTED: SmtpReply = {
  code: 451,
  enhancedCode: '4.7.1',
  message: 'Greylisted, try again in a moment (simulated)',
};

type SimulatorOptions = {
  world: World;
  builder: Pick<MessageBuilder, 'build'>;
  contents: Pick<ContentMemory, 'use'>;
};

export async function attemptSimulated(
  delivery: Delivery,
  { world, builder, contents }: SimulatorOptions,
): Promise<Disposition> {
  const startedMs = world.monotonicMs();
  const startedAt = new Date(world.now());
  // The message is built and signed as for a live key, so that the same errors occur.
  const build = (content: StoredMessage) => builder.build(content, delivery);
  const message = await (delivery.content === null
    ? contents.use(delivery, build)
    : build(delivery.content));
  if ('kind' in message) return { kind: 'release', delayMs: Math.ceil(message.delayMs) };
  const simulated = simulate(delivery.address, delivery.attempts, delivery.claim);
  if (simulated.kind === 'wait') return { kind: 'release', delayMs: simulated.delayMs };
  if (simulated.kind === 'suppressed') {
    return { kind: 'settle', outcome: SUPPRESSED, attempt: null, startedMs: null };
  }
  const { phase, reply, thenComplains } = simulated;
  const result: AttemptResult = {
    kind: 'replied',
    phase,
    reply,
    via: { mx: SIMULATOR_HOST, ip: null, tls: null, tls_policy: 'none' },
    source: '',
    transcript: [`S: ${reply.code} ${reply.enhancedCode ?? ''} ${reply.message}`],
  };
  const outcome = outcomeOf(result, 'delivered');
  const durationMs = world.monotonicMs() - startedMs;
  const attempt = attemptRecord(delivery, result, { message, startedAt, durationMs, phases: null });
  return { kind: 'settle', outcome, attempt, startedMs, thenComplains };
}

/**
 * Returns the reply of the simulator, or another fate, by the name in the address.
 * @param attempts number of earlier attempts
 * @param claim number of claims of the recipient, 1 or more
 */
export function simulate(address: Address, attempts: number, claim: number): Simulated {
  const name = scenarioOf(address);
  const refusal = Object.hasOwn(REFUSALS, name) ? REFUSALS[name] : undefined;
  if (refusal) return replied('rcpt', refusal);
  switch (name) {
    case 'suppressed':
      return { kind: 'suppressed' };
    case 'deferred':
      return attempts < DEFERRALS ? replied('rcpt', GREYLISTED) : replied('data', OK);
    case 'slow':
      return claim === 1 ? { kind: 'wait', delayMs: SLOW_DELAY_MS } : replied('data', OK);
    case 'complained':
      return { ...replied('data', OK), thenComplains: true };
    default:
      return replied('data', OK);
  }
}

function scenarioOf(address: Address): string {
  const name = localPartOf(address).toLowerCase().split('+', 1)[0] ?? '';
  const domain = domainOf(address);
  if (domain === SIMULATOR_DOMAIN) return name;
  const isKnown = domain === RESEND_DOMAIN && RESEND_NAMES.some((known) => known === name);
  return isKnown ? name : '';
}

function replied(
  phase: 'rcpt' | 'data',
  reply: SmtpReply,
): Extract<Simulated, { kind: 'replied' }> {
  return { kind: 'replied', phase, reply, thenComplains: false };
}
