/** The HTTP server with stubs behind it, for tests of parsing and refusals. test/api tests the whole service. */
import { connect, type AddressInfo } from 'node:net';
import { randomUUIDv7 } from 'node:crypto';
import { pino } from 'pino';
import { createHttpAccounts } from '../../src/accounts/http-accounts.ts';
import { hashApiKey, makeApiKey } from '../../src/accounts/keys/api-key.ts';
import { RESEND_MOUNT } from '../../src/compat/resend/mount.ts';
import { DEFAULT_LIMITS } from '../../src/core/limits.ts';
import { ALLOW_ALL, type Caller } from '../../src/core/scope.ts';
import { type AppOptions, buildApp } from '../../src/http/app.ts';
import type { App, HttpServices } from '../../src/http/services.ts';
import { DEFAULT_SHAPING } from '../../src/delivery/shaping/settings.ts';
import { createAddressGuard } from '../../src/net/ip-addresses.ts';
import { AttachmentUrls } from '../../src/accept/content/attachment-urls.ts';
import { DatabaseUnavailable } from '../../src/database/database.ts';
import { SecretBox } from '../../src/secrets/secret-box.ts';

export const SENT = { object: 'email', id: '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa' };

/** The result of reading an empty event stream. */
const EMPTY_STREAM = { id: null, history: '1', nowMs: 0, isKnown: false, retentionH: null };

const LIMIT = { limit: 100, remaining: 99, resetS: 60, windowS: 60 };

export type StubHttp = AsyncDisposable & {
  app: App;
  port: number;
  url: string;
  /** Valid keys, by their permissions. */
  keys: { full: string; sending: string; live: string };
  log: Record<string, unknown>[];
  /** Emails that reached the store. */
  accepted: unknown[];
  post: (path: string, body: unknown, headers?: Record<string, string>) => Promise<Response>;
  /** Writes bytes to a socket and returns all responses until the service closes it. */
  raw: (bytes: string | Buffer) => Promise<string>;
};

type StubOptions = { services?: Partial<HttpServices> } & AppOptions;

export async function stubHttp({ services, ...options }: StubOptions = {}): Promise<StubHttp> {
  const callers = {
    full: caller('test', { permission: 'full_access' }),
    sending: caller('test', { permission: 'sending_access' }),
    live: caller('live', { permission: 'full_access' }),
  };
  const log: Record<string, unknown>[] = [];
  const accepted: unknown[] = [];
  const stubs = {
    ...stubServices(
      new Map(Object.values(callers).map(({ key, ...who }) => [hashApiKey(key), who])),
    ),
    log: pino({ level: 'debug' }, { write: (line) => void log.push(JSON.parse(line)) }),
    accept: async (_caller: Caller, draft: unknown) => {
      accepted.push(draft);
      return { kind: 'accepted' as const, body: JSON.stringify(SENT), limit: LIMIT };
    },
    ...services,
  } as Omit<HttpServices, 'accounts'>;
  const app = buildApp(
    { ...stubs, accounts: createHttpAccounts(stubs) },
    { rootMount: RESEND_MOUNT, ...options },
  );
  await app.listen({ host: '127.0.0.1', port: 0 });
  const { port } = app.server.address() as AddressInfo;
  const url = `http://127.0.0.1:${port}`;
  const keys = { full: callers.full.key, sending: callers.sending.key, live: callers.live.key };
  return {
    app,
    port,
    url,
    keys,
    log,
    accepted,
    post: (path, body, headers = {}) =>
      fetch(url + path, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${keys.full}`,
          'content-type': 'application/json',
          ...headers,
        },
        body: typeof body === 'string' || body instanceof Buffer ? body : JSON.stringify(body),
      }),
    raw: (bytes) => exchange(port, bytes),
    [Symbol.asyncDispose]: async () => {
      app.server.closeAllConnections();
      await app.close();
    },
  };
}

function caller(environment: Caller['environment'], { permission }: Pick<Caller, 'permission'>) {
  const random = Buffer.from(randomUUIDv7().replaceAll('-', ''), 'utf8');
  return {
    key: makeApiKey(environment, random),
    projectId: randomUUIDv7(),
    environment,
    organizationId: randomUUIDv7(),
    keyId: randomUUIDv7(),
    permission,
    domain: null,
    expiresAt: null,
    ...ALLOW_ALL,
  };
}

function stubServices(callers: Map<string, Caller>): Partial<HttpServices> {
  let failures = 0;
  const query = async (statement: { name?: string; text?: string } | string, values: unknown[]) => {
    if (typeof statement === 'string' && statement.includes('auth_windows')) {
      failures += 1;
      return [{ max: values[1], used: Math.min(failures, 21), window_s: values[2], reset_s: 60 }];
    }
    if (typeof statement === 'string' && statement.includes('insert into limit_windows')) {
      return [{ max: values[3], used: 1, window_s: values[4], reset_s: 60 }];
    }
    if (typeof statement !== 'string' && statement.name === 'find_callers') {
      const hashes = values[0] as string[];
      return hashes.flatMap((hash) => (callers.has(hash) ? [{ hash, ...callers.get(hash) }] : []));
    }
    const text = typeof statement === 'string' ? statement : (statement.text ?? '');
    if (text.includes('indisvalid')) return [{ valid: true }];
    return text.includes('database_history()') ? [EMPTY_STREAM] : [];
  };
  return {
    db: {
      query,
      checking: { query },
      readsOf: () => ({ query }),
      transaction: nothingBehind,
    } as unknown as HttpServices['db'],
    world: {
      now: () => Date.now(),
      monotonicMs: () => performance.now(),
      random: () => Math.random(),
      newId: () => randomUUIDv7(),
    },
    config: {
      domainsMax: 1000,
      retention: { contentH: null, metadataH: null },
      metricsToken: null,
      trustedProxies: [],
      allowPrivateNetworks: false,
      limits: { ...DEFAULT_LIMITS, recipients: null },
      publicUrl: null,
      oidc: null,
      trackingUrl: null,
      hostname: 'localhost',
      sources: [],
      inboundPort: null,
      submissionPorts: [],
      dnsProvider: null,
      variables: [],
      shaping: DEFAULT_SHAPING,
    },
    secrets: new SecretBox('s'.repeat(32)),
    localUrl: 'http://127.0.0.1:3000',
    domains: nothingThere(),
    webhooks: nothingThere(),
    visits: { add: () => {} },
    attachmentUrls: new AttachmentUrls({
      guard: createAddressGuard({ allowPrivate: false }),
      resolver: { a: noSuchName, aaaa: noSuchName },
      world: { monotonicMs: () => performance.now() },
    }),
    contentOf: async () => null,
    readyWarnings: () => [],
    isOnHold: () => false,
    newestBackup: async () => null,
    operatorEvents: { raise: () => {}, clear: () => {}, flush: async () => {} },
    unready: () => [],
    onResponseSent: () => {},
    onLogInRefused: () => true,
    onDatabaseFailure: () => {},
    isStopping: () => false,
    certificate: null,
    metricsText: async () => '# no metrics\n',
  };
}

const noSuchName = async () => ({ kind: 'nxdomain' }) as const;

/** A request that reaches the store is valid, and gets 503. */
function nothingBehind(): never {
  throw new DatabaseUnavailable('there is no database behind this');
}

/** A service without any objects. */
function nothingThere(): HttpServices['domains'] & HttpServices['webhooks'] {
  const refusal = async () => ({ refused: 'not_found', message: 'There is none.' });
  const list = async () => ({ rows: [], hasMore: false });
  return new Proxy({} as ReturnType<typeof nothingThere>, {
    get: (_target, name) => (name === 'list' ? list : refusal),
  });
}

async function exchange(port: number, bytes: string | Buffer): Promise<string> {
  const socket = connect({ host: '127.0.0.1', port });
  let response = '';
  socket.setEncoding('latin1').on('data', (chunk: string) => (response += chunk));
  // A reset after the response counts as a close; one before it leaves the response empty.
  socket.on('error', () => {});
  socket.on('connect', () => socket.write(bytes));
  await new Promise((resolve) => socket.on('close', resolve));
  return response;
}
