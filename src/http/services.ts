/** The services that routes use, and the types of routes. service/worker/server.ts constructs them. */
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
import type { RefusedLogIn } from '../accounts/sign-in/refused-log-ins.ts';
import type { NewestBackup } from '../backup/newest.ts';
import type { Config } from '../config/config.ts';
import type { OperatorEvents } from '../core/operator-events.ts';
import type { Unready } from '../core/readiness.ts';
import type { Refusal } from '../core/refusals.ts';
import type { Caller, Scope } from '../core/scope.ts';
import type { World } from '../lib/world.ts';
import type { MessageRecipient } from '../delivery/attempt/message.ts';
import type { DomainService } from '../domains/domains.ts';
import type { AcceptEmail } from '../accept/accept.ts';
import type { AttachmentUrls } from '../accept/content/attachment-urls.ts';
import type { Diagnose } from '../emails/diagnosis/diagnosis.ts';
import type { DryRun } from '../accept/dry-run.ts';
import type { AcceptBatch } from '../accept/email-batch.ts';
import type { Database } from '../database/database.ts';
import type { SuppressionRoom } from '../accounts/limits/maximum-store.ts';
import type { SecretBox } from '../secrets/secret-store.ts';
import type { ScopeCategory } from '../accounts/limits/limit-store.ts';
import type { TemplateService } from '../templates/templates.ts';
import type { Visits } from '../tracking/visits.ts';
import type { WebhookService } from '../webhooks/endpoints.ts';
import type { BodyAccount } from './socket/bodies.ts';

export type HttpServices = {
  db: Database;
  world: World;
  log: Logger;
  accept: AcceptEmail;
  acceptBatch: AcceptBatch;
  attachmentUrls: Pick<AttachmentUrls, 'forRequest' | 'stop'>;
  dryRun: DryRun;
  diagnose: Diagnose;
  secrets: SecretBox;
  config: Pick<
    Config,
    | 'metricsToken'
    | 'trustedProxies'
    | 'allowPrivateNetworks'
    | 'limits'
    | 'domainsMax'
    | 'publicUrl'
    | 'trackingUrl'
    | 'hostname'
    | 'sources'
    | 'inboundPort'
    | 'retention'
    | 'shaping'
  >;
  domains: DomainService;
  /** `flush` resolves when what was reported is written. */
  operatorEvents: OperatorEvents & { flush(): Promise<void> };
  templates: TemplateService;
  suppressionRoom: SuppressionRoom;
  /** Opens and clicks. */
  visits: Pick<Visits, 'note'>;
  webhooks: WebhookService;
  /** The URL of this machine's HTTP listener, used if there is no public URL. */
  localUrl: string;
  /** The exact bytes that were or will be sent to a recipient; null when their content was removed. */
  contentOf: (
    wanted: Scope & { id: string; recipient: MessageRecipient },
  ) => Promise<Buffer | null>;
  /** What is wrong although requests can be served; without names, because nobody has to prove who asks. */
  readyWarnings: () => readonly string[];
  /** Restored and not released yet: mail is accepted and nothing is sent. */
  isOnHold: () => boolean;
  /** Looked for where the service puts backups; null: it makes none. */
  newestBackup: () => Promise<NewestBackup | null>;
  /** Why mail is not accepted, or not sent; empty when it is. Known already, so that nothing waits for it. */
  unready: () => readonly Unready[];
  /** For metrics. */
  onAnswered: (request: AnsweredRequest) => void;
  /** For the log. @returns whether it has the line; false: it is only counted */
  onLogInRefused: (logIn: RefusedLogIn) => boolean;
  onDatabaseFailure: () => void;
  isStopping: () => boolean;
  /** For HTTPS; null: plain HTTP. */
  certificate: Certificate | null;
  metricsText: () => Promise<string>;
};

/** `kind`: `accept` sends emails, or would; `sign_in` begins a session of the dashboard. */
export type AnsweredRequest = {
  kind: 'accept' | 'sign_in' | 'other';
  method: string;
  status: number;
  seconds: number;
};

type Pems = { cert: Buffer; key: Buffer };

export type Certificate = {
  /** A new object after the files have changed; null: there is no valid certificate. */
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
 * Required access: `full_access` (default); `any_key`: also sending-only keys; `public`: no key; `session`:
 * a session of the dashboard, no key; `sign_in`: none, but only from the dashboard itself. Keys may be
 * replaced by a session whose role allows the operation (roles.ts).
 */
export type Access = 'public' | 'any_key' | 'full_access' | 'session' | 'sign_in';

declare module 'fastify' {
  interface FastifyContextConfig {
    access?: Access;
    /** The route restricts itself to the caller's domain. Other routes refuse keys for one domain. */
    withinDomain?: true;
    /** The limit that requests to this route count towards; its responses have the RateLimit headers. */
    limit?: ScopeCategory;
    /** Reads its body as a stream of any size; the function refuses other types. */
    streams?: onRequestHookHandler;
    /** Every request with a valid key is refused so, before its body is read, of whatever type that is. */
    refuses?: Refusal;
    /** Its body may be of any type and encoding, because what it asks for is in the path. */
    takesAnyBody?: true;
    /** Recipients of mail, or those they show it to, come here: the log does not have their addresses. */
    isForRecipients?: true;
  }
  interface FastifyRequest {
    /** Set after the key was checked; read it with callerOf. */
    caller: Caller | null;
    /** Set when a key, a password, a link or a cookie was refused. */
    refusedLogIn: Pick<RefusedLogIn, 'way' | 'result'> | null;
    /** The memory that its body holds; null without a body. */
    bodyAccount: BodyAccount | null;
  }
  interface FastifyInstance {
    /** Removes a key from this process's cache after it was revoked or changed. */
    forgetKey(keyId: string): void;
  }
}
