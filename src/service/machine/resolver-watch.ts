/**
 * Notices when no DNS server answers this machine: nothing can be sent and no domain be verified then, and each mail by
 * itself only looks deferred. It is a condition of the installation (core/operator-events.ts).
 *
 * After several look-ups in a row that failed, a name that every resolver knows is looked up: domains whose own servers
 * fail, of which one sender may have many, do not count. While that fails it is repeated; any look-up that succeeds ends it.
 * Without look-ups nothing is asked.
 */
import type { OperatorEvents } from '../../core/operator-events.ts';
import type { Resolver } from '../../net/dns/resolver.ts';

const FAILURES_MAX = 3;
const PROBE_EVERY_MS = 10_000;
const PROBE_WITHIN_MS = 8_000;
/** The worker that reported it may be gone. */
const LAPSES_AFTER_MS = 5 * 60_000;
/** A root server. "No such name" is an answer, too. */
const KNOWN_NAME = 'a.root-servers.net';

type Options = {
  resolver: Pick<Resolver, 'a'>;
  operatorEvents: OperatorEvents;
  /** Of this machine. */
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

  /** Called after each look-up that asked servers, also after those of this watch. */
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
        // An answer was reported by `lookedUp` already. While it was awaited, another look-up may have succeeded.
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
