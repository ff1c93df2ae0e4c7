/**
 * Applies the blocks of providers to one attempt: decides whether each server may be tried, counts the reply, and
 * changes the outcome of a refusal. The rules are in provider-blocks.ts.
 */
import { isIPv6 } from 'node:net';
import type { Queryable } from '../../database/database.ts';
import { findLastReason } from '../../emails/email-store.ts';
import { domainOf } from '../../mail/address.ts';
import type { RefusalSubject } from '../../mail/replies/refusal-subject.ts';
import type { Disposition, Outcome } from '../attempt/outcome.ts';
import type { Delivery } from '../memory/delivery.ts';
import { type Source, sourcesFor } from '../shaping/sources.ts';
import { deferredByRefusal, refusedByBlock } from './block-outcomes.ts';
import { type BlockKey, blockNameOf, type ProviderBlock } from './block-store.ts';

export type AttemptBlocksOptions = {
  db: Queryable;
  /** Source addresses; when empty, the system chooses and blocks name `heloName` instead. */
  sources: readonly Source[];
  heloName: string;
};

/** A reply of a server to the message. */
type ServerReply = {
  provider: string;
  source: string;
  ip: string | null;
  /** Null when it refuses neither address nor domain. */
  refusedKind: RefusalSubject | null;
};
type Server = { provider: string; address: string; envelopeFrom: string };
export type BlockedServer = { block: BlockKey; delayMs: number };

export type KnownBlock = ProviderBlock & { probeAtMs: number; firstOfSenderAtMs: number };

/** A refusal because of the address or the domain. `isProbe`: the message was the probe of a block. */
export type BlockRefusal = {
  senderDomain: string;
  refusedKind: RefusalSubject;
  isProbe: boolean;
} & Pick<ProviderBlock, 'category' | 'reply'>;

/** The blocks of all providers, as one attempt uses them: ProviderBlocks. */
export type Blocks = {
  /** True while no refusal of any provider is known. */
  readonly hasNoRefusals: boolean;
  findBlock(keys: readonly BlockKey[]): KnownBlock | null;
  takeProbe(block: KnownBlock, senderDomain: string): Promise<boolean>;
  nextWaitMs(block: KnownBlock, senderDomain: string): number;
  recordDelivery(key: BlockKey): void;
  countRefusal(key: BlockKey, refusal: BlockRefusal): Promise<KnownBlock | null>;
  leaveProbe(key: BlockKey): Promise<void>;
};

export class AttemptBlocks {
  readonly #delivery: Delivery;
  readonly #blocks: Blocks;
  readonly #options: AttemptBlocksOptions;
  readonly #senderDomain: string;
  readonly #probes: BlockKey[] = [];
  #reply: ServerReply | null = null;

  constructor(delivery: Delivery, blocks: Blocks, options: AttemptBlocksOptions) {
    this.#delivery = delivery;
    this.#blocks = blocks;
    this.#options = options;
    this.#senderDomain = domainOf(delivery.message.from.address);
  }

  /** Returns the block that applies to the server, or null when the message may be sent to it, perhaps as the probe. */
  async checkServer({ provider, address, envelopeFrom }: Server): Promise<BlockedServer | null> {
    if (this.#blocks.hasNoRefusals) return null;
    const { sources } = this.#options;
    const [source = ''] = sourcesFor(sources, { provider, address, envelopeFrom });
    const block = this.#blocks.findBlock(this.#keysAt({ provider, source, ip: address }));
    if (block === null || this.#isProbeOf(block)) return null;
    if (await this.#blocks.takeProbe(block, this.#senderDomain)) {
      this.#probes.push(block);
      return null;
    }
    return { block, delayMs: this.#blocks.nextWaitMs(block, this.#senderDomain) };
  }

  /** Notes the last reply to the message, which `applyBlocks` counts. */
  noteReply(reply: ServerReply): void {
    this.#reply = reply;
  }

  /** Counts the reply, and returns the outcome and retry time that follow from it. Never rejects. */
  async applyBlocks(disposition: Disposition): Promise<Disposition> {
    const reply = this.#reply;
    if (disposition.kind !== 'settle' || reply === null) {
      await this.#leaveProbes([]);
      return disposition;
    }
    const { outcome } = disposition;
    const keys = this.#keysAt(reply);
    if (outcome.status === 'delivered' || outcome.status === 'sent') {
      // Not awaited, so that the outcome is settled without delay.
      for (const key of keys) this.#blocks.recordDelivery(key);
      void this.#leaveProbes(keys);
      return disposition;
    }
    if (reply.refusedKind === null) {
      await this.#leaveProbes([]);
      return disposition;
    }
    return { ...disposition, ...(await this.#countRefusal(outcome, reply.refusedKind, keys)) };
  }

  /** Ends the probes of an attempt that failed with an error. */
  async abandonProbes(): Promise<void> {
    await this.#leaveProbes([]);
  }

  async #countRefusal(
    outcome: Outcome,
    refusedKind: RefusalSubject,
    keys: readonly BlockKey[],
  ): Promise<{ outcome: Outcome; retryMs?: number }> {
    const category = outcome.reason?.category ?? 'reputation';
    const affected = keys.filter(({ about }) => refusedKind === 'unclear' || refusedKind === about);
    const counted = [];
    for (const key of affected) {
      const isProbe = this.#isProbeOf(key);
      const reply = this.#withoutRecipient(outcome.smtp?.message ?? '');
      const refusal = { senderDomain: this.#senderDomain, refusedKind, isProbe, category, reply };
      const row = await this.#blocks.countRefusal(key, refusal);
      if (row) counted.push(row);
    }
    await this.#leaveProbes(affected);
    const block = counted.find(({ since }) => since !== null) ?? this.#blocks.findBlock(keys);
    if (block) {
      const retryMs = this.#blocks.nextWaitMs(block, this.#senderDomain);
      return { outcome: refusedByBlock(outcome, block), retryMs };
    }
    const hasAcceptedOther = counted.length > 0 && counted.every(({ refusals }) => refusals === 1);
    const isFinal = hasAcceptedOther && (await this.#wasRefusedBefore(category));
    return { outcome: isFinal ? outcome : deferredByRefusal(outcome) };
  }

  async #wasRefusedBefore(category: string): Promise<boolean> {
    const { message, position, attempts } = this.#delivery;
    if (attempts === 0) return false;
    const recipient = { projectId: message.projectId, emailId: message.id, position };
    const last = await findLastReason(this.#options.db, recipient).catch(() => null);
    return last?.category === category;
  }

  /** Removes the recipient, because the reply is shown to operators, logged and mailed. */
  #withoutRecipient(reply: string): string {
    const { address } = this.#delivery;
    const at = reply.toLowerCase().indexOf(address.toLowerCase());
    if (at < 0) return reply;
    const rest = reply.slice(at + address.length);
    return `${reply.slice(0, at)}…${this.#withoutRecipient(rest)}`;
  }

  #keysAt({ provider, source, ip }: Pick<ServerReply, 'provider' | 'source' | 'ip'>): BlockKey[] {
    const { heloName } = this.#options;
    const chosen = isIPv6(ip ?? '') ? `${heloName} (IPv6)` : heloName;
    return [
      { provider, about: 'address', subject: source === '' ? chosen : source },
      { provider, about: 'domain', subject: this.#senderDomain },
    ];
  }

  #isProbeOf(key: BlockKey): boolean {
    return this.#probes.some((probe) => blockNameOf(probe) === blockNameOf(key));
  }

  async #leaveProbes(except: readonly BlockKey[]): Promise<void> {
    if (this.#probes.length === 0) return;
    const kept = new Set(except.map(blockNameOf));
    const ended = this.#probes.splice(0).filter((probe) => !kept.has(blockNameOf(probe)));
    for (const probe of ended) await this.#blocks.leaveProbe(probe);
  }
}
