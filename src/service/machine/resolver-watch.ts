/**
 * Detects that no DNS server answers this machine. Then nothing can be sent and no domain verified, while each email
 * only looks deferred. It is a condition of the installation (core/operator-events.ts).
 *
 * After several failed look-ups in a row, a name is looked up that every resolver can find. Domains whose own servers
 * fail do not count: one sender may have many of them. While that look-up fails it is repeated. Any successful look-up
 * ends the condition. Without look-ups, nothing is asked.
 */
import type { OperatorEvents } from '../../core/operator-events.ts';
import type { Resolver } from '../../net/dns/resolver.ts';

const FAILURES_MAX = 3;
const PROBE_EVERY_MS = 10_000;
const PROBE_WITHIN_MS = 8_000;
/** Time after which the condition lapses, because the worker that reported it may be gone. */
const LAPSES_AFTER_MS = 5 * 60_000;
/** A root server. "No such name" also counts as an answer. */
const KNOWN_NAME = 'a.root-servers.net';

type Options = {
  resolver: Pick<Resolver, 'a'>;
  operatorEvents: OperatorEvents;
  host: string;
  servers: readonly string[];
};

export class ResolverWatch {
  readonly #options: Options;
  #failures = 0;
  #isDown = false;
  #isProbing = false;
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;

  constructor(options: Options) {
    this.#options = options;
  }

  /** Called after each look-up that asked servers, including the look-ups of this watch. */
  lookedUp(result: string): void {
    if (result !== 'error') return this.#answered();
    this.#failures += 1;
    if (this.#failures >= FAILURES_MAX && !this.#isProbing) this.#probe();
  }

  stop(): void {
    this.#isStopped = true;
    clearTimeout(this.#timer);
  }

  #answered(): void {
    this.#failures = 0;
    if (!this.#isDown) return;
    this.#isDown = false;
    this.#options.operatorEvents.clear({ type: 'dns.unavailable', subject: this.#options.host });
  }

  #probe(): void {
    this.#isProbing = true;
    void this.#options.resolver
      .a(KNOWN_NAME, { fresh: true, budgetMs: PROBE_WITHIN_MS })
      .then((answer) => {
        if (this.#isStopped) return;
        // `lookedUp` has handled an answer. Another look-up may have succeeded meanwhile.
        if (answer.kind !== 'error' || this.#failures === 0) {
          this.#isProbing = false;
          return;
        }
        this.#report(answer.message);
        this.#timer = setTimeout(() => this.#probe(), PROBE_EVERY_MS).unref();
      });
  }

  #report(reason: string): void {
    const { operatorEvents, host, servers } = this.#options;
    this.#isDown = true;
    operatorEvents.raise({
      type: 'dns.unavailable',
      subject: host,
      message: `No DNS server answers ${host}; mail waits, and no domain can be verified: ${reason}.`,
      remedy:
        `Check that ${servers.join(', ') || 'a DNS server'} runs and answers this machine ` +
        `(dig @<server> ${KNOWN_NAME}), or set LETTERHAUS_DNS_SERVERS to servers that do.`,
      details: { servers },
      lapsesAfterMs: LAPSES_AFTER_MS,
    });
  }
}
