/**
 * Starts a complete Letterhaus for measurements on this machine: name server, embedded database, workers, a verified
 * domain and a live key. It runs as an operator starts it (bin/letterhaus), and the benchmark uses it as a client does.
 */
import { startFakeDns, type FakeDns, type FakeZone } from '../../test/support/fake-dns.ts';
import type { Env } from '../../test/support/letterhaus.ts';
import { startService, type Service } from '../../test/support/service.ts';
import { runLoad } from './children.ts';
import type { HttpLoad, HttpLoadResult } from '../http-load.ts';
import type { SmtpLoad, SmtpLoadResult } from '../smtp-load.ts';
import { SENDER_DOMAIN, TWICE_SIGNED_DOMAIN } from './mail-text.ts';

export type RigOptions = {
  workers: number;
  /** Port on 127.0.0.1 that receives all mail. */
  mxPort: number;
  /** Parts of the service to run. Default: all parts. */
  only?: string;
  /** bin/letterhaus of another version (checkout.ts). */
  launcher?: string;
  env?: Env;
};

/** Ten receivers. Each has its own mail server by name, so that ten providers share the load. */
export const DOMAINS = Array.from({ length: 10 }, (_, index) => `customers${index}.test`);
/** Receivers without earlier mail. */
export const NEW_DOMAINS = Array.from({ length: 200 }, (_, index) => `new${index}.test`);

export class Rig implements AsyncDisposable {
  readonly service: Service;
  readonly #dns: FakeDns;
  readonly #key: string;

  static async start(options: RigOptions): Promise<Rig> {
    const dns = await startFakeDns(zoneOf([...DOMAINS, ...NEW_DOMAINS]), { ttlS: 3600 });
    const service = await startService({
      database: 'own',
      dns,
      ...(options.launcher !== undefined && { launcher: options.launcher }),
      args: [
        '--workers',
        String(options.workers),
        ...(options.only ? ['--only', options.only] : []),
      ],
      env: {
        LETTERHAUS_LOG: 'warn',
        LETTERHAUS_LIMIT_SENDING: '100000000/60',
        LETTERHAUS_MX_PORT: String(options.mxPort),
        LETTERHAUS_ALLOW_PRIVATE_NETWORKS: '1',
        ...options.env,
      },
    });
    // The first domain signs with RSA alone, as OpenDKIM does; the second signs with RSA and Ed25519.
    await service.addLiveDomain(SENDER_DOMAIN, { onlyRequired: true });
    await service.addLiveDomain(TWICE_SIGNED_DOMAIN);
    return new Rig(service, dns, await service.liveKey());
  }

  constructor(service: Service, dns: FakeDns, key: string) {
    this.service = service;
    this.#dns = dns;
    this.#key = key;
  }

  /** Process id of the supervisor. */
  get pid(): number {
    return this.service.readyLine.pid;
  }

  post(load: Omit<HttpLoad, 'url' | 'key' | 'firstNumber'>): Promise<HttpLoadResult> {
    return runLoad('http-load.ts', { ...load, url: this.service.url, key: this.#key });
  }

  /** Subscribes a receiver on this machine to every delivery. */
  async addWebhook(port: number): Promise<string> {
    const body = { url: `http://127.0.0.1:${port}/hooks`, events: ['email.delivered'] };
    const added = await this.service.request('POST', '/v1/webhooks', { key: this.#key, body });
    if (added.status !== 201) throw new Error(`no webhook: ${added.text}`);
    return added.body.id;
  }

  /** Submits emails by SMTP, over sessions that send many messages. */
  submit(load: Omit<SmtpLoad, 'port' | 'auth' | 'firstNumber'>): Promise<SmtpLoadResult> {
    const [port = 0] = this.service.readyLine.submission_ports ?? [];
    const auth = { user: 'letterhaus', pass: this.#key };
    return runLoad('smtp-load.ts', { ...load, port, auth });
  }

  /** Returns the number of recipients that have not ended. */
  async open(): Promise<number> {
    const [row] = await this.service.sql('select count(*)::int as open from queue');
    return row.open;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.service[Symbol.asyncDispose]();
    await this.#dns[Symbol.asyncDispose]();
  }
}

function zoneOf(domains: readonly string[]): FakeZone {
  return Object.fromEntries(
    domains.flatMap((domain) => [
      [domain, { MX: [`10 mx.${domain}`] }],
      [`mx.${domain}`, { A: ['127.0.0.1'] }],
    ]),
  );
}
