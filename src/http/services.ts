/** The services that routes use, and the types of routes. service/worker/server.ts constructs the services. */
import type { SecureContext } from 'node:tls';
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
import type { HttpAccounts } from '../accounts/http-accounts.ts';
import type { RefusedLogIn } from '../accounts/sign-in/refused-log-ins.ts';
import type { NewestBackup } from '../backup/newest-backup.ts';
import type { Config } from '../config/config.ts';
import type { OperatorEvents } from '../core/operator-events.ts';
import type { Unready } from '../core/unready.ts';
import type { Refusal } from '../core/refusals.ts';
import type { Caller, Scope } from '../core/scope.ts';
import type { World } from '../lib/world.ts';
import type { MessageRecipient } from '../delivery/message/message-builder.ts';
import type { DomainService } from '../domains/domains.ts';
import type { AcceptEmail } from '../accept/accept.ts';
import type { AttachmentUrls } from '../accept/content/attachment-urls.ts';
import type { Diagnose } from '../emails/diagnosis/diagnosis.ts';
import type { DryRun } from '../accept/dry-run/dry-run.ts';
import type { AcceptBatch } from '../accept/email-batch.ts';
import type { Database } from '../database/database.ts';
import type { SuppressionsMaximum } from '../accounts/limits/maximum-store.ts';
import type { SecretBox } from '../secrets/secret-box.ts';
import type { ScopeCategory } from '../accounts/limits/limit-store.ts';
import type { TemplateService } from '../templates/templates.ts';
import type { VisitBuffer } from '../tracking/visits.ts';
import type { WebhookService } from '../webhooks/endpoints.ts';
import type { BodyAccount } from './socket/bodies.ts';

export type HttpServices = {
  db: Database;
  world: World;
  log: Logger;
  accounts: HttpAccounts;
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
    | 'submissionPorts'
    | 'dnsProvider'
    | 'variables'
    | 'oidc'
    | 'trackingUrl'
    | 'hostname'
    | 'sources'
    | 'inboundPort'
    | 'retention'
    | 'shaping'
  >;
  domains: DomainService;
  /** `flush` resolves when all reported events are stored. */
  operatorEvents: OperatorEvents & { flush(): Promise<void> };
  templates: TemplateService;
  suppressionsMaximum: SuppressionsMaximum;
  /** Records opens and clicks. */
  visits: Pick<VisitBuffer, 'add'>;
  webhooks: WebhookService;
  /** The URL of this machine's HTTP listener, used when there is no public URL. */
  localUrl: string;
  /** Returns the exact bytes that were or will be sent to a recipient; null when their content was removed. */
  contentOf: (email: Scope & { id: string; recipient: MessageRecipient }) => Promise<Buffer | null>;
  /** Returns problems that do not prevent service. They contain no names, because anybody may read them. */
  readyWarnings: () => readonly string[];
  /** Returns whether the installation was restored and not released yet: it accepts mail and sends none. */
  isOnHold: () => boolean;
  /** Reads the newest backup where the service stores backups; null when it makes none. */
  newestBackup: () => Promise<NewestBackup | null>;
  /** Returns why mail is not accepted, or not sent. The reasons are found in the background, so it returns at once. */
  unready: () => readonly Unready[];
  onResponseSent: (request: SentResponse) => void;
  /** Logs a refused log-in. Returns false when it was only counted. */
  onLogInRefused: (logIn: RefusedLogIn) => boolean;
  onDatabaseFailure: () => void;
  isStopping: () => boolean;
  /** For HTTPS; null for plain HTTP. */
  certificate: Certificate | null;
  metricsText: () => Promise<string>;
};

/** A request with its response. `kind` is `accept` for emails and dry runs, `sign_in` for the start of a session. */
export type SentResponse = {
  kind: 'accept' | 'sign_in' | 'other';
  method: string;
  status: number;
  seconds: number;
};

type Pems = { cert: Buffer; key: Buffer };

export type Certificate = {
  /** Returns a new object after the files have changed; null when there is no valid certificate. */
  pems(): Pems | null;
  /** Returns the context of another certificate, for clients that ask for its name, or null when there is none. */
  contextFor?(name: string): SecureContext | null;
};

export type App = FastifyInstance<
  RawServerDefault,
  RawRequestDefaultExpression,
  RawReplyDefaultExpression,
  FastifyBaseLogger,
  ZodTypeProvider
>;

/**
 * Required access. `full_access` (the default) takes a key with all permissions, `any_key` also sending-only keys.
 * `session` takes only a session of the dashboard. `sign_in` takes neither, but only requests from the dashboard
 * itself. `public` takes everyone. A session can replace a key where its role allows the operation (roles.ts).
 */
export type Access = 'public' | 'any_key' | 'full_access' | 'session' | 'sign_in';

declare module 'fastify' {
  interface FastifyContextConfig {
    access?: Access;
    /** The route restricts itself to the caller's domain. Other routes refuse keys for one domain. */
    withinDomain?: true;
    /** The limit that requests to this route count towards. Responses have the RateLimit headers. */
    limit?: ScopeCategory;
    /** The route reads its body as a stream of any size; the function refuses other types. */
    checkUpload?: onRequestHookHandler;
    /** The route refuses every request with a valid key with this, before it reads the body. */
    refuseAll?: Refusal;
    /** The body may be of any type and encoding, because the path contains all parameters. */
    takesAnyBody?: true;
    /** The operation of `/v1` as which the audit log records changes by this route (accounts/audit/http-audit.ts). */
    auditedAs?: string;
    /** Recipients of mail use this route, so the log does not contain client addresses. */
    isForRecipients?: true;
  }
  interface FastifyRequest {
    /** Set after the key was checked; read it with callerOf. */
    caller: Caller | null;
    /** Set when a key, a password, a link or a cookie was refused. */
    refusedLogIn: Pick<RefusedLogIn, 'way' | 'result'> | null;
    bodyAccount: BodyAccount | null;
  }
}
