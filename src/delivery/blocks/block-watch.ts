/**
 * Raises a condition for each provider that refuses our mail (delivery/blocks/provider-blocks.ts), and clears it when
 * the block has ended. Each run compares the conditions with the stored blocks, so a block that another worker or
 * node began or ended is reported, too.
 */
import type { OperatorEvents } from '../../core/operator-events.ts';
import { delistingPage } from '../../mail/replies/refusal-subject.ts';
import { isNamedProvider } from '../../net/providers.ts';
import { listConditions } from '../../operator/condition-store.ts';
import type { Queryable } from '../../database/database.ts';
import { deleteOldBlocks, listBlocks, type ProviderBlock } from './block-store.ts';

const BLOCKS_MAX = 1_000;
/** Limit on conditions for unnamed providers, because anyone can run mail servers that refuse mail. */
const OTHERS_REPORTED_MAX = 20;
const CONDITIONS_MAX = 10_000;

export class BlockWatch {
  readonly #db: Queryable;
  readonly #operatorEvents: OperatorEvents;

  constructor(db: Queryable, operatorEvents: OperatorEvents) {
    this.#db = db;
    this.#operatorEvents = operatorEvents;
  }

  async run(): Promise<void> {
    await deleteOldBlocks(this.#db);
    const blocks = await listBlocks(this.#db, BLOCKS_MAX);
    const named = blocks.filter(({ provider }) => isNamedProvider(provider));
    const others = blocks.filter(({ provider }) => !isNamedProvider(provider));
    for (const block of [...named, ...others.slice(0, OTHERS_REPORTED_MAX)]) this.#report(block);
    const open = new Set(blocks.map(subjectOf));
    for (const { type, subject } of await listConditions(this.#db, CONDITIONS_MAX)) {
      if (type !== 'provider.blocked' || open.has(subject)) continue;
      this.#operatorEvents.clear({ type, subject });
    }
  }

  #report(block: ProviderBlock): void {
    const { provider, about, subject, reply, category, refusals, since } = block;
    const page = delistingPage(provider, reply);
    const sender = about === 'address' ? `this service at ${subject}` : `the domain ${subject}`;
    this.#operatorEvents.raise({
      type: 'provider.blocked',
      subject: subjectOf(block),
      message: `${provider} refuses all mail of ${sender}: ${reply}`,
      remedy:
        `Fix the problem that the reply names, and ask for delisting${page === null ? '' : `: ${page}`}. ` +
        `Mail to it waits meanwhile. letterhaus providers retry ${provider} tries one message now.`,
      details: { provider, about, [about]: subject, category, reply, refusals, since, page },
    });
  }
}

function subjectOf({ provider, subject }: ProviderBlock): string {
  return `${provider} ${subject}`;
}
