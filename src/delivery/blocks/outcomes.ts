/** Outcomes of mail to a provider that refuses our address or the sending domain (provider-blocks.ts). */
import type { BlockKey } from './block-store.ts';
import type { Outcome } from '../attempt/outcome.ts';

/** The sentence names nothing that changes during a block, so that the timeline repeats it once. */
function sentenceOf({ provider, about, subject }: BlockKey): string {
  return about === 'address'
    ? `${provider} refuses all mail from an IP address of this service at present`
    : `${provider} refuses all mail from the domain ${subject} at present`;
}

function reasonOf(block: BlockKey) {
  const remedy =
    block.about === 'address'
      ? 'the operator has to end the block (letterhaus providers list)'
      : 'look at its DNS records and at complaints, and ask the provider';
  const advice = `${sentenceOf(block)}; the email waits for the end of that, and ${remedy}.`;
  return { category: 'reputation', blame: 'us', advice } as const;
}

const DEFERRED = {
  status: 'deferred',
  smtp: null,
  suppress: null,
  slowDown: false,
} as const;

/** Not tried, because the provider refuses all such mail. */
export function deferredByBlock(block: BlockKey): Outcome {
  return { ...DEFERRED, reason: reasonOf(block) };
}

/** Refused like all such mail: it waits, and the address of the recipient is not to blame. */
export function refusedByBlock(outcome: Outcome, block: BlockKey): Outcome {
  return { ...refusedForNow(outcome), reason: reasonOf(block) };
}

/** Refused because of us, for the first time: the provider may take it later. */
export function refusedForNow(outcome: Outcome): Outcome {
  return { ...outcome, status: 'deferred', suppress: null, retrySlowly: true };
}

export function expiredByBlock(block: BlockKey): Outcome {
  const advice = `The time to deliver it was up while ${block.provider} refused all mail from ${
    block.about === 'address' ? 'an IP address of this service' : `the domain ${block.subject}`
  }.`;
  return {
    ...DEFERRED,
    status: 'failed',
    reason: { category: 'expired', blame: 'us', advice },
  };
}

export const EXPIRED_REFUSED: Outcome = {
  ...DEFERRED,
  status: 'failed',
  reason: {
    category: 'expired',
    blame: 'us',
    advice:
      'The time to deliver it was up while the provider refused mail because of this service or its domain; ' +
      'the timeline shows why.',
  },
};
