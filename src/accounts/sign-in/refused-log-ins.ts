/**
 * Logs one line for each refused log-in, with the client's address, for people and for programs that block addresses
 * (deploy/fail2ban/). The line contains no text that the client chose.
 *
 * Bounded per worker, so that a flood cannot fill a disk: 20 lines a minute for each client and 600 for all. Refusals
 * beyond that are counted. At the end of the minute, up to 50 clients get a line with their count, and all others
 * share one.
 */
import type { Logger } from 'pino';
import { clientOf } from '../../net/ip-addresses.ts';

export type RefusedLogIn = {
  /**
   * `link`: for the first owner, an invitation or a new password. `oidc`: a response of the identity provider.
   * `session`: a forged cookie.
   */
  way: 'api_key' | 'smtp' | 'password' | 'link' | 'oidc' | 'passkey' | 'session';
  /** `limited`: refused without a check, after too many refusals. */
  result: 'refused' | 'limited';
  client: string;
  ids: { request_id: string } | { session_id: string };
};

const EVENT = 'log_in.refused';
const WINDOW_MS = 60_000;
const LINES_PER_CLIENT = 20;
const LINES_MAX = 600;
const SUMMARIES_MAX = 50;
/** Clients that are counted one by one in a minute. Further clients are counted together. */
const CLIENTS_MAX = 10_000;

/** Refusals of a client in the current minute: logged lines, and those beyond the limit. */
type ClientCount = { lines: number; suppressed: number };

export class RefusedLogIns {
  readonly #log: Pick<Logger, 'warn'>;
  readonly #clients = new Map<string, ClientCount>();
  #lines = 0;
  #unlistedCount = 0;
  #windowTimer: NodeJS.Timeout | undefined;

  constructor(log: Pick<Logger, 'warn'>) {
    this.#log = log;
  }

  /** Logs the refusal, or counts it above the limits. Returns whether a line was logged. */
  note({ way, result, client, ids }: RefusedLogIn): boolean {
    this.#windowTimer ??= setTimeout(() => this.flush(), WINDOW_MS).unref();
    const count = this.#countOf(clientOf(client));
    if (count === null || this.#lines >= LINES_MAX || count.lines >= LINES_PER_CLIENT) {
      if (count === null) this.#unlistedCount += 1;
      else count.suppressed += 1;
      return false;
    }
    this.#lines += 1;
    count.lines += 1;
    // The order of the first fields is part of the filter of fail2ban.
    this.#log.warn({ event: EVENT, way, client, result, ...ids }, 'a log-in was refused');
    return true;
  }

  /** Ends the minute and logs the counts. */
  flush(): void {
    clearTimeout(this.#windowTimer);
    this.#windowTimer = undefined;
    const overLimit = [...this.#clients].filter(([, { suppressed }]) => suppressed > 0);
    overLimit.sort(([, a], [, b]) => b.suppressed - a.suppressed);
    for (const [client, { suppressed }] of overLimit.slice(0, SUMMARIES_MAX)) {
      this.#log.warn(
        { event: `${EVENT}.more`, client, count: suppressed },
        'a client had more log-ins refused within a minute than are logged one by one; ' +
          'block its address (docs/monitoring.md)',
      );
    }
    const unnamed = overLimit.slice(SUMMARIES_MAX);
    const count = unnamed.reduce(
      (sum, [, { suppressed }]) => sum + suppressed,
      this.#unlistedCount,
    );
    if (count > 0) {
      this.#log.warn(
        { event: `${EVENT}.more`, clients: unnamed.length, count },
        'many clients had log-ins refused within a minute; their lines are left out',
      );
    }
    this.#clients.clear();
    this.#lines = 0;
    this.#unlistedCount = 0;
  }

  #countOf(client: string): ClientCount | null {
    let count = this.#clients.get(client);
    if (count === undefined) {
      if (this.#clients.size >= CLIENTS_MAX) return null;
      count = { lines: 0, suppressed: 0 };
      this.#clients.set(client, count);
    }
    return count;
  }
}
