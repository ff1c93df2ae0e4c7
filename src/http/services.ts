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
  >;
  domains: DomainService;
  webhooks: WebhookService;
  /** Of this machine's HTTP, for as long as there is no public URL. */
  localUrl: string;
  /** The exact bytes that were or will be sent to a recipient; null when they are gone. */
  contentOf: (
    wanted: Scope & { id: string; recipient: MessageRecipient },
  ) => Promise<Buffer | null>;
  /** null when requests can be served; else why not (database, migrations). */
  isReady: () => Promise<string | null>;
  isStopping: () => boolean;
  /** With which HTTPS is spoken; null: HTTP in clear text. */
  certificate: Certificate | null;
  /** Prometheus text. */
  metricsText: () => Promise<string>;
};

/** The certificate and its key, as PEM. */
type Pems = { cert: Buffer; key: Buffer };

export type Certificate = {
  /** Another object after the files have changed; null: there is none that works. */
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
 * Who may call a route. `full_access` where a route says nothing; `any_key`: sending-only keys
 * too; `public`: no key at all.
 */
export type Access = 'public' | 'any_key' | 'full_access';

declare module 'fastify' {
  interface FastifyContextConfig {
    access?: Access;
    /** The route heeds the caller's domain. To all others a key for one domain has no access. */
    withinDomain?: true;
    /** The limit this route counts to: its responses carry the RateLimit headers. */
    limit?: ScopeCategory;
    /** Takes its body as it comes, of any size, and holds none of it: what refuses other types. */
    streams?: onRequestHookHandler;
  }
  interface FastifyRequest {
    /** Set once the key has been checked; read it with callerOf. */
    caller: Caller | null;
    /** What its body takes of the memory for bodies; null without a body. */
    bodyAccount: BodyAccount | null;
  }
  interface FastifyInstance {
    /** Makes this process forget a key at once, after it was revoked or changed. */
    forgetKey(keyId: string): void;
  }
}
