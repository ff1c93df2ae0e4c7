/**
 * The messages between the supervisor (service/pool/worker-pool.ts) and its workers (worker.ts), and the request for
 * metrics with its response, which both sides send.
 */
import type { MetricObjectWithValues, MetricValue } from 'prom-client';
import type { ArmedFailpoint } from '../../lib/failpoint.ts';
import type { Config } from '../../config/config.ts';
import type { Unready } from '../../core/unready.ts';
import type { CertificateFiles } from '../machine/certificates.ts';
import type { BrokerMessage, WorkerMessage } from '../../delivery/broker/broker-messages.ts';
import type { User } from '../machine/privileges.ts';
import type { DatabaseAddress, PoolSizes } from '../../database/database.ts';

export const WORKER_PARTS = ['api', 'delivery', 'webhooks', 'inbound'] as const;
export type WorkerPart = (typeof WORKER_PARTS)[number];

export type WorkerSetup = {
  config: Config;
  database: { address: DatabaseAddress; role: string | null };
  secretKey: string;
  /** User to switch to, or null when the worker keeps its user. */
  user: User | null;
  instance: string;
  /** Path of the socket for the command line (service/admin-socket.ts). */
  adminSocket: string;
  parts: readonly WorkerPart[];
  /** On hold, neither mail nor webhooks are sent until `hold_ended`. */
  isOnHold: boolean;
  /** Certificate of the mail ports; null when none listens here. */
  certificate: CertificateFiles | null;
  /** Certificate of the host of tracked links, if the API has another one. */
  trackingCertificate: { name: string; files: CertificateFiles } | null;
  workerCount: number;
  poolSizes: PoolSizes;
  failpoint: ArmedFailpoint | null;
};

export type Metrics = MetricObjectWithValues<MetricValue<string>>[];

/** A worker requests the text of all metrics from the supervisor, which requests the metrics of each worker. */
type MetricsRequest = { type: 'ask_metrics'; id: number };
type MetricsResponse = { type: 'metrics_response'; id: number; value: unknown };

export type ToWorker =
  /** `v8Flag` to set when all code is loaded. */
  | { type: 'setup'; setup: WorkerSetup; v8Flag: string }
  | { type: 'stop' }
  /** The event loop answers at once, so the worker is not frozen (service/pool/frozen-worker-watch.ts). */
  | { type: 'ping' }
  /** The machine's current reasons for refusing or not sending mail, and warnings. Sent before the setup. */
  | { type: 'readiness'; refusals: readonly Unready[]; warnings: readonly string[] }
  | { type: 'hold_ended' }
  /** true: finish running work, and neither claim nor send until false (move/move-watch.ts). */
  | { type: 'paused'; isPaused: boolean }
  /** Work of a dead worker was released. */
  | { type: 'poll_now' }
  /** The database is another server than before, which may lack the last commits. */
  | { type: 'failed_over' }
  | { type: 'broker'; messages: readonly BrokerMessage[] }
  /** Secret keys to use from now on: `new,old`. */
  | { type: 'secret_keys'; secretKey: string }
  | { type: 'smtp_log_in'; client: string }
  | MetricsRequest
  | MetricsResponse;

export type FromWorker =
  | { type: 'hello' }
  | { type: 'pong' }
  | { type: 'ready'; port: number | null }
  /** The worker could not start. The sentence is for the operator. */
  | { type: 'failed'; message: string }
  /** The id under which the worker claims work, which is released at once when it dies. */
  | { type: 'lease'; id: string }
  | { type: 'broker'; messages: readonly WorkerMessage[] }
  /** The reasons why the worker accepts or sends no mail, when they change. */
  | { type: 'unready'; reasons: readonly Unready[] }
  | { type: 'secret_keys_used' }
  /** A client has logged in by SMTP, so the other workers reserve connections for it, too. */
  | { type: 'smtp_log_in'; client: string }
  | MetricsRequest
  | MetricsResponse;

const RESPONSE_WITHIN_MS = 2_000;

export class MetricsRequests {
  readonly #waiting = new Map<number, (value: unknown) => void>();
  #count = 0;

  /** @returns the response; null when none came in time */
  request(send: (message: MetricsRequest) => void): Promise<unknown> {
    this.#count += 1;
    const id = this.#count;
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.resolve({ id, value: null }), RESPONSE_WITHIN_MS);
      this.#waiting.set(id, (value) => {
        clearTimeout(timer);
        resolve(value);
      });
      send({ type: 'ask_metrics', id });
    });
  }

  resolve({ id, value }: { id: number; value: unknown }): void {
    this.#waiting.get(id)?.(value);
    this.#waiting.delete(id);
  }
}
