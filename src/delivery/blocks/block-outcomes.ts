/** Outcomes of mail to a provider that refuses our address or the sending domain (provider-blocks.ts). */
import type { BlockKey } from './block-store.ts';
import { withoutReply } from '../attempt/outcomes-without-reply.ts';
import type { Outcome } from '../attempt/outcome.ts';

/** Names nothing that changes during a block, so that the timeline shows the sentence once. */
function refusalSentence({ provider, about, subject }: BlockKey): string {
  return about === 'address'
    ? `${provider} refuses all mail from an IP address of this service`
    : `${provider} refuses all mail from the domain ${subject}`;
}

function reasonOfBlock(block: BlockKey) {
  const remedy =
    block.about === 'address'
      ? 'The operator must ask the provider to end it (letterhaus providers list)'
      : 'Check its DNS records and complaints, and ask the provider to end it';
  const advice = `${refusalSentence(block)}. The email waits until the block ends. ${remedy}.`;
  return { category: 'reputation', blame: 'us', advice } as const;
}

/** Returns the outcome of mail that is not tried, because a block applies to it. */
export function deferredByBlock(block: BlockKey): Outcome {
  return withoutReply('deferred', reasonOfBlock(block));
}

/** Returns the outcome of mail that was refused because of a block. Its recipient is not suppressed. */
export function refusedByBlock(outcome: Outcome, block: BlockKey): Outcome {
  return { ...deferredByRefusal(outcome), reason: reasonOfBlock(block) };
}

/** Returns the outcome of a first refusal because of us: deferred, because a later attempt may be accepted. */
export function deferredByRefusal(outcome: Outcome): Outcome {
  return { ...outcome, status: 'deferred', suppress: null, retrySlowly: true };
}

export function expiredByBlock(block: BlockKey): Outcome {
  const advice = `The email expired while ${block.provider} refused all mail from ${
    block.about === 'address' ? 'an IP address of this service' : `the domain ${block.subject}`
  }.`;
  return withoutReply('failed', { category: 'expired', blame: 'us', advice });
}

export const EXPIRED_REFUSED = withoutReply('failed', {
  category: 'expired',
  blame: 'us',
  advice:
    'The email expired while the provider refused mail because of this service or its domain; ' +
    'the timeline shows why.',
});
