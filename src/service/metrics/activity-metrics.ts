/**
 * Counters of a worker's work: requests, replies of mail servers and to clients, bounces, look-ups, webhooks, log-ins.
 * worker-metrics.ts contains the current state of a worker, and installation-metrics.ts that of the machine and its
 * database.
 *
 * Labels have few values, which are known here or written by the operator. No address, recipient domain or text of a
 * stranger becomes a label. Counters begin at 0, so that a rate has a beginning.
 */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { MEANINGS } from '../../mail/replies/meanings.ts';
import type { SentResponse } from '../../http/services.ts';
import type { Settlement } from '../../settle/settlement.ts';
import { CPU_SECONDS, cpuSeconds, RESIDENT_BYTES } from './installation-samples.ts';
import { OTHER, type ProviderLabels } from './provider-label.ts';

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

const LOG_IN_WAYS = ['password', 'api_key', 'smtp'] as const;
export type LogInWay = (typeof LOG_IN_WAYS)[number];
const LOG_IN_RESULTS = ['ok', 'refused', 'limited'] as const;
export type LogInResult = (typeof LOG_IN_RESULTS)[number];

const MAIL_PORTS = ['inbound', 'submission'] as const;
export type MailPort = (typeof MAIL_PORTS)[number];

const LOOKUP_RESULTS = ['records', 'nodata', 'nxdomain', 'error'] as const;
export type LookedUp = { type: string; result: (typeof LOOKUP_RESULTS)[number]; seconds: number };

const WEBHOOK_RESULTS = ['delivered', 'retried', 'failed', 'fenced'] as const;
const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PATCH', 'PUT', 'DELETE']);
/** Codes of RFC 5321, 4954, 3207 and 7504, and other common ones. The rest are counted by their first digit. */
const REPLY_CODES: ReadonlySet<number> = new Set([
  220, 221, 235, 250, 251, 252, 334, 354, 421, 432, 450, 451, 452, 454, 455, 500, 501, 502, 503,
  504, 521, 523, 530, 534, 535, 538, 550, 551, 552, 553, 554, 555, 556, 571,
]);

export class Activity {
  readonly #labels: ProviderLabels;
  readonly #requests;
  readonly #requestSeconds;
  readonly #replies;
  readonly #serverReplies;
  readonly #bounces;
  readonly #deferrals;
  readonly #complaints;
  readonly #lookups;
  readonly #lookupSeconds;
  readonly #logIns;

  constructor(registry: Registry, labels: ProviderLabels) {
    this.#labels = labels;
    const registers = [registry];
    this.#requests = new Counter({
      name: 'letterhaus_http_requests_total',
      help: 'Answered HTTP requests by kind (accept: emails; sign_in; other), method and status.',
      labelNames: ['kind', 'method', 'status'],
      registers,
    });
    this.#requestSeconds = new Histogram({
      name: 'letterhaus_http_request_seconds',
      help: 'From the head of a request to the end of its response.',
      labelNames: ['kind'],
      buckets: SECONDS,
      registers,
    });
    this.#replies = new Counter({
      name: 'letterhaus_smtp_replies_total',
      help: 'The replies of mail servers that decided attempts, by provider and code; none: no reply.',
      labelNames: ['provider', 'code'],
      registers,
    });
    this.#serverReplies = new Counter({
      name: 'letterhaus_smtp_server_replies_total',
      help: 'Replies to clients of the mail ports, by port and code.',
      labelNames: ['port', 'code'],
      registers,
    });
    const why = ['provider', 'category', 'blame'] as const;
    this.#bounces = new Counter({
      name: 'letterhaus_bounces_total',
      help: 'Recipients that bounced or failed, also by a later report, by provider and reason.',
      labelNames: why,
      registers,
    });
    this.#deferrals = new Counter({
      name: 'letterhaus_deferrals_total',
      help: 'Deferred attempts by provider and reason.',
      labelNames: why,
      registers,
    });
    this.#complaints = new Counter({
      name: 'letterhaus_complaints_total',
      help: 'Complaints of recipients.',
      registers,
    });
    this.#lookups = new Counter({
      name: 'letterhaus_dns_lookups_total',
      help: 'Look-ups that asked DNS servers, by type and result.',
      labelNames: ['type', 'result'],
      registers,
    });
    this.#lookupSeconds = new Histogram({
      name: 'letterhaus_dns_lookup_seconds',
      help: 'Duration of a look-up with all its servers and aliases.',
      buckets: SECONDS,
      registers,
    });
    this.#logIns = new Counter({
      name: 'letterhaus_log_ins_total',
      help: 'Log-ins by way and result; with API keys only refused ones count.',
      labelNames: ['way', 'result'],
      registers,
    });
    this.#begin();
    addProcess(registry);
  }

  /** Creates series at 0. A series that does not exist yet would hide its first increase. */
  #begin(): void {
    for (const status of ['202', '503']) {
      this.#requests.inc({ kind: 'accept', method: 'POST', status }, 0);
    }
    for (const { category, blame } of Object.values(MEANINGS)) {
      this.#bounces.inc({ provider: OTHER, category, blame }, 0);
      this.#deferrals.inc({ provider: OTHER, category, blame }, 0);
    }
    for (const result of LOOKUP_RESULTS) this.#lookups.inc({ type: 'MX', result }, 0);
    for (const way of LOG_IN_WAYS) {
      for (const result of LOG_IN_RESULTS) this.#logIns.inc({ way, result }, 0);
    }
    for (const port of MAIL_PORTS) this.#serverReplies.inc({ port, code: '250' }, 0);
  }

  readonly recordResponse = ({ kind, method, status, seconds }: SentResponse): void => {
    const known = METHODS.has(method) ? method : OTHER;
    this.#requests.inc({ kind, method: known, status: String(status) });
    this.#requestSeconds.observe({ kind }, seconds);
    if (kind === 'sign_in') this.loggedIn('password', resultOf(status));
    else if (status === 401) this.loggedIn('api_key', 'refused');
  };

  readonly loggedIn = (way: LogInWay, result: LogInResult | null): void => {
    if (result !== null) this.#logIns.inc({ way, result });
  };

  readonly lookedUp = ({ type, result, seconds }: LookedUp): void => {
    this.#lookups.inc({ type, result });
    this.#lookupSeconds.observe(seconds);
  };

  readonly repliedTo = (port: MailPort, code: number): void => {
    this.#serverReplies.inc({ port, code: codeLabel(code) });
  };

  readonly attempted = (attempt: { provider: string; code: number | null }): void => {
    const provider = this.#labels.of(attempt.provider);
    this.#replies.inc({ provider, code: codeLabel(attempt.code) });
  };

  readonly settled = ({
    status,
    reason,
    provider: key,
  }: Pick<Settlement, 'status' | 'reason' | 'provider'>): void => {
    if (status === 'complained') this.#complaints.inc();
    const { category, blame } = (reason ?? {}) as { category?: string; blame?: string };
    if (category === undefined || blame === undefined) return;
    const why = { provider: this.#labels.of(key), category, blame };
    if (status === 'bounced' || status === 'failed') this.#bounces.inc(why);
    if (status === 'deferred') this.#deferrals.inc(why);
  };
}

/** Returns null when the log-in was neither tried nor refused. */
function resultOf(status: number): LogInResult | null {
  if (status < 300) return 'ok';
  if (status === 429) return 'limited';
  return status === 401 ? 'refused' : null;
}

function codeLabel(code: number | null): string {
  if (code === null) return 'none';
  return REPLY_CODES.has(code) ? String(code) : `${Math.floor(code / 100)}xx`;
}

export function addWebhookCounter(
  registry: Registry,
  read: () => Readonly<Record<(typeof WEBHOOK_RESULTS)[number], number>>,
): void {
  new Counter({
    name: 'letterhaus_webhook_attempts_total',
    help: 'Attempts of webhook deliveries by result; fenced: another worker had claimed the delivery.',
    labelNames: ['result'],
    registers: [registry],
    collect() {
      this.reset();
      const counts = read();
      for (const result of WEBHOOK_RESULTS) this.inc({ result }, counts[result]);
    },
  });
}

/** Adds the metrics of this worker's process. The supervisor adds its own (installation-metrics.ts). */
function addProcess(registry: Registry): void {
  const registers = [registry];
  const labelNames = ['process'];
  const label = { process: 'worker' };
  new Counter({
    ...CPU_SECONDS,
    labelNames,
    registers,
    collect() {
      this.reset();
      this.inc(label, cpuSeconds());
    },
  });
  new Gauge({
    ...RESIDENT_BYTES,
    labelNames,
    registers,
    collect() {
      this.set(label, process.memoryUsage.rss());
    },
  });
}
