/** What the routes use, and the types they are written with. service/server.ts constructs it. */
import type {
  FastifyBaseLogger,
  FastifyInstance,
  onRequestHookHandler,
  RawReplyDefaultExpression,
  RawRequestDefaultExpression,
  RawServerDefault,
} from 'fastify';
import type { ZodTypeProvider } from 'fastify-type-provider-zod';
import type { Logger } from 'pino';
import type { Config } from '../config/config.ts';
import type { Caller, Scope } from '../core/scope.ts';
import type { World } from '../core/world.ts';
import type { MessageRecipient } from '../delivery/message.ts';
import type { DomainService } from '../domains/service.ts';
import type { AcceptEmail } from '../sending/accept.ts';
import type { AcceptBatch } from '../sending/email-batch.ts';
import type { Database } from '../store/postgres/database.ts';
import type { SecretBox } from '../store/secrets.ts';
import type { ScopeCategory } from '../store/limits.ts';
import type { WebhookService } from '../webhooks/service.ts';
import type { BodyAccount } from './bodies.ts';

export type HttpServices = {
  db: Database;
  world: World;
  log: Logger;
  accept: AcceptEmail;
  acceptBatch: AcceptBatch;
  secrets: SecretBox;
  config: Pick<
    Config,
    | 'metricsToken'
    | 'trustedProxies'
    | 'allowPrivateNetworks'
    | 'limits'
    | 'publicUrl'
    | 'hostname'
    | 'sources'
    | 'inboundPort'
    | 'retention'
  >;
  domains: DomainService;
  webhooks: WebhookService;
  /** Of this machine's HTTP listener, used if there is no public URL. */
  localUrl: string;
  /** The exact bytes that were or will be sent to a recipient; null when their content was removed. */
  contentOf: (
    wanted: Scope & { id: string; recipient: MessageRecipient },
  ) => Promise<Buffer | null>;
  /** null when requests can be served; else the reason (database, migrations). */
  isReady: () => Promise<string | null>;
  isStopping: () => boolean;
  /** For HTTPS; null: HTTP in clear text. */
  certificate: Certificate | null;
  /** Prometheus text. */
  metricsText: () => Promise<string>;
};

/** The certificate and its key, as PEM. */
type Pems = { cert: Buffer; key: Buffer };

export type Certificate = {
  /** A new object after the files have changed; null: no valid one exists. */
  pems(): Pems | null;
};

export type App = FastifyInstance<
  RawServerDefault,
  RawRequestDefaultExpression,
  RawReplyDefaultExpression,
  FastifyBaseLogger,
  ZodTypeProvider
>;

/**
 * Who may call a route. `full_access` is the default; `any_key`: also sending-only keys;
 * `public`: no key is needed.
 */
export type Access = 'public' | 'any_key' | 'full_access';

declare module 'fastify' {
  interface FastifyContextConfig {
    access?: Access;
    /** The route applies the caller's domain. A key for one domain has no access to other routes. */
    withinDomain?: true;
    /** The limit that this route counts towards: its responses carry the RateLimit headers. */
    limit?: ScopeCategory;
    /** Reads its body as a stream of any size; the function refuses other types. */
    streams?: onRequestHookHandler;
  }
  interface FastifyRequest {
    /** Set once the key has been checked; read it with callerOf. */
    caller: Caller | null;
    /** The share of the memory for bodies that its body holds; null without a body. */
    bodyAccount: BodyAccount | null;
  }
  interface FastifyInstance {
    /** The holder of the key as of now; null for unknown, revoked and expired ones. */
    findKey(text: string): Promise<Caller | null> | null;
    /** Removes a key from this process's cache at once, after it was revoked or changed. */
    forgetKey(keyId: string): void;
  }
}
