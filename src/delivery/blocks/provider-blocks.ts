/**
 * Tracks providers that refuse our mail because of a source address or a sending domain.
 *
 *     refused because of the address or the domain (mail/replies/refusal-subject.ts)
 *        │ the third refusal in a row without a delivery to this provider
 *     blocked: mail waits, and one message at a time is a probe, after waits that grow from a minute to an hour
 *        │ the first delivery
 *     open: the waiting mail is due at once and served by fair queueing
 *
 * A refusal is deferred. It bounces only if the message is refused again after the provider accepted other mail from
 * the same address and domain.
 *
 * A refusal affects only mail to the provider that sent it. A block belongs to one source address or one sending
 * domain. A reply that names neither counts for the domain until several domains were refused. While an address is
 * blocked, a domain that was not refused yet may probe after the first wait, so the refusals of one sender do not
 * delay others for long.
 *
 * The database stores the state for all nodes (delivery/blocks/block-store.ts). Workers read it every 2 s. A delivery
 * to a provider without refusals reads and writes nothing.
 */
import type { Logger } from 'pino';
import type { World } from '../../lib/world.ts';
import { domainOf } from '../../mail/address.ts';
import {
  type BlockKey,
  type BlockRules,
  countRefusal,
  endBlock,
  leaveProbe,
  blockNameOf,
  listSendingProjects,
  type ProviderBlock,
  readBlocks,
  takeProbe,
} from './block-store.ts';
import { changeQueueStep, QUEUE_START, WHOLE_QUEUE } from '../queue-control/change-store.ts';
import {
  AttemptBlocks,
  type AttemptBlocksOptions,
  type BlockRefusal,
  type Blocks,
  type KnownBlock,
} from './attempt-blocks.ts';
import type { Delivery } from '../memory/delivery.ts';

type BlocksOptions = AttemptBlocksOptions & {
  world: Pick<World, 'monotonicMs' | 'random'>;
  log: Pick<Logger, 'info' | 'error'>;
  rules: BlockRules;
  onDue: () => void;
  /** Called when a block of the provider ended on any worker or node. */
  onEnded: (provider: string) => void;
};

const READ_EVERY_MS = 2_000;
/** Milliseconds within which transactions that were open at the last read commit. */
const READ_AGAIN_MS = 10_000;
const KNOWN_MAX = 5_000;
/** Waiting mail becomes due over this time, plus SPREAD_PER_MESSAGE_MS for each message, up to the longest wait. */
const SPREAD_MS = 1_000;
const SPREAD_PER_MESSAGE_MS = 20;

export class ProviderBlocks implements Blocks {
  readonly #options: BlocksOptions;
  readonly #known = new Map<string, KnownBlock>();
  /** This worker's last delivery by block. Another worker may have counted a refusal before it. */
  readonly #deliveredAtMs = new Map<string, number>();
  readonly #waiting = new Map<string, { probeAtMs: number; count: number }>();
  #readAt = new Date(0);
  #timer: NodeJS.Timeout | undefined;
  #isRunning = false;

  constructor(options: BlocksOptions) {
    this.#options = options;
  }

  start(): void {
    this.#isRunning = true;
    const next = (): void => {
      if (!this.#isRunning) return;
      this.#timer = setTimeout(() => void this.#readBlocks().finally(next), READ_EVERY_MS).unref();
    };
    void this.#readBlocks().finally(next);
  }

  stop(): void {
    this.#isRunning = false;
    clearTimeout(this.#timer);
  }

  forAttempt(delivery: Delivery): AttemptBlocks {
    return new AttemptBlocks(delivery, this, this.#options);
  }

  /** Returns a block that applies to the delivery, from any source address, or null when none is known. */
  blockOf({ provider, message }: Pick<Delivery, 'provider' | 'message'>): BlockKey | null {
    const sender = domainOf(message.from.address);
    for (const block of this.blocks) {
      if (block.provider !== provider) continue;
      if (block.about === 'address' || block.subject === sender) return block;
    }
    return null;
  }

  get blocks(): Iterable<ProviderBlock> {
    return [...this.#known.values()].filter(({ since }) => since !== null);
  }

  get hasNoRefusals(): boolean {
    return this.#known.size === 0;
  }

  /** Returns the block that applies to this mail. The block of an address comes before the block of a domain. */
  findBlock(keys: readonly BlockKey[]): KnownBlock | null {
    const known = keys.map((key) => this.#known.get(blockNameOf(key)));
    return known.find((block) => block !== undefined && block.since !== null) ?? null;
  }

  /** Returns whether the message becomes the probe. While the database is unavailable there are no probes. */
  async takeProbe(block: KnownBlock, senderDomain: string): Promise<boolean> {
    const nowMs = this.#options.world.monotonicMs();
    if (nowMs < this.#dueAtMs(block, senderDomain)) return false;
    const { firstMs } = this.#options.rules;
    const taking = takeProbe(this.#options.db, block, { senderDomain, firstMs });
    const isTaken = await this.#withFallback(taking, false);
    // Another message is the probe, or the block has changed: check again soon.
    if (!isTaken) block.probeAtMs = block.firstOfSenderAtMs = nowMs + firstMs;
    return isTaken;
  }

  /** Returns the wait of one more message. Spreads the messages that wait for the same probe. */
  nextWaitMs(block: KnownBlock, senderDomain: string): number {
    const { world, rules } = this.#options;
    const dueAtMs = this.#dueAtMs(block, senderDomain);
    const name = blockNameOf(block);
    const waiting = this.#waiting.get(name);
    const count = waiting?.probeAtMs === block.probeAtMs ? waiting.count + 1 : 1;
    this.#waiting.set(name, { probeAtMs: block.probeAtMs, count });
    const spreadMs = Math.min(rules.longestMs, SPREAD_MS + count * SPREAD_PER_MESSAGE_MS);
    return Math.ceil(Math.max(0, dueAtMs - world.monotonicMs()) + world.random() * spreadMs);
  }

  #dueAtMs(
    { about, senders, probeAtMs, firstOfSenderAtMs }: KnownBlock,
    senderDomain: string,
  ): number {
    const isFirst = about === 'address' && !senders.includes(senderDomain);
    return isFirst ? Math.min(probeAtMs, firstOfSenderAtMs) : probeAtMs;
  }

  /** Counts a refusal. Never rejects: without the database the refusal is not counted. */
  async countRefusal(key: BlockKey, refusal: BlockRefusal): Promise<KnownBlock | null> {
    const { db, rules } = this.#options;
    const row = await this.#withFallback(countRefusal(db, key, { ...refusal, rules }), null);
    return row && this.#remember(row);
  }

  /** Records a delivery, which resets the count of refusals and ends a block. */
  recordDelivery(key: BlockKey): void {
    const name = blockNameOf(key);
    if (this.#deliveredAtMs.size >= KNOWN_MAX && !this.#deliveredAtMs.has(name)) {
      this.#deliveredAtMs.delete(this.#deliveredAtMs.keys().next().value!);
    }
    this.#deliveredAtMs.set(name, this.#options.world.monotonicMs());
    if (this.#known.has(name)) void this.#endBlock(key);
  }

  /** Ends a block after a delivery, and makes its waiting mail due. Never rejects. */
  async #endBlock(key: BlockKey): Promise<void> {
    const { db, log } = this.#options;
    const known = this.#known.get(blockNameOf(key));
    if (known) this.#remember({ ...known, refusals: 0, since: null, senders: [] });
    if (!(await this.#withFallback(endBlock(db, key), false))) return;
    log.info({ ...key }, 'a provider accepts our mail again; mail that waited for it is due now');
    await this.#withFallback(this.#makeDue(key), undefined);
  }

  async leaveProbe(key: BlockKey): Promise<void> {
    const { db, rules } = this.#options;
    await this.#withFallback(leaveProbe(db, key, rules.firstMs), undefined);
  }

  /** Makes the waiting mail due. For a domain this is only the mail of projects that send from it. */
  async #makeDue({ provider, about, subject }: BlockKey): Promise<void> {
    const { db, onDue } = this.#options;
    const projects = about === 'domain' ? await listSendingProjects(db, subject) : [null];
    for (const projectId of projects) {
      const selector = { ...WHOLE_QUEUE, provider, projectId };
      for (let from: typeof QUEUE_START | null = QUEUE_START; from !== null;) {
        from = (await changeQueueStep(db, 'retry', { selector, from })).next;
        onDue();
      }
    }
  }

  async #readBlocks(): Promise<void> {
    const { db, rules } = this.#options;
    const since = new Date(this.#readAt.getTime() - READ_AGAIN_MS);
    const blockedBefore = [...this.#known].filter(([, block]) => block.since !== null);
    const rows = await this.#withFallback(readBlocks(db, since, rules.firstMs), null);
    if (rows === null) return;
    // The read returns all blocks, so the others were deleted a week after their last refusal.
    const current = new Set(rows.map(blockNameOf));
    for (const [name, block] of blockedBefore) {
      if (!current.has(name) && this.#known.get(name) === block) this.#known.delete(name);
    }
    for (const row of rows) {
      this.#remember(row);
      const refusedAtMs = this.#options.world.monotonicMs() - row.refusedForMs;
      const wasDeliveredSince =
        (this.#deliveredAtMs.get(blockNameOf(row)) ?? -Infinity) > refusedAtMs;
      if (row.refusals > 0 && wasDeliveredSince) void this.#endBlock(row);
    }
    if (rows[0]) this.#readAt = rows[0].readAt;
  }

  #remember(row: ProviderBlock): KnownBlock {
    const nowMs = this.#options.world.monotonicMs();
    const { firstMs } = this.#options.rules;
    const atMs = (inMs: number | null): number => nowMs + (inMs ?? firstMs);
    const known = {
      ...row,
      probeAtMs: atMs(row.nextProbeInMs),
      firstOfSenderAtMs: atMs(row.firstOfSenderInMs),
    };
    const name = blockNameOf(row);
    const wasBlocked = (this.#known.get(name)?.since ?? null) !== null;
    this.#known.delete(name);
    if (wasBlocked && row.since === null) this.#options.onEnded(row.provider);
    if (row.refusals > 0) this.#known.set(name, known);
    else this.#waiting.delete(name);
    if (this.#known.size > KNOWN_MAX) this.#known.delete(this.#known.keys().next().value!);
    return known;
  }

  /** Returns the result of a statement; when it fails, logs the error and returns `fallback`. Never rejects. */
  #withFallback<Result, Instead>(
    statement: Promise<Result>,
    fallback: Instead,
  ): Promise<Result | Instead> {
    return statement.catch((error: unknown) => {
      const message = 'the refusals of a provider could not be read or counted';
      this.#options.log.error({ err: error }, message);
      return fallback;
    });
  }
}
